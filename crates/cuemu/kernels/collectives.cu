// Right programs for every collective the emulator has; tests compare them with host loops.
#include "kernel.cuh"

// out[block] = sum of the block's 256 values: a tree in shared memory, nine barriers.
extern "C" __global__ void __launch_bounds__(256) tree_sum(const float* __restrict__ x, float* __restrict__ out) {
    __shared__ float partial[256];
    partial[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    for (unsigned step = 128; step > 0; step >>= 1) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

// out[block] = sum of a block's values: shuffles in each warp, one barrier, for any block size.
extern "C" __global__ void warp_sum(const float* x, unsigned n, float* out) {
    CU_DYN_SHARED(float, partial);
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float other = __shfl_down_sync(0xffffffffu, sum, offset);
        // What came from past the warp, or from a lane that the last warp lacks, is not meant.
        if ((threadIdx.x & 31) + offset < 32 && threadIdx.x + offset < blockDim.x) sum += other;
    }
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned n_warps = (blockDim.x + 31) / 32;
        float total = 0.0f;
        for (unsigned warp = 0; warp < n_warps; ++warp) total += partial[warp];
        out[blockIdx.x] = total;
    }
}

// best = the largest key, its value in the high bits, the complement of its index in the low ones.
extern "C" __global__ void argmax(const float* x, unsigned n, unsigned long long* best) {
    unsigned long long key = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const unsigned bits = __float_as_uint(x[i]);
        const unsigned ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
        const unsigned long long candidate = (unsigned long long)ordered << 32 | (0xffffffffu - i);
        key = candidate > key ? candidate : key;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        const unsigned long long other = __shfl_xor_sync(0xffffffffu, key, offset);
        key = other > key ? other : key;
    }
    if ((threadIdx.x & 31) == 0) atomicMax(best, key);
}

// One warp: every shuffle in groups of `width`, one row of 32 each.
extern "C" __global__ void shuffles(const unsigned* x, int argument, int width, unsigned* out) {
    const unsigned value = x[threadIdx.x];
    out[threadIdx.x] = __shfl_sync(0xffffffffu, value, argument, width);
    out[32 + threadIdx.x] = __shfl_up_sync(0xffffffffu, value, argument, width);
    out[64 + threadIdx.x] = __shfl_down_sync(0xffffffffu, value, argument, width);
    out[96 + threadIdx.x] = __shfl_xor_sync(0xffffffffu, value, argument, width);
}

// One warp: votes, matches and reductions over all lanes, one row of 32 each.
extern "C" __global__ void votes(const unsigned* x, unsigned* out) {
    const unsigned value = x[threadIdx.x], all = 0xffffffffu;
    const int as_signed = static_cast<int>(value);
    unsigned row = threadIdx.x;
    const auto put = [&](unsigned result) {
        out[row] = result;
        row += 32;
    };
    put(__ballot_sync(all, value & 1));
    put(__any_sync(all, value == 7));
    put(__all_sync(all, value != 7));
    put(__match_any_sync(all, value & 3));
    put(__reduce_add_sync(all, value));
    put(__reduce_min_sync(all, value));
    put(__reduce_max_sync(all, value));
    put(__reduce_and_sync(all, value));
    put(__reduce_or_sync(all, value));
    put(__reduce_xor_sync(all, value));
    put(static_cast<unsigned>(__reduce_min_sync(all, as_signed)));
    put(static_cast<unsigned>(__reduce_max_sync(all, as_signed)));
}

// Votes of the whole block: count, and, or of x[thread] != 0, in that order.
extern "C" __global__ void block_votes(const unsigned* x, int* out) {
    const int is_set = x[threadIdx.x] != 0;
    const int count = __syncthreads_count(is_set);
    const int all = __syncthreads_and(is_set);
    const int any = __syncthreads_or(is_set);
    out[3 * threadIdx.x] = count;
    out[3 * threadIdx.x + 1] = all;
    out[3 * threadIdx.x + 2] = any;
}

// Two halves of a warp take different ways, each with its own mask, and sum themselves.
extern "C" __global__ void half_warps(const unsigned* x, unsigned* out) {
    const unsigned lane = threadIdx.x;
    unsigned sum = x[lane];
    if (lane < 16) {
        for (int offset = 8; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0x0000ffffu, sum, offset);
    } else {
        for (int offset = 8; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffff0000u, sum, offset);
    }
    out[lane] = sum;
}

// Lanes that have returned are not waited for, neither by the warp nor by the block.
extern "C" __global__ void early_return(unsigned n, unsigned* out) {
    if (threadIdx.x >= n) return;
    const unsigned lanes = __ballot_sync(0xffffffffu, 1);
    __syncthreads();
    out[threadIdx.x] = lanes;
}

// What a thread reads of its place, for a grid and block of three dimensions.
extern "C" __global__ void places(unsigned* out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000u + thread;
}

// The order in which threads run: each takes the next place.
extern "C" __global__ void order(unsigned* next, unsigned* out) {
    out[atomicAdd(next, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

// All of a block's shared memory before anything writes it: bits of a static array, a template's
// static array and dynamic memory.
template <int N> __device__ unsigned unwritten() {
    __shared__ float values[N];
    const unsigned bits = __float_as_uint(values[threadIdx.x % N]);
    __syncthreads();
    values[threadIdx.x % N] = 1.0f;
    return bits;
}
extern "C" __global__ void unwritten_shared(unsigned* out) {
    __shared__ unsigned fixed[32];
    CU_DYN_SHARED(unsigned, dynamic);
    const unsigned a = fixed[threadIdx.x], b = dynamic[threadIdx.x], c = unwritten<32>();
    fixed[threadIdx.x] = 0;
    dynamic[threadIdx.x] = 0;
    out[blockIdx.x * 32 + threadIdx.x] = a & b & c;
}

// Every type that a kernel can take, by value and by pointer; a twin for the other compiler.
#ifdef CUEMU
extern "C" __global__ void every_type(float a, unsigned b, int c, unsigned long long d, unsigned short e,
                                      unsigned char f, const float* __restrict__ g, const unsigned char* h, float* i,
                                      unsigned* j, int* k, const unsigned long long* l, unsigned short* m,
                                      unsigned long long* out) {
    out[0] = static_cast<unsigned long long>(a) + b + c + d + e + f + static_cast<unsigned long long>(g[0]) + h[0];
    out[1] = i == nullptr && j == nullptr && k == nullptr && l == nullptr && m == nullptr;
}
#else
extern "C" __global__ void every_type(float, unsigned, int, unsigned long long, unsigned short, unsigned char,
                                      const float* __restrict__, const unsigned char*, float*, unsigned*, int*,
                                      const unsigned long long*, unsigned short*, unsigned long long*) {}
#endif
