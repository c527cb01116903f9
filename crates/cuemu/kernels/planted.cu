// Planted bugs, and beside most of them the right program. Each wrong one is to be caught, by the
// build that should catch it; each right one is to pass in all.
#include "kernel.cuh"

// Wrong programs that the emulator itself refuses.

extern "C" __global__ void own_lane_not_in_mask(unsigned* out) {
    out[threadIdx.x] = __shfl_sync(0x0000ffffu, threadIdx.x, 0);
}
extern "C" __global__ void masks_overlap(unsigned* out) {
    out[threadIdx.x] = threadIdx.x < 16 ? __ballot_sync(0x0001ffffu, 1) : __ballot_sync(0xffff0000u, 1);
}
extern "C" __global__ void lane_never_comes(unsigned* out) {
    if (threadIdx.x != 5) out[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
    __syncthreads();
}
extern "C" __global__ void different_collectives(unsigned* out) {
    out[threadIdx.x] = threadIdx.x == 0 ? __ballot_sync(0xffffffffu, 1) : __shfl_sync(0xffffffffu, 1u, 0);
}
extern "C" __global__ void different_barriers(unsigned* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 0;
}
extern "C" __global__ void bad_width(unsigned* out) { out[threadIdx.x] = __shfl_sync(0xffffffffu, 1u, 0, 12); }
extern "C" __global__ void trapped(unsigned* out) {
    if (threadIdx.x == 3) __trap();
    out[threadIdx.x] = 0;
}

extern "C" __global__ void waits_for_a_later_block(unsigned* flag) {
    if (blockIdx.x == 0) {
        while (load_relaxed(flag) == 0) {
        }
    } else {
        store_relaxed(flag, 1u);
    }
}

// A wrong program that is stopped while every thread has an array on its stack, and a right one with another.
extern "C" __global__ void stopped_with_arrays(unsigned* out) {
    unsigned own[5] = {};
    own[out[0] % 5] = threadIdx.x;
    if (threadIdx.x != 5) __syncwarp();
    __syncthreads();
    out[threadIdx.x] = own[out[0] % 5];
}
extern "C" __global__ void runs_with_arrays(unsigned* out) {
    unsigned own[40];
    for (unsigned i = 0; i < 40; ++i) own[i] = out[0] + i;
    __syncthreads();
    unsigned sum = 0;
    for (unsigned i = 0; i < 40; ++i) sum += own[(i + threadIdx.x) % 40];
    __syncthreads();
    out[threadIdx.x] = sum;
}

// Wrong programs of memory.

extern "C" __global__ void unwritten_local(float* out) {
    float sums[2];
    sums[threadIdx.x & 1] = 1.0f;
    out[threadIdx.x] = sums[0] + sums[1];
}

extern "C" __global__ void __launch_bounds__(256) no_first_barrier(const float* x, float* out) {
    __shared__ float partial[256];
    partial[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    for (unsigned step = 128; step > 0; step >>= 1) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}
extern "C" __global__ void global_overrun(const float* x, unsigned n, float* out) {
    const unsigned i = threadIdx.x;
    if (i <= n) out[i] = x[i]; // wants i < n
}
extern "C" __global__ void straddling_load(const float* x, unsigned n, float* out) {
    const unsigned long long last = reinterpret_cast<const unsigned long long*>(x)[n / 2]; // n is odd
    out[threadIdx.x] = static_cast<float>(last);
}
extern "C" __global__ void shared_overrun(unsigned index, float* out) {
    __shared__ float first[32];
    __shared__ float second[32];
    first[threadIdx.x] = 1.0f;
    second[threadIdx.x] = 2.0f;
    __syncthreads();
    out[threadIdx.x] = first[threadIdx.x + index] + second[threadIdx.x];
}
extern "C" __global__ void shared_overrun_by_pointer(unsigned index, float* out) {
    __shared__ float first[32];
    __shared__ float second[32];
    first[threadIdx.x] = 1.0f;
    second[threadIdx.x] = 2.0f;
    __syncthreads();
    const float* row = out[0] == 0.0f ? first : out;
    out[threadIdx.x] = row[threadIdx.x + index] + second[threadIdx.x];
}
extern "C" __global__ void dynamic_overrun(unsigned n, float* out) {
    CU_DYN_SHARED(float, values);
    values[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = values[n - threadIdx.x]; // wants n - 1 - threadIdx.x
}
extern "C" __global__ void int_overflow(int x, int* out) { out[threadIdx.x] = x + static_cast<int>(threadIdx.x); }
extern "C" __global__ void misaligned(const float* x, float* out) {
    const float4 value = *reinterpret_cast<const float4*>(x + 1);
    out[threadIdx.x] = value.x + value.w;
}
extern "C" __global__ void local_of_another(float* out) {
    __shared__ const float* pointers[32];
    float own[2] = {static_cast<float>(threadIdx.x), out[0]};
    pointers[threadIdx.x] = own;
    __syncthreads();
    const float value = pointers[threadIdx.x ^ 1][0];
    __syncthreads();
    out[threadIdx.x] = value;
}

// Races, and the same without them.

extern "C" __global__ void sum_between_blocks(float* y) {
    if (threadIdx.x == 0) y[0] += 1.0f;
}
extern "C" __global__ void sum_between_blocks_right(float* y) {
    if (threadIdx.x == 0) atomicAdd(y, 1.0f);
}
extern "C" __global__ void atomic_and_plain(float* y, float* out) {
    atomicAdd(y, 1.0f);
    out[blockIdx.x * blockDim.x + threadIdx.x] = y[0];
}
extern "C" __global__ void atomic_and_relaxed(float* y, float* out) {
    atomicAdd(y, 1.0f);
    out[blockIdx.x * blockDim.x + threadIdx.x] = load_relaxed(y);
}
// Lanes hand a value to their neighbour through shared memory.
extern "C" __global__ void neighbour_by_shuffle(unsigned* out) {
    __shared__ unsigned values[32];
    values[threadIdx.x] = threadIdx.x;
    __shfl_sync(0xffffffffu, 0u, 0); // meets the other lanes and orders nothing
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}
extern "C" __global__ void neighbour_by_syncwarp(unsigned* out) {
    __shared__ unsigned values[32];
    values[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}
extern "C" __global__ void syncwarp_once(unsigned* out) {
    __shared__ unsigned values[32];
    values[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = values[threadIdx.x ^ 1];
    values[threadIdx.x] = 0; // the neighbour may not have read yet
}
extern "C" __global__ void syncwarp_of_others(unsigned* out) {
    __shared__ unsigned values[32];
    values[threadIdx.x] = threadIdx.x;
    __syncwarp(threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u);
    out[threadIdx.x] = values[(threadIdx.x + 16) % 32];
}
extern "C" __global__ void warps_of_a_block(unsigned* out) {
    __shared__ unsigned values[64];
    values[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = values[(threadIdx.x + 32) % 64];
}
// Two halves written by two threads into one word are no race.
extern "C" __global__ void neighbouring_halves(unsigned short* out) { out[threadIdx.x] = 1; }
// The second pass of a loop writes what the first still reads.
extern "C" __global__ void no_barrier_at_the_end(unsigned* out) {
    __shared__ unsigned values[64];
    unsigned sum = 0;
    for (unsigned pass = 0; pass < 2; ++pass) {
        values[threadIdx.x] = pass;
        __syncthreads();
        sum += values[(threadIdx.x + 32) % 64];
    }
    out[threadIdx.x] = sum;
}
// The block that comes last sums what all have written.
__device__ void last_block_sums(const float* x, float* partial, unsigned* n_done, float* out, bool release,
                                bool acquire) {
    __shared__ bool is_last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = 2.0f * x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        if (release) __threadfence();
        is_last = atomicAdd(n_done, 1u) == gridDim.x - 1;
        if (acquire) __threadfence();
    }
    __syncthreads();
    if (!is_last || threadIdx.x != 0) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) sum += partial[i];
    out[0] = sum;
}
extern "C" __global__ void last_block(const float* x, float* partial, unsigned* n_done, float* out) {
    last_block_sums(x, partial, n_done, out, true, true);
}
extern "C" __global__ void last_block_no_release(const float* x, float* partial, unsigned* n_done, float* out) {
    last_block_sums(x, partial, n_done, out, false, true);
}
extern "C" __global__ void last_block_no_acquire(const float* x, float* partial, unsigned* n_done, float* out) {
    last_block_sums(x, partial, n_done, out, true, false);
}
// The same, where other threads than the one with the ticket pass the fences: barriers lie between.
extern "C" __global__ void last_block_all_fence(const float* x, float* partial, unsigned* n_done, float* out) {
    __shared__ bool is_last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = 3.0f * x[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(n_done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    float total = 0.0f;
    for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) total += partial[i];
    atomicAdd(out, total);
    if (threadIdx.x == 0) n_done[0] = 0; // after all the others' updates, which the ticket has seen
}
