// Sums in f64 over the threads of a block, in an order that depends on nothing.
#pragma once

#include "kernel.cuh"

constexpr unsigned SUM_THREADS = 256u;
constexpr unsigned long long SUMMED_PER_BLOCK = 4096ull;

// The sum over the block's 256 threads, known to thread 0; all of them call it.
__device__ inline double block_sum(double own, double *sums) {
    sums[threadIdx.x] = own;
    for (unsigned half = SUM_THREADS / 2u; half > 0u; half /= 2u) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
    }
    return sums[0];
}
