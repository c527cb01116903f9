// Sums over runs of rows, given in place or by a list of row numbers.
//
//   segment_sum: out[s, :] = sum over i in offsets[s]..offsets[s + 1] of weight[i] * x[index[i], :]
//   segment_sum_bwd (of a sum in place): dx[i, :] = dout[s, :] for the segment s that holds i
// The adjoint of a sum over a list is the sum over the transposed lists.
//
// Shapes: offsets [n_segments + 1], x and out row-major with `width` columns, index and weight [n_items]. Where `indexed`
// is 0, item i is row i; where `weighted` is 0, weights are 1; what is not used is not read. A segment without items gives
// zeros.
// Segments of fewer than `long_length` items are summed by one warp each (segment_sum_fwd), the others, which `long_segments`
// lists, by one block each (segment_sum_long_fwd); each kernel leaves the other's rows alone.
// Determinism: no atomics. The order of a sum depends on the segment's length and the width only, so a segment gives the
// same bits whichever other segments stand beside it and however the launch is shaped.
#include "kernel.cuh"
#include "segment_sum.cuh"

namespace segments {

constexpr int WARPS_LONG = 8;

struct Items {
    const unsigned *index; // null: item i is row i
    const float *weight;   // null: 1
    const float *x;
    unsigned width;
};

// The lane's share of items first, first + step, ..., before `end`, at vector `column`.
template <int W>
__device__ inline Vector<W> partial_sum(const Items &items, unsigned long long first, unsigned long long end,
                                        unsigned step, unsigned column) {
    Vector<W> sum = zero_vector<W>();
    if (column * W >= items.width) return sum;
    const float *x = items.x + static_cast<unsigned long long>(column) * W;
#pragma unroll 4
    for (unsigned long long i = first; i < end; i += step) {
        const unsigned long long row = items.index ? items.index[i] : i;
        const float factor = items.weight ? items.weight[i] : 1.0f;
        add_scaled<W>(sum, factor, load<W>(x + row * items.width));
    }
    return sum;
}

template <int W>
__device__ void short_segments(const unsigned long long *offsets, const Items &items, unsigned n_segments,
                               unsigned long_length, float *out) {
    const unsigned lane = threadIdx.x & 31;
    const unsigned long long segment =
        (static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
    if (segment >= n_segments) return;
    const unsigned long long first = offsets[segment], end = offsets[segment + 1];
    if (end - first >= long_length) return;
    const unsigned n_vectors = items.width / W;
    const unsigned lanes = group_lanes(n_vectors);
    const unsigned group = lane / lanes;
    for (unsigned tile = 0; tile < n_vectors; tile += lanes) {
        const unsigned column = tile + lane % lanes;
        Vector<W> sum = partial_sum<W>(items, first + group, end, 32 / lanes, column);
        add_groups<W>(sum, lanes);
        if (group == 0 && column < n_vectors)
            store<W>(out + segment * items.width + static_cast<unsigned long long>(column) * W, sum);
    }
}

template <int W>
__device__ void long_segments(const unsigned long long *offsets, const unsigned *listed, const Items &items,
                              float *out) {
    __shared__ Vector<W> sums[WARPS_LONG][32];
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const unsigned long long segment = listed[blockIdx.x];
    const unsigned long long first = offsets[segment], end = offsets[segment + 1];
    const unsigned n_vectors = items.width / W;
    const unsigned lanes = group_lanes(n_vectors);
    const unsigned groups = 32 / lanes;
    const unsigned group = lane / lanes;
    for (unsigned tile = 0; tile < n_vectors; tile += lanes) {
        const unsigned column = tile + lane % lanes;
        Vector<W> sum = partial_sum<W>(items, first + warp * groups + group, end, WARPS_LONG * groups, column);
        add_groups<W>(sum, lanes);
        sums[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && group == 0 && column < n_vectors) {
            for (int other = 1; other < WARPS_LONG; ++other) add_scaled<W>(sum, 1.0f, sums[other][lane]);
            store<W>(out + segment * items.width + static_cast<unsigned long long>(column) * W, sum);
        }
        __syncthreads(); // the next tile writes `sums` again
    }
}

__device__ inline bool by_fours(unsigned width) { return width % 4 == 0; }

} // namespace segments

extern "C" __global__ void __launch_bounds__(256)
    segment_sum_fwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ index, unsigned indexed,
                    const float *__restrict__ weight, unsigned weighted, const float *__restrict__ x,
                    unsigned n_segments, unsigned width, unsigned long_length, float *__restrict__ out) {
    const segments::Items items{indexed ? index : nullptr, weighted ? weight : nullptr, x, width};
    if (segments::by_fours(width))
        segments::short_segments<4>(offsets, items, n_segments, long_length, out);
    else
        segments::short_segments<1>(offsets, items, n_segments, long_length, out);
}

extern "C" __global__ void __launch_bounds__(256)
    segment_sum_long_fwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ long_segments,
                         const unsigned *__restrict__ index, unsigned indexed, const float *__restrict__ weight,
                         unsigned weighted, const float *__restrict__ x, unsigned width, float *__restrict__ out) {
    const segments::Items items{indexed ? index : nullptr, weighted ? weight : nullptr, x, width};
    if (segments::by_fours(width))
        segments::long_segments<4>(offsets, long_segments, items, out);
    else
        segments::long_segments<1>(offsets, long_segments, items, out);
}

// One thread an element of dx; the segment of a row is found by bisection, so that long and short segments cost the same.
extern "C" __global__ void __launch_bounds__(256)
    segment_sum_bwd(const unsigned long long *__restrict__ offsets, const float *__restrict__ dout, unsigned n_segments,
                    unsigned width, unsigned long long n_elements, float *__restrict__ dx) {
    const unsigned long long element = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (element >= n_elements) return;
    const unsigned long long row = element / width;
    unsigned low = 0, high = n_segments; // offsets[low] <= row < offsets[high]
    while (high - low > 1) {
        const unsigned middle = low + (high - low) / 2;
        if (offsets[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    dx[element] = dout[static_cast<unsigned long long>(low) * width + element % width];
}
