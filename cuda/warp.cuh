// What the 32 lanes of a warp do together, the numbers of a thread and a warp in the grid, and four
// adjacent floats as one access of 16 bytes.
//
// Sums are butterflies: every lane has the sum, added in an order that depends on nothing.
#pragma once

#include "kernel.cuh"

constexpr unsigned WARP = 32u;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ __forceinline__ unsigned lane_of_warp() { return threadIdx.x % WARP; }

__device__ __forceinline__ unsigned long long thread_of_grid() {
    return static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// A block's number in a grid whose z has what is too much for y.
__device__ __forceinline__ unsigned block_in_y() { return blockIdx.z * gridDim.y + blockIdx.y; }

__device__ __forceinline__ unsigned long long warp_of_grid() { return thread_of_grid() / WARP; }

__device__ __forceinline__ unsigned long long warps_of_grid() {
    return static_cast<unsigned long long>(gridDim.x) * (blockDim.x / WARP);
}

struct Element {
    unsigned long long row;
    unsigned long long column;
};

// Row and column of the i-th element of rows of `width`; by 32-bit division where the numbers allow it.
__device__ __forceinline__ Element element_of(unsigned long long i, unsigned long long width) {
    if ((i | width) >> 32) {
        return {i / width, i % width};
    }
    return {unsigned(i) / unsigned(width), unsigned(i) % unsigned(width)};
}

template <class T> __device__ __forceinline__ T warp_sum(T value) {
    for (unsigned offset = WARP / 2u; offset > 0u; offset /= 2u) value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

template <class T> __device__ __forceinline__ T warp_max(T value) {
    for (unsigned offset = WARP / 2u; offset > 0u; offset /= 2u) {
        const T other = __shfl_xor_sync(ALL_LANES, value, offset);
        value = other > value ? other : value;
    }
    return value;
}

// N <= 8 sums at once by 9 shuffles where one by one takes 5 N: lane l has the sum of values[l / 4], if l / 4 < N.
template <unsigned N> __device__ __forceinline__ float warp_sum_of_each(float (&values)[8]) {
    const unsigned lane = lane_of_warp();
#pragma unroll
    for (unsigned half = 4u; half > 0u; half /= 2u) {
        const bool is_upper = (lane & (4u * half)) != 0u;
#pragma unroll
        for (unsigned i = 0; i < half; ++i) {
            if (half == 4u && i + half >= N) { // no value is above: the upper lanes' sum is nobody's
                values[i] += __shfl_xor_sync(ALL_LANES, values[i], 4u * half);
                continue;
            }
            const float kept = is_upper ? values[i + half] : values[i];
            const float given = is_upper ? values[i] : values[i + half];
            values[i] = kept + __shfl_xor_sync(ALL_LANES, given, 4u * half);
        }
    }
    float sum = values[0];
    sum += __shfl_xor_sync(ALL_LANES, sum, 2u);
    sum += __shfl_xor_sync(ALL_LANES, sum, 1u);
    return sum;
}

// The first of the four adjacent elements that a thread of an element-wise kernel has.
__device__ __forceinline__ unsigned long long first_of_four() { return 4ull * thread_of_grid(); }

// `from` and `to` are aligned to 16 bytes.
__device__ __forceinline__ float4 load4(const float *from) { return *reinterpret_cast<const float4 *>(from); }

__device__ __forceinline__ void store4(float *to, float4 value) { *reinterpret_cast<float4 *>(to) = value; }
