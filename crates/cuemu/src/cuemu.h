// The subset of CUDA C++ that the kernels use, for an ordinary C++17 compiler. A .cu file reaches
// it through kernel.cuh; cuemu.cpp runs what it declares; what each part does and what it cannot
// show is in this crate's README.
//
// Functions that can switch to another CUDA thread, or fail, take the place of their call as last
// arguments with defaults, so that an error names the line in the kernel.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// One block runs at a time, so a block's memory is a plain static. The linker script of compile.rs
// gathers these, and nothing else, in one section that is filled with NaN before each block.
#define __shared__ static
#define warpSize 32

// Vector types, with CUDA's sizes and alignments.
#define CUEMU_VECTOR_2(T, name, align) \
    struct alignas(align) name##2 { T x, y; }; \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }
#define CUEMU_VECTOR_3(T, name) \
    struct name##3 { T x, y, z; }; \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }
#define CUEMU_VECTOR_4(T, name, align) \
    struct alignas(align) name##4 { T x, y, z, w; }; \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define CUEMU_VECTORS(T, name) \
    CUEMU_VECTOR_2(T, name, 2 * sizeof(T)) \
    CUEMU_VECTOR_3(T, name) \
    CUEMU_VECTOR_4(T, name, 4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16)
CUEMU_VECTORS(float, float)
CUEMU_VECTORS(double, double)
CUEMU_VECTORS(int, int)
CUEMU_VECTORS(unsigned, uint)
CUEMU_VECTORS(short, short)
CUEMU_VECTORS(unsigned short, ushort)
CUEMU_VECTORS(signed char, char)
CUEMU_VECTORS(unsigned char, uchar)
CUEMU_VECTORS(long long, longlong)
CUEMU_VECTORS(unsigned long long, ulonglong)
#undef CUEMU_VECTORS
#undef CUEMU_VECTOR_4
#undef CUEMU_VECTOR_3
#undef CUEMU_VECTOR_2

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define CUEMU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define CUEMU_HERE ::cuemu::Site { file, line }

// In the race build every access of a kernel is reported by the compiler. A function that reports
// its own accesses, as atomic ones, is kept out of that, and out of line, so that its return
// address is the kernel's line: what stands between the two is always inlined.
#ifdef CUEMU_RACE
#define CUEMU_ATOMIC __attribute__((noinline, no_sanitize("thread")))
#else
#define CUEMU_ATOMIC inline
#endif

namespace cuemu {

struct Site {
    const char *file;
    int line;
};

enum class Collective : uint8_t {
    syncwarp, shfl, shfl_up, shfl_down, shfl_xor, ballot, any, all, match_any,
    reduce_add, reduce_min, reduce_max, reduce_and, reduce_or, reduce_xor,
};
enum class Barrier : uint8_t { plain, count, conjunction, disjunction };
enum class Atomic : uint8_t { load, store, update };

constexpr unsigned MAX_PARAMETERS = 32;

// All of the emulator that a kernel reads without a call. `thread_idx` is rewritten at each switch
// between threads.
struct Visible {
    uint3 thread_idx, block_idx;
    dim3 block_dim, grid_dim;
    unsigned char *dynamic_shared;
    unsigned n_atomics; // of the running thread since the last switch
    void *arguments[MAX_PARAMETERS];
    uint64_t values[MAX_PARAMETERS];
};
extern Visible visible;

// Waits until the lanes of `mask` that have not returned are here too; gives this lane's result.
// `operand` holds the value's bits; `argument` is the source lane, delta or lane mask of a shuffle.
uint64_t collective(Collective kind, unsigned mask, uint64_t operand, int argument, int width, Site);
// Waits until every thread of the block that has not returned is here too.
int barrier(Barrier kind, bool predicate, Site);
void fence();
[[noreturn]] void trap(Site);
[[noreturn]] void spins();
unsigned lane();

// No thread of a sensible kernel does this many atomic accesses in a row: it waits for a thread that
// cannot run before this one does.
constexpr unsigned MAX_ATOMICS = 1u << 24;
inline void count_atomic() {
    if (++visible.n_atomics > MAX_ATOMICS) spins();
}

#ifdef CUEMU_RACE
void note_atomic(const void *at, size_t bytes, Atomic kind, void *pc);
#else
inline void note_atomic(const void *, size_t, Atomic, void *) {}
#endif

template <class To, class From> To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable<From>::value, "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

template <class T> uint64_t widen(T value) {
    static_assert(std::is_arithmetic<T>::value, "a shuffle moves a number of 32 or 64 bits");
    if constexpr (sizeof(T) == 8)
        return bits_as<uint64_t>(value);
    else
        return bits_as<uint32_t>(value);
}
template <class T> T narrow(uint64_t bits) {
    if constexpr (sizeof(T) == 8)
        return bits_as<T>(bits);
    else
        return bits_as<T>(static_cast<uint32_t>(bits));
}

template <class T> T shuffle(Collective kind, unsigned mask, T value, int argument, int width, Site site) {
    return narrow<T>(collective(kind, mask, widen(value), argument, width, site));
}

// Reads, changes and writes as one step: nothing switches threads in between.
template <class T, class F> CUEMU_ATOMIC T atomic_update(T *at, F change) {
    count_atomic();
    note_atomic(at, sizeof(T), Atomic::update, __builtin_return_address(0));
    const T old = *at;
    *at = change(old);
    return old;
}
template <class T> CUEMU_ATOMIC T atomic_load(const T *from) {
    count_atomic();
    note_atomic(from, sizeof(T), Atomic::load, __builtin_return_address(0));
    return *from;
}
template <class T> CUEMU_ATOMIC void atomic_store(T *to, T value) {
    note_atomic(to, sizeof(T), Atomic::store, __builtin_return_address(0));
    *to = value;
}

template <class T> struct Identity { using Type = T; };
template <class T> using Same = typename Identity<T>::Type; // a parameter that no T is deduced from

template <class A, class B>
using Number = std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                                std::common_type_t<A, B>>;

} // namespace cuemu

#define threadIdx (::cuemu::visible.thread_idx)
#define blockIdx (::cuemu::visible.block_idx)
#define blockDim (::cuemu::visible.block_dim)
#define gridDim (::cuemu::visible.grid_dim)

// ---- barriers and warp collectives

inline void __syncthreads(CUEMU_SITE) { ::cuemu::barrier(::cuemu::Barrier::plain, false, CUEMU_HERE); }
inline int __syncthreads_count(int predicate, CUEMU_SITE) {
    return ::cuemu::barrier(::cuemu::Barrier::count, predicate != 0, CUEMU_HERE);
}
inline int __syncthreads_and(int predicate, CUEMU_SITE) {
    return ::cuemu::barrier(::cuemu::Barrier::conjunction, predicate != 0, CUEMU_HERE);
}
inline int __syncthreads_or(int predicate, CUEMU_SITE) {
    return ::cuemu::barrier(::cuemu::Barrier::disjunction, predicate != 0, CUEMU_HERE);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, CUEMU_SITE) {
    ::cuemu::collective(::cuemu::Collective::syncwarp, mask, 0, 0, 32, CUEMU_HERE);
}
template <class T> auto __shfl_sync(unsigned mask, T value, int source, int width = 32, CUEMU_SITE) {
    return ::cuemu::shuffle(::cuemu::Collective::shfl, mask, +value, source, width, CUEMU_HERE);
}
template <class T> auto __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUEMU_SITE) {
    return ::cuemu::shuffle(::cuemu::Collective::shfl_up, mask, +value, int(delta), width, CUEMU_HERE);
}
template <class T> auto __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUEMU_SITE) {
    return ::cuemu::shuffle(::cuemu::Collective::shfl_down, mask, +value, int(delta), width, CUEMU_HERE);
}
template <class T> auto __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, CUEMU_SITE) {
    return ::cuemu::shuffle(::cuemu::Collective::shfl_xor, mask, +value, lanes, width, CUEMU_HERE);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CUEMU_SITE) {
    return unsigned(::cuemu::collective(::cuemu::Collective::ballot, mask, predicate != 0, 0, 32, CUEMU_HERE));
}
inline int __any_sync(unsigned mask, int predicate, CUEMU_SITE) {
    return int(::cuemu::collective(::cuemu::Collective::any, mask, predicate != 0, 0, 32, CUEMU_HERE));
}
inline int __all_sync(unsigned mask, int predicate, CUEMU_SITE) {
    return int(::cuemu::collective(::cuemu::Collective::all, mask, predicate != 0, 0, 32, CUEMU_HERE));
}
template <class T> unsigned __match_any_sync(unsigned mask, T value, CUEMU_SITE) {
    return unsigned(
        ::cuemu::collective(::cuemu::Collective::match_any, mask, ::cuemu::widen(+value), 0, 32, CUEMU_HERE));
}
#define CUEMU_REDUCE(name, T) \
    inline T __reduce_##name##_sync(unsigned mask, T value, CUEMU_SITE) { \
        constexpr bool is_signed = std::is_signed<T>::value; /* sign-extended, so that order holds in 64 bits */ \
        const uint64_t operand = is_signed ? uint64_t(int64_t(value)) : uint64_t(value); \
        return T(::cuemu::collective(::cuemu::Collective::reduce_##name, mask, operand, is_signed, 32, CUEMU_HERE)); \
    }
CUEMU_REDUCE(add, unsigned)
CUEMU_REDUCE(add, int)
CUEMU_REDUCE(min, unsigned)
CUEMU_REDUCE(min, int)
CUEMU_REDUCE(max, unsigned)
CUEMU_REDUCE(max, int)
CUEMU_REDUCE(and, unsigned)
CUEMU_REDUCE(or, unsigned)
CUEMU_REDUCE(xor, unsigned)
#undef CUEMU_REDUCE
// CUDA promises only that the caller is in it. So does this.
inline unsigned __activemask() { return 1u << ::cuemu::lane(); }
inline void __threadfence() { ::cuemu::fence(); }
inline void __threadfence_system() { ::cuemu::fence(); }
inline void __threadfence_block() {}
[[noreturn]] inline void __trap(CUEMU_SITE) { ::cuemu::trap(CUEMU_HERE); }

// ---- atomics

// The value takes the type of the place, as CUDA's overloads make it do.
template <class T> __forceinline__ T atomicAdd(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return T(old + value); });
}
template <class T> __forceinline__ T atomicSub(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return T(old - value); });
}
template <class T> __forceinline__ T atomicExch(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T) { return value; });
}
template <class T> __forceinline__ T atomicMin(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return old < value ? old : value; });
}
template <class T> __forceinline__ T atomicMax(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return old < value ? value : old; });
}
template <class T> __forceinline__ T atomicAnd(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return T(old & value); });
}
template <class T> __forceinline__ T atomicOr(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return T(old | value); });
}
template <class T> __forceinline__ T atomicXor(T *at, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return T(old ^ value); });
}
template <class T> __forceinline__ T atomicCAS(T *at, ::cuemu::Same<T> expected, ::cuemu::Same<T> value) {
    return ::cuemu::atomic_update(at, [=](T old) { return old == expected ? value : old; });
}
__forceinline__ unsigned atomicInc(unsigned *at, unsigned limit) {
    return ::cuemu::atomic_update(at, [=](unsigned old) { return old >= limit ? 0u : old + 1u; });
}

// ---- numbers

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)(x)); }
inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
// Byte i of the result is byte selector >> 4 i & 7 of the eight of y and x, with its sign for bit 3.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned nibble = selector >> (4 * i) & 15u, byte = unsigned(bytes >> (8 * (nibble & 7u))) & 255u;
        result |= (nibble < 8u ? byte : (byte >> 7) * 255u) << (8 * i);
    }
    return result;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)(a)*b >> 64);
}
inline unsigned __float_as_uint(float x) { return ::cuemu::bits_as<unsigned>(x); }
inline int __float_as_int(float x) { return ::cuemu::bits_as<int>(x); }
inline float __uint_as_float(unsigned x) { return ::cuemu::bits_as<float>(x); }
inline float __int_as_float(int x) { return ::cuemu::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return ::cuemu::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return ::cuemu::bits_as<double>(x); }
inline int __float2int_rn(float x) { return int(rintf(x)); }
inline int __float2int_rd(float x) { return int(floorf(x)); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
// Towards zero. The product of two floats is exact in double; its sum with the third is the double
// `sum` and what its rounding left, `rest`.
inline float __fmaf_rz(float a, float b, float c) {
    const double product = double(a) * double(b), sum = product + double(c);
    if (!__builtin_isfinite(sum)) return float(sum);
    const double part = sum - product, rest = (product - (sum - part)) + (double(c) - part);
    float cut = float(sum);
    const double past = double(cut) - sum; // of the exact sum by `past - rest`
    const bool is_past = cut > 0.0f ? past > rest : cut < 0.0f && past < rest;
    if (is_past || __builtin_isinf(cut)) cut = nextafterf(cut, 0.0f);
    return cut;
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __frsqrt_rn(float x) { return float(1.0 / sqrt(double(x))); }
inline float __fdividef(float a, float b) { return a / b; }
// glibc declares the plain names of these; the approximations are the exact functions here.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
template <class A, class B> constexpr ::cuemu::Number<A, B> min(A a, B b) {
    using T = ::cuemu::Number<A, B>;
    if constexpr (std::is_floating_point<T>::value) return fmin(T(a), T(b));
    else return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> constexpr ::cuemu::Number<A, B> max(A a, B b) {
    using T = ::cuemu::Number<A, B>;
    if constexpr (std::is_floating_point<T>::value) return fmax(T(a), T(b));
    else return T(a) < T(b) ? T(b) : T(a);
}

// ---- loads and stores with a cache hint

template <class T> __forceinline__ T __ldg(const T *from) { return *from; }
template <class T> __forceinline__ T __ldcg(const T *from) { return *from; }
template <class T> __forceinline__ T __ldca(const T *from) { return *from; }
template <class T> __forceinline__ T __ldcs(const T *from) { return *from; }
template <class T> __forceinline__ void __stcg(T *to, T value) { *to = value; }
template <class T> __forceinline__ void __stcs(T *to, T value) { *to = value; }

// ---- the emulator's side of kernel.cuh

#define CU_DYN_SHARED(T, name) T *const name = reinterpret_cast<T *>(::cuemu::visible.dynamic_shared)

inline float half_to_float(unsigned short bits) {
    const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
    if (exponent == 31u) return __uint_as_float(mantissa != 0 ? 0x7fffffffu : sign | 0x7f800000u);
    if (exponent != 0) return __uint_as_float(sign | (exponent + 112u) << 23 | mantissa << 13);
    const float magnitude = float(mantissa) * 0x1p-24f; // exact: 10 bits
    return sign != 0 ? -magnitude : magnitude;
}

inline float2 two_halves_to_float(unsigned bits) {
    return {half_to_float((unsigned short)bits), half_to_float((unsigned short)(bits >> 16))};
}

inline unsigned short float_to_half(float value) {
    const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff;
    if (magnitude >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u); // >= 65520 rounds to infinity
    if (magnitude >= 0x38800000u) { // a normal half; adding just under a half, or a half to odd, rounds
        const unsigned odd = magnitude >> 13 & 1u;
        return (unsigned short)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
    }
    // Steps of 2^-24: at 0.5 the last bit of a float is worth one, and the sum rounds to even itself.
    const float steps = __uint_as_float(magnitude) + 0.5f;
    return (unsigned short)(sign | (__float_as_uint(steps) - 0x3f000000u));
}

inline unsigned two_halves_toward_zero(float low, float high) {
    const auto cut = [](float value) {
        const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return 0x7fffu;
        if (magnitude == 0x7f800000u) return sign | 0x7c00u;
        if (magnitude >= 0x477fe000u) return sign | 0x7bffu; // from the largest half on
        if (magnitude >= 0x38800000u) return sign | (magnitude - 0x38000000u) >> 13;
        return sign | unsigned(__uint_as_float(magnitude) * 0x1p24f); // steps of 2^-24: below 1024
    };
    return cut(low) | cut(high) << 16;
}

template <class T> __forceinline__ T load_relaxed(const T *from) { return ::cuemu::atomic_load(from); }
__forceinline__ float4 load_relaxed(const float4 *from) {
    const float *x = reinterpret_cast<const float *>(from);
    return {load_relaxed(x), load_relaxed(x + 1), load_relaxed(x + 2), load_relaxed(x + 3)};
}
template <class T> __forceinline__ void store_relaxed(T *to, ::cuemu::Same<T> value) { ::cuemu::atomic_store(to, value); }
__forceinline__ void atomic_add_float4(float4 *to, float4 addend) {
    float *x = reinterpret_cast<float *>(to);
    atomicAdd(x, addend.x);
    atomicAdd(x + 1, addend.y);
    atomicAdd(x + 2, addend.z);
    atomicAdd(x + 3, addend.w);
}

// ---- registration: one table entry for each kernel, its signature taken from the compiled function

namespace cuemu {

struct Kernel {
    const char *name;
    const char *signature;
    unsigned n_parameters;
    unsigned max_threads; // of __launch_bounds__, else 1024
    const unsigned char *parameter_bytes;
    void (*call)(void **arguments);
    unsigned char *shared_begin, *shared_end; // static __shared__ memory of the kernel's file
};

template <class T> constexpr char letter() {
    static_assert(std::is_same<T, float>::value || std::is_same<T, unsigned>::value || std::is_same<T, int>::value ||
                      std::is_same<T, unsigned long long>::value || std::is_same<T, unsigned short>::value ||
                      std::is_same<T, unsigned char>::value,
                  "a kernel's parameters are float, unsigned, int, unsigned long long, unsigned short, "
                  "unsigned char and pointers to them");
    if (std::is_same<T, float>::value) return 'f';
    if (std::is_same<T, unsigned>::value) return 'u';
    if (std::is_same<T, int>::value) return 'i';
    if (std::is_same<T, unsigned long long>::value) return 'U';
    return std::is_same<T, unsigned short>::value ? 'h' : 'b';
}

template <class... P> struct Signature {
    char text[2 * sizeof...(P) + 1] = {};
    constexpr Signature() {
        size_t n = 0;
        (append<P>(n), ...);
    }
    template <class T> constexpr void append(size_t &n) {
        if constexpr (std::is_pointer<T>::value) {
            using Pointee = std::remove_pointer_t<T>;
            text[n++] = std::is_const<Pointee>::value ? '&' : '*';
            text[n++] = letter<std::remove_const_t<Pointee>>();
        } else {
            text[n++] = letter<T>();
        }
    }
};

template <class... P> struct Parameters {
    static_assert(sizeof...(P) <= MAX_PARAMETERS, "too many parameters for the emulator's table");
    static constexpr Signature<P...> signature{};
    static constexpr unsigned char bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
};

template <auto F> struct Entry;
template <class... P, void (*F)(P...)> struct Entry<F> {
    template <size_t... I> static void unpack(void **arguments, std::index_sequence<I...>) {
        F(*static_cast<std::remove_const_t<P> *>(arguments[I])...);
    }
    static void call(void **arguments) { unpack(arguments, std::index_sequence_for<P...>{}); }
    static constexpr Kernel describe(const char *name, unsigned max_threads, unsigned char *shared_begin,
                                     unsigned char *shared_end) {
        using Own = Parameters<P...>;
        return {name, Own::signature.text, sizeof...(P), max_threads, Own::bytes, call, shared_begin, shared_end};
    }
};

} // namespace cuemu

// At the end of the source that the build makes for `file`.cu: first the bounds that its linker
// script sets, then each kernel. The table holds pointers: a section of larger objects could have
// gaps between them.
#define CUEMU_FILE(file) \
    extern "C" __attribute__((visibility("hidden"))) unsigned char cuemu_shared_begin_##file[], \
        cuemu_shared_end_##file[]
#define CUEMU_REGISTER(file, name, max_threads) \
    static constexpr ::cuemu::Kernel cuemu_kernel_##name = ::cuemu::Entry<&name>::describe( \
        #name, max_threads, cuemu_shared_begin_##file, cuemu_shared_end_##file); \
    __attribute__((section("cuemu_kernels"), used)) static const ::cuemu::Kernel *const cuemu_entry_##name = \
        &cuemu_kernel_##name
