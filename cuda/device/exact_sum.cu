// The exact sum of one rank, and the pieces of one whose two all-reduces a library of collectives does.
//
//   exact_sum:       out[i] = the exact sum of element i over all blocks
//   exact_exponents: exponents[i] = the largest exponent field of element i over the blocks of this rank
//   exact_fixed:     sums[i] = the sum of element i over the blocks of this rank, in fixed point; `exponents` are those
//                    of all ranks
//   exact_round:     out[i] = sums[i] rounded to a float; `sums` and `exponents` are those of all ranks
//
// Shapes: blocks [n_blocks, length]; all others [length].
// Determinism: exponents are reduced by max and sums by integer addition, between these kernels too, so no order shows;
// the arithmetic is in fixed_point.cuh. An element with an infinity or NaN somewhere has counts of each kind in place
// of its sum: 20 bits each from bit 0 (NaN), 20 (+inf) and 40 (-inf) on. The caller bounds the number of blocks of all
// ranks by 2^16. Bytes: exact_sum 8 a partial and 4 an element; exact_exponents 4 a partial and 1 an element;
// exact_fixed 4 a partial and 9 an element; exact_round 13 an element.
#include "fixed_point.cuh"
#include "kernel.cuh"
#include "warp.cuh"

namespace {

constexpr int POSITIVE_SHIFT = 20;
constexpr int NEGATIVE_SHIFT = 40;
constexpr unsigned long long COUNT_MASK = (1ull << POSITIVE_SHIFT) - 1;

// What a partial adds to the counts of an element that has an infinity or NaN.
__device__ inline unsigned long long count_of(float x) {
    const unsigned bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 1;
    if (bits == 0x7f800000u) return 1ull << POSITIVE_SHIFT;
    return bits == 0xff800000u ? 1ull << NEGATIVE_SHIFT : 0;
}

// The largest exponent field of an element over the blocks.
__device__ inline unsigned largest_exponent(const float *blocks, unsigned long long n_blocks, unsigned long long length,
                                            unsigned long long i) {
    unsigned largest = 0;
    for (unsigned long long b = 0; b < n_blocks; ++b) {
        const unsigned magnitude = __float_as_uint(blocks[b * length + i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest >> 23;
}

// The sum of an element over the blocks in fixed point, or the counts of its infinities and NaNs.
__device__ inline unsigned long long fixed_sum(const float *blocks, unsigned long long n_blocks,
                                               unsigned long long length, unsigned exponent, unsigned long long i) {
    const double scale = exponent == NON_FINITE ? 0.0 : fixed_point_scale(exponent);
    unsigned long long sum = 0;
    for (unsigned long long b = 0; b < n_blocks; ++b) {
        const float x = blocks[b * length + i];
        sum += exponent == NON_FINITE ? count_of(x) : to_fixed_point(x, scale);
    }
    return sum;
}

__device__ inline float rounded(unsigned long long sum, unsigned exponent) {
    if (exponent != NON_FINITE) return from_fixed_point(sum, exponent);
    const NonFinite kinds = {(sum & COUNT_MASK) != 0, ((sum >> POSITIVE_SHIFT) & COUNT_MASK) != 0,
                             (sum >> NEGATIVE_SHIFT) != 0};
    return sum_of_non_finite(kinds);
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    exact_sum(const float *blocks, unsigned long long n_blocks, unsigned long long length, float *out) {
    const unsigned long long i = thread_of_grid();
    if (i >= length) return;
    const unsigned exponent = largest_exponent(blocks, n_blocks, length, i);
    out[i] = rounded(fixed_sum(blocks, n_blocks, length, exponent, i), exponent);
}

extern "C" __global__ void __launch_bounds__(256) exact_exponents(const float *blocks, unsigned long long n_blocks,
                                                                  unsigned long long length, unsigned char *exponents) {
    const unsigned long long i = thread_of_grid();
    if (i >= length) return;
    exponents[i] = static_cast<unsigned char>(largest_exponent(blocks, n_blocks, length, i));
}

extern "C" __global__ void __launch_bounds__(256)
    exact_fixed(const float *blocks, unsigned long long n_blocks, unsigned long long length,
                const unsigned char *exponents, unsigned long long *sums) {
    const unsigned long long i = thread_of_grid();
    if (i >= length) return;
    sums[i] = fixed_sum(blocks, n_blocks, length, exponents[i], i);
}

extern "C" __global__ void __launch_bounds__(256)
    exact_round(const unsigned long long *sums, const unsigned char *exponents, unsigned long long length, float *out) {
    const unsigned long long i = thread_of_grid();
    if (i >= length) return;
    out[i] = rounded(sums[i], exponents[i]);
}
