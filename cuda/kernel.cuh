// First line of every .cu file: what kernels use beyond plain CUDA C++, under nvcc and, with CUEMU
// defined, under an ordinary C++17 compiler, where crates/cuemu runs the same source on the CPU.
//
// One spelling for what CUDA, PTX and the emulator write differently: dynamic shared memory, half
// precision as bits, relaxed loads and stores, a vector atomic.
#pragma once

#ifdef CUEMU
#include "cuemu.h"
#else
#include <cuda_runtime.h>

// `T* name`: the launch's dynamic shared memory, aligned to 16 bytes. Use it once in a kernel and
// cut further arrays out of it: two uses name the same bytes.
#define CU_DYN_SHARED(T, name)                                       \
    extern __shared__ __align__(16) unsigned char cu_dyn_shared[]; \
    T* const name = reinterpret_cast<T*>(cu_dyn_shared)

// The value of a half, given as its bits; exact. A NaN becomes the canonical one.
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// The nearest half, ties to even, as bits; past 65520 infinity, NaN to 0x7fff.
__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Loads and stores that other threads of the grid may race with on purpose: they are atomic, they
// order nothing, and they are not served by the L1 cache. Plain accesses promise none of that.
__device__ __forceinline__ float load_relaxed(const float* from) {
    float value;
    asm volatile("ld.relaxed.gpu.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ unsigned load_relaxed(const unsigned* from) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ unsigned long long load_relaxed(const unsigned long long* from) {
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ unsigned short load_relaxed(const unsigned short* from) {
    unsigned short value;
    asm volatile("ld.relaxed.gpu.u16 %0, [%1];" : "=h"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ void store_relaxed(float* to, float value) {
    asm volatile("st.relaxed.gpu.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(unsigned* to, unsigned value) {
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(unsigned long long* to, unsigned long long value) {
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(unsigned short* to, unsigned short value) {
    asm volatile("st.relaxed.gpu.u16 [%0], %1;" ::"l"(to), "h"(value) : "memory");
}

// Four loads in one instruction, each component atomic by itself (PTX: a vector access is a set of
// scalar accesses in no order). `from` is aligned to 16 bytes.
__device__ __forceinline__ float4 load_relaxed(const float4* from) {
    float4 value;
    asm volatile("ld.relaxed.gpu.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
}

// Adds each component atomically by itself; one instruction from sm_90 on, four before.
__device__ __forceinline__ void atomic_add_float4(float4* to, float4 addend) {
#if __CUDA_ARCH__ >= 900
    atomicAdd(to, addend);
#else
    float* const components = reinterpret_cast<float*>(to);
    atomicAdd(components + 0, addend.x);
    atomicAdd(components + 1, addend.y);
    atomicAdd(components + 2, addend.z);
    atomicAdd(components + 3, addend.w);
#endif
}
#endif  // CUEMU

// One of the two halves around `value`, each with the probability that makes the mean `value`
// (to 2^-32 of their distance), as bits. `random` is uniform over all 32 bits. Finite values past the largest half
// give the largest half (a table row must not become infinite); infinity stays, NaN is 0x7fff.
__device__ __forceinline__ unsigned short float_to_half_stochastic(float value, unsigned random) {
    const unsigned bits = __float_as_uint(value);
    const unsigned sign = (bits >> 16) & 0x8000u;
    const unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff;
    if (magnitude == 0x7f800000u) return static_cast<unsigned short>(sign | 0x7c00u);
    if (magnitude >= 0x477fe000u) return static_cast<unsigned short>(sign | 0x7bffu);  // >= 65504
    if (magnitude >= 0x38800000u) {  // >= 2^-14: a normal half; 13 bits of the mantissa go
        const unsigned sum = magnitude + (random & 0x1fffu);
        return static_cast<unsigned short>(sign | ((sum - 0x38000000u) >> 13));
    }
    // A subnormal half counts steps of 2^-24; the value is mantissa * 2^(exponent - 150).
    const unsigned exponent = magnitude >> 23;
    const unsigned mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    if (exponent < 94u) {  // below 2^-33, a step's 2^-9: up when the random fraction is under it
        const unsigned scale = 94u - exponent;
        const unsigned threshold = exponent == 0u || scale > 23u ? 0u : mantissa >> scale;
        return static_cast<unsigned short>(sign | (random < threshold ? 1u : 0u));
    }
    const unsigned shift = 126u - exponent;  // 14..32
    const unsigned long long fraction = random & ((1ull << shift) - 1ull);
    return static_cast<unsigned short>(sign | static_cast<unsigned>((mantissa + fraction) >> shift));
}
