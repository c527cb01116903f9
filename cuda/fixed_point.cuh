// The arithmetic of the exact sum: fixed point with one exponent an element, operation by operation that of
// `Comm::exact_sum` on the host, so that both give the same bits.
//
// With e the largest exponent of the element over all blocks, each partial becomes the integer nearest to x * 2^(46 -
// e). Its magnitude is below 2^47, so 2^16 of them add up within 64 bits, in any order.
#pragma once

#include "kernel.cuh"

namespace {

constexpr int FRACTION_BITS = 46;
// The exponent field of an infinity or NaN.
constexpr unsigned NON_FINITE = 255;
// Adding 1.5 * 2^52 to a double below 2^51 leaves its nearest integer (ties to even) in the low bits of the sum.
constexpr double ROUNDER = 6755399441055744.0;

__device__ inline double power_of_two(int power) {
    return __longlong_as_double(static_cast<long long>(1023 + power) << 52);
}

// The exponent of the power of two at or below the magnitudes with this exponent field; subnormals share the lowest.
__device__ inline int unbiased(unsigned exponent) { return static_cast<int>(exponent < 1 ? 1 : exponent) - 127; }

__device__ inline double fixed_point_scale(unsigned exponent) {
    return power_of_two(FRACTION_BITS - unbiased(exponent));
}

__device__ inline unsigned long long to_fixed_point(float x, double scale) {
    const double rounded = static_cast<double>(x) * scale + ROUNDER;
    return static_cast<unsigned long long>(__double_as_longlong(rounded)) -
           static_cast<unsigned long long>(__double_as_longlong(ROUNDER));
}

// The only rounding of a sum.
__device__ inline float from_fixed_point(unsigned long long sum, unsigned exponent) {
    const float digits = static_cast<float>(static_cast<long long>(sum));
    return static_cast<float>(static_cast<double>(digits) * power_of_two(unbiased(exponent) - FRACTION_BITS));
}

// Which numbers that are not finite an element has among its partials.
struct NonFinite {
    bool nan, positive, negative;
};

__device__ inline float sum_of_non_finite(NonFinite kinds) {
    if (!kinds.nan && kinds.positive != kinds.negative)
        return __uint_as_float(kinds.positive ? 0x7f800000u : 0xff800000u);
    return __uint_as_float(0x7fc00000u);
}

} // namespace
