// Sums over the buffers of several ranks that share one device: the kernels of the `local` way of all-reduce.
//
//   peer_sum:       out[i] = ((part_0[i] + part_1[i]) + part_2[i]) + ...        in rank order, as the host's all-reduce
//   peer_exact_sum: out[i] = the exact sum of element i over all blocks of all ranks
//
// Shapes: `parts` [n_parts] holds the address of each rank's buffer; for peer_sum each has `length` elements from
// `first` on, for peer_exact_sum part p has n_blocks[p] blocks of `length` elements. Determinism: peer_sum adds in rank
// order. peer_exact_sum is fixed point: with e the largest exponent of the element over all blocks, each partial
// becomes the integer nearest to x * 2^(46 - e), and integers add up in any order to the same bits. It is the
// arithmetic of `Comm::exact_sum` on the host, operation by operation, so both give the same bits; the caller bounds
// the number of blocks by 2^16. Bytes: peer_sum 4 (n_parts + 1) an element; peer_exact_sum 8 a partial (the second pass
// may hit the cache) and 4 an element.
#include "fixed_point.cuh"
#include "kernel.cuh"
#include "warp.cuh"

namespace {

// Element `i` of every block of every part, one after the other.
template <typename Visit>
__device__ void for_each_partial(const unsigned long long *parts, const unsigned long long *n_blocks, unsigned n_parts,
                                 unsigned long long length, unsigned long long i, Visit visit) {
    for (unsigned p = 0; p < n_parts; ++p) {
        const float *blocks = reinterpret_cast<const float *>(parts[p]);
        const unsigned long long n = n_blocks[p];
        for (unsigned long long b = 0; b < n; ++b) visit(blocks[b * length + i]);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    peer_sum(const unsigned long long *parts, unsigned n_parts, unsigned long long first, unsigned long long length,
             float *out) {
    const unsigned long long i = thread_of_grid();
    if (i >= length) return;
    float sum = reinterpret_cast<const float *>(parts[0])[first + i];
    for (unsigned p = 1; p < n_parts; ++p) sum += reinterpret_cast<const float *>(parts[p])[first + i];
    out[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    peer_exact_sum(const unsigned long long *parts, const unsigned long long *n_blocks, unsigned n_parts,
                   unsigned long long length, float *out) {
    const unsigned long long i = thread_of_grid();
    if (i >= length) return;
    unsigned largest = 0;
    NonFinite kinds = {false, false, false};
    for_each_partial(parts, n_blocks, n_parts, length, i, [&](float x) {
        const unsigned bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
        kinds.nan |= magnitude > 0x7f800000u;
        kinds.positive |= bits == 0x7f800000u;
        kinds.negative |= bits == 0xff800000u;
    });
    const unsigned exponent = largest >> 23;
    if (exponent == NON_FINITE) {
        out[i] = sum_of_non_finite(kinds);
        return;
    }
    const double scale = fixed_point_scale(exponent);
    unsigned long long sum = 0; // two's complement, so that wrapping is defined
    for_each_partial(parts, n_blocks, n_parts, length, i, [&](float x) { sum += to_fixed_point(x, scale); });
    out[i] = from_fixed_point(sum, exponent);
}
