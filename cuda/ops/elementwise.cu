// Element-wise operations: binary (add, sub, mul, div, where positive, where inside), the same with one number for each
// row, scale, relu, functions of one element, and the row that a linear layer adds.
//
// Shapes: a, b, x and out have n elements; row has `width` elements, column one for each row. A thread has four
// adjacent elements, by one access of 16 bytes where all four exist (and lie in one row). Bytes: 12 n (binary), 8 n
// (the others). Determinism: one operation an element, the host's bits; exp, log, tanh and sigmoid are CUDA's own,
// within 2 units of the last place of the exact value each, and so not the host's bits.
#include "kernel.cuh"
#include "warp.cuh"

namespace {

__device__ inline float sigmoid(float x) {
    const float e = expf(-fabsf(x)); // at most 1, so that nothing overflows
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

// Not fminf and fmaxf: they would lose a NaN.
__device__ inline float clamped(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

// NaN stays NaN; negative zero becomes zero, so that sums with other ranks' zeros keep its bits.
__device__ inline float relu(float x) { return x <= 0.0f ? 0.0f : x; }

// out[i] = f(a[i], b[i]) or f(a[i]) for the four elements of this thread.
template <class F>
__device__ inline void four_of_two(const float *a, const float *b, float *out, unsigned long long n, const F &f) {
    const unsigned long long first = first_of_four();
    if (first + 4ull <= n) {
        const float4 x = load4(a + first);
        const float4 y = load4(b + first);
        store4(out + first, make_float4(f(x.x, y.x), f(x.y, y.y), f(x.z, y.z), f(x.w, y.w)));
        return;
    }
#pragma unroll 1
    for (unsigned long long i = first; i < n; ++i) {
        out[i] = f(a[i], b[i]);
    }
}

template <class F> __device__ inline void four_of_one(const float *x, float *out, unsigned long long n, const F &f) {
    const unsigned long long first = first_of_four();
    if (first + 4ull <= n) {
        const float4 v = load4(x + first);
        store4(out + first, make_float4(f(v.x), f(v.y), f(v.z), f(v.w)));
        return;
    }
#pragma unroll 1
    for (unsigned long long i = first; i < n; ++i) {
        out[i] = f(x[i]);
    }
}

// out[i][j] = f(a[i][j], column[i]); n = rows * width.
template <class F>
__device__ inline void four_of_rows(const float *a, const float *column, float *out, unsigned long long n,
                                    unsigned long long width, const F &f) {
    const unsigned long long first = first_of_four();
    if (width % 4ull == 0ull && first < n) { // four elements of one row
        const float y = column[first / width];
        four_of_one(a, out, n, [=](float x) { return f(x, y); });
        return;
    }
#pragma unroll 1
    for (unsigned long long i = first; i < n && i < first + 4ull; ++i) {
        out[i] = f(a[i], column[i / width]);
    }
}

} // namespace

// VALUE is made of x and y, the elements of a and b, and of the bounds.
#define BINARY(name, VALUE)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        binary_##name##_fwd(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out,         \
                            unsigned long long n, float low, float high) {                                             \
        four_of_two(a, b, out, n, [=](float x, float y) { return VALUE; });                                            \
    }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, (x)*y)
BINARY(div, x / y)
BINARY(where_positive, y > 0.0f ? x : 0.0f)
BINARY(where_inside, low <= y && y <= high ? x : 0.0f)

// VALUE is made of x, an element of a, and y, its row's number.
#define BINARY_COLUMN(name, VALUE)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        binary_column_##name##_fwd(const float *__restrict__ a, const float *__restrict__ column,                      \
                                   float *__restrict__ out, unsigned long long n, unsigned long long width) {          \
        four_of_rows(a, column, out, n, width, [=](float x, float y) { return VALUE; });                               \
    }

BINARY_COLUMN(add, x + y)
BINARY_COLUMN(sub, x - y)
BINARY_COLUMN(mul, (x)*y)
BINARY_COLUMN(div, x / y)

// VALUE is made of x, an element of a, and of the bounds.
#define UNARY(name, VALUE)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256) unary_##name##_fwd(                                              \
        const float *__restrict__ a, float *__restrict__ out, unsigned long long n, float low, float high) {           \
        four_of_one(a, out, n, [=](float x) { return VALUE; });                                                        \
    }

UNARY(exp, expf(x))
UNARY(log, logf(x))
UNARY(tanh, tanhf(x))
UNARY(sigmoid, sigmoid(x))
UNARY(sqrt, sqrtf(x))
UNARY(clamp, clamped(x, low, high))

extern "C" __global__ void __launch_bounds__(256)
    scale_fwd(unsigned long long n, float factor, const float *__restrict__ x, float *__restrict__ out) {
    four_of_one(x, out, n, [=](float v) { return factor * v; });
}

extern "C" __global__ void __launch_bounds__(256)
    relu_fwd(const float *__restrict__ x, float *__restrict__ out, unsigned long long n) {
    four_of_one(x, out, n, relu);
}

// Adds `row` to every row of `out`, in place, then takes max(., 0) if `positive`.
extern "C" __global__ void __launch_bounds__(256)
    add_row_fwd(const float *__restrict__ row, unsigned long long width, unsigned positive, float *__restrict__ out,
                unsigned long long n) {
    const unsigned long long first = first_of_four();
    const auto sum = [=](float x, float y) { return positive ? relu(x + y) : x + y; };
    if (width % 4ull == 0ull && first < n) { // four columns of one row
        const float4 y = load4(row + first % width);
        const float4 x = load4(out + first);
        store4(out + first, make_float4(sum(x.x, y.x), sum(x.y, y.y), sum(x.z, y.z), sum(x.w, y.w)));
        return;
    }
#pragma unroll 1
    for (unsigned long long i = first; i < n && i < first + 4ull; ++i) {
        out[i] = sum(out[i], row[i % width]);
    }
}
