// The logarithm of each row's softmax, and a one where each row is largest.
//
// Shapes: x and out have n_rows rows of `width` elements; a warp has one row. Bytes: 8 n_rows width, the row being read
// again from the cache.
//
// Determinism: lane l adds the exponentials of the columns l, l + 32, ... in order, then the lanes are added by a tree:
// an order that depends on the width alone. The argmax is exact, as on the host.
#include "kernel.cuh"
#include "warp.cuh"

namespace {

// Whether (x, column) goes before (y, other): the larger value, of equal ones the lower column, NaN last.
__device__ inline bool goes_before(float x, unsigned long long column, float y, unsigned long long other) {
    const bool x_is_nan = x != x;
    const bool y_is_nan = y != y;
    if (x_is_nan != y_is_nan) {
        return y_is_nan;
    }
    return x > y || ((x == y || x_is_nan) && column < other);
}

} // namespace

// Grid: 32 threads a row.
extern "C" __global__ void __launch_bounds__(256) log_softmax_fwd(const float *__restrict__ x, float *__restrict__ out,
                                                                  unsigned long long n_rows, unsigned long long width) {
    const unsigned long long row = warp_of_grid();
    if (row >= n_rows) {
        return;
    }
    const float *const from = x + row * width;
    const unsigned lane = lane_of_warp();
    float largest = -INFINITY;
    for (unsigned long long j = lane; j < width; j += WARP) {
        largest = from[j] > largest ? from[j] : largest;
    }
    largest = warp_max(largest);
    float sum = 0.0f;
    for (unsigned long long j = lane; j < width; j += WARP) {
        sum += expf(from[j] - largest);
    }
    sum = warp_sum(sum);
    const float log_sum = logf(sum);
    for (unsigned long long j = lane; j < width; j += WARP) {
        out[row * width + j] = (from[j] - largest) - log_sum;
    }
}

// Grid: 32 threads a row.
extern "C" __global__ void __launch_bounds__(256) argmax_rows_fwd(const float *__restrict__ x, float *__restrict__ out,
                                                                  unsigned long long n_rows, unsigned long long width) {
    const unsigned long long row = warp_of_grid();
    if (row >= n_rows) {
        return;
    }
    const float *const from = x + row * width;
    const unsigned lane = lane_of_warp();
    // A lane without a column stands for the first one: that changes no answer.
    unsigned long long column = lane < width ? lane : 0ull;
    float best = from[column];
    for (unsigned long long j = lane + WARP; j < width; j += WARP) {
        if (goes_before(from[j], j, best, column)) {
            best = from[j];
            column = j;
        }
    }
    for (unsigned half = WARP / 2u; half > 0u; half /= 2u) {
        const float other = __shfl_xor_sync(ALL_LANES, best, half);
        const unsigned long long other_column = __shfl_xor_sync(ALL_LANES, column, half);
        if (goes_before(other, other_column, best, column)) {
            best = other;
            column = other_column;
        }
    }
    for (unsigned long long j = lane; j < width; j += WARP) {
        out[row * width + j] = j == column ? 1.0f : 0.0f;
    }
}
