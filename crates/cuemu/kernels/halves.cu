// Half precision, relaxed and vector accesses of kernel.cuh.
#include "kernel.cuh"

extern "C" __global__ void halves_to_floats(const unsigned short* x, unsigned n, float* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = half_to_float(x[i]);
}

extern "C" __global__ void floats_to_halves(const float* x, unsigned n, unsigned short* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = float_to_half(x[i]);
}

extern "C" __global__ void floats_to_halves_stochastic(const float* x, const unsigned* random, unsigned n,
                                                       unsigned short* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = float_to_half_stochastic(x[i], random[i]);
}

// sums[0..4] += x[i], by all threads of the grid.
extern "C" __global__ void vector_sums(const float* x, unsigned n, float* sums) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 value = load_relaxed(reinterpret_cast<const float4*>(x) + i);
    atomic_add_float4(reinterpret_cast<float4*>(sums), value);
}

// Each kind of relaxed access once a thread: a copy of four arrays.
extern "C" __global__ void relaxed_copies(const float* a, const unsigned* b, const unsigned long long* c,
                                          const unsigned short* d, float* a_out, unsigned* b_out,
                                          unsigned long long* c_out, unsigned short* d_out) {
    const unsigned i = threadIdx.x;
    store_relaxed(a_out + i, load_relaxed(a + i));
    store_relaxed(b_out + i, load_relaxed(b + i));
    store_relaxed(c_out + i, load_relaxed(c + i));
    store_relaxed(d_out + i, load_relaxed(d + i));
}
