// What a benchmark counts: threads that never wait, threads that shuffle, threads that meet at
// barriers. Each does little else.
#include "kernel.cuh"

extern "C" __global__ void __launch_bounds__(256) without_switch(float a, const float* x, unsigned n, float* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __fmaf_rn(a, x[i], y[i]);
}

// 32 shuffles.
extern "C" __global__ void __launch_bounds__(256) with_shuffles(const unsigned* x, unsigned* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = x[i];
    for (int lane = 0; lane < 32; ++lane) sum += __shfl_sync(0xffffffffu, sum, lane);
    y[i] = sum;
}

// 32 barriers.
extern "C" __global__ void __launch_bounds__(256) with_barriers(const unsigned* x, unsigned* y) {
    __shared__ unsigned values[2][256];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = x[i];
    for (unsigned step = 0; step < 32; ++step) {
        values[step % 2][threadIdx.x] = sum;
        __syncthreads();
        sum += values[step % 2][(threadIdx.x + 1) % 256];
    }
    y[i] = sum;
}
