// Row operations: gather by index, scale by a factor a row, copy of a rectangle, sums of rows. (Scatter is a sparse
// product with lists by target row: sparse_csr.cu.)
//
// A thread has one element, or four adjacent ones where the launcher says vec = 4 (every stride and first index
// divides by 4). Bytes: gather 4 an index + 8 * width a row; scale_rows 4 + 8 * width a row; copy_2d 8 an element;
// row_sums 4 an element.
// Determinism: one operation an element, the host's bits; lane l of a row's sum adds the columns l, l + 32, ... in
// order, then the lanes are added by a tree: an order that depends on the width alone.
#include "kernel.cuh"
#include "warp.cuh"

namespace {

constexpr unsigned NO_ROW = 0xffffffffu;

} // namespace

// out[i] = x[index[i]] by rows of `width` elements; index 2^32 - 1 gives zeros. Grid: one thread for `vec` elements
// of out.
extern "C" __global__ void __launch_bounds__(256)
    gather_rows_fwd(const unsigned *__restrict__ index, const float *__restrict__ x, float *__restrict__ out,
                    unsigned long long n_out, unsigned long long width, unsigned vec) {
    const Element to = element_of(thread_of_grid(), width / vec);
    if (to.row >= n_out) {
        return;
    }
    const unsigned row = index[to.row];
    const unsigned long long column = to.column * vec;
    const float *const from = x + row * width + column;
    float *const target = out + to.row * width + column;
    if (vec == 4u) {
        store4(target, row == NO_ROW ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : load4(from));
    } else {
        *target = row == NO_ROW ? 0.0f : *from;
    }
}

// x[i] *= factors[i] by rows, in place. Grid: one thread for `vec` elements.
extern "C" __global__ void __launch_bounds__(256)
    scale_rows_fwd(const float *__restrict__ factors, float *__restrict__ x, unsigned long long n_rows,
                   unsigned long long width, unsigned vec) {
    const Element to = element_of(thread_of_grid(), width / vec);
    if (to.row >= n_rows) {
        return;
    }
    const float factor = factors[to.row];
    float *const target = x + to.row * width + to.column * vec;
    if (vec == 4u) {
        const float4 v = load4(target);
        store4(target, make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w));
    } else {
        *target *= factor;
    }
}

// Copies n_rows rows of `width` elements between two row-major matrices. Grid: one thread for `vec` elements.
extern "C" __global__ void __launch_bounds__(256)
    copy_2d_fwd(const float *__restrict__ source, float *__restrict__ target, unsigned long long n_rows,
                unsigned long long width, unsigned long long source_first, unsigned long long source_stride,
                unsigned long long target_first, unsigned long long target_stride, unsigned vec) {
    const Element place = element_of(thread_of_grid(), width / vec);
    if (place.row >= n_rows) {
        return;
    }
    const float *const from = source + source_first + place.row * source_stride + place.column * vec;
    float *const to = target + target_first + place.row * target_stride + place.column * vec;
    if (vec == 4u) {
        store4(to, load4(from));
    } else {
        *to = *from;
    }
}

// out[i] = the sum of row i of x. Grid: 32 threads a row.
extern "C" __global__ void __launch_bounds__(256) row_sums_fwd(const float *__restrict__ x, float *__restrict__ out,
                                                               unsigned long long n_rows, unsigned long long width) {
    const unsigned long long row = warp_of_grid();
    if (row >= n_rows) {
        return;
    }
    const unsigned lane = lane_of_warp();
    float sum = 0.0f;
    for (unsigned long long j = lane; j < width; j += WARP) {
        sum += x[row * width + j];
    }
    sum = warp_sum(sum);
    if (lane == 0u) {
        out[row] = sum;
    }
}
