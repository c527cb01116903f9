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
#define CU_DYN_SHARED(T, name)                                                                                         \
    extern __shared__ __align__(16) unsigned char cu_dyn_shared[];                                                     \
    T *const name = reinterpret_cast<T *>(cu_dyn_shared)

// The value of a half, given as its bits; exact. A NaN becomes the canonical one.
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Both halves of a word, the lower one in x. Split in PTX, the upper half costs no shift.
__device__ __forceinline__ float2 two_halves_to_float(unsigned bits) {
    float2 values;
    asm("{.reg .f16 low, high;\n\t"
        "mov.b32 {low, high}, %2;\n\t"
        "cvt.f32.f16 %0, low;\n\t"
        "cvt.f32.f16 %1, high;}"
        : "=f"(values.x), "=f"(values.y)
        : "r"(bits));
    return values;
}

// The nearest half, ties to even, as bits; past 65520 infinity, NaN to 0x7fff.
__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Two halves next to their values towards zero, as bits, `low` in the lower 16: what is finite stays so.
__device__ __forceinline__ unsigned two_halves_toward_zero(float low, float high) {
    unsigned bits;
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Loads and stores of global memory that other threads of the grid may race with on purpose: they
// are atomic, they order nothing, and they are not served by the L1 cache. Plain accesses promise
// none of that.
__device__ __forceinline__ float load_relaxed(const float *from) {
    float value;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
__device__ __forceinline__ unsigned load_relaxed(const unsigned *from) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
__device__ __forceinline__ unsigned long long load_relaxed(const unsigned long long *from) {
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
__device__ __forceinline__ unsigned short load_relaxed(const unsigned short *from) {
    unsigned short value;
    asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
__device__ __forceinline__ void store_relaxed(float *to, float value) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "f"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(unsigned *to, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(unsigned long long *to, unsigned long long value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(unsigned short *to, unsigned short value) {
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "h"(value) : "memory");
}

// Four loads in one instruction, each component atomic by itself (PTX: a vector access is a set of
// scalar accesses in no order). `from` is aligned to 16 bytes.
__device__ __forceinline__ float4 load_relaxed(const float4 *from) {
    float4 value;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return value;
}

// Adds each component of global memory atomically by itself; one instruction from sm_90 on, four
// before.
__device__ __forceinline__ void atomic_add_float4(float4 *to, float4 addend) {
#if __CUDA_ARCH__ >= 900
    atomicAdd(to, addend);
#else
    const float addends[4] = {addend.x, addend.y, addend.z, addend.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(
                         __cvta_generic_to_global(reinterpret_cast<float *>(to) + i)),
                     "f"(addends[i])
                     : "memory");
    }
#endif
}
#endif // CUEMU

// `value` moved away from zero by (k + 1/2) / 8192 of the distance of halves there, where `random` is
// 1 and k < 8192 steps of 2^-23. Cut towards zero it is one of the two halves around `value`, each
// with the probability that makes the mean `value` (to 2^-13 of their distance). Infinity stays, NaN
// too, and what is finite is so after.
__device__ __forceinline__ float dithered_for_half(float value, unsigned random) {
    const unsigned bits = __float_as_uint(value);
    // 2^10 distances: the power of two below the value; below 2^-14 halves lie as close as above it.
    const unsigned power = max(bits & 0x7f800000u, 0x38800000u);
    const float part = __uint_as_float(random) - 0x1.fffffep-1f; // never 0: infinity times it is no NaN
    return __fmaf_rz(part, __uint_as_float((bits & 0x80000000u) | power), value);
}

// One of the two halves around each value at random, as bits, `low` in the lower 16. The low 13 bits
// of each half of `random` decide. Finite values past the largest half give the largest half (a
// table row must not become infinite); infinity stays, NaN is 0x7fff.
__device__ __forceinline__ unsigned two_halves_stochastic(float low, float high, unsigned random) {
    const unsigned one = 0x3f800000u;
    return two_halves_toward_zero(dithered_for_half(low, (random & 0x1fffu) | one),
                                  dithered_for_half(high, ((random >> 16) & 0x1fffu) | one));
}

__device__ __forceinline__ unsigned short float_to_half_stochastic(float value, unsigned random) {
    return static_cast<unsigned short>(two_halves_stochastic(value, 0.0f, random & 0x1fffu));
}
