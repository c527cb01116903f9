// Element-wise operations: binary (add, sub, mul, div, where positive, where inside), the same with one number for each
// row, scale, relu, functions of one element, and the row that a linear layer adds.
//
// Shapes: a, b, x and out have n elements; a thread of the first three has four adjacent ones (one float4 where all four
// exist), of the others one; row has `width` elements, column one for each
// row. Bytes: 12 n (binary), 8 n (the others).
// Determinism: one operation an element, the host's bits; exp, log, tanh and sigmoid are CUDA's own, within 2 units of
// the last place of the exact value each, and so not the host's bits.
#include "kernel.cuh"

namespace {

constexpr unsigned ADD = 0u;
constexpr unsigned SUB = 1u;
constexpr unsigned MUL = 2u;
constexpr unsigned DIV = 3u;
constexpr unsigned WHERE_POSITIVE = 4u; // any other code: a where low <= b <= high, else zero

constexpr unsigned EXP = 0u;
constexpr unsigned LOG = 1u;
constexpr unsigned TANH = 2u;
constexpr unsigned SIGMOID = 3u;
constexpr unsigned SQRT = 4u; // any other code: a clamp

__device__ inline float combine(unsigned op, float a, float b, float low, float high) {
    switch (op) {
    case ADD:
        return a + b;
    case SUB:
        return a - b;
    case MUL:
        return a * b;
    case DIV:
        return a / b;
    case WHERE_POSITIVE:
        return b > 0.0f ? a : 0.0f;
    default:
        return low <= b && b <= high ? a : 0.0f;
    }
}

__device__ inline float function(unsigned op, float x, float low, float high) {
    switch (op) {
    case EXP:
        return expf(x);
    case LOG:
        return logf(x);
    case TANH:
        return tanhf(x);
    case SIGMOID: {
        const float e = expf(-fabsf(x)); // at most 1, so that nothing overflows
        return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
    }
    case SQRT:
        return sqrtf(x);
    default: // not fminf and fmaxf: they would lose a NaN
        return x < low ? low : x > high ? high : x;
    }
}

// NaN stays NaN; negative zero becomes zero, so that sums with other ranks' zeros keep its bits.
__device__ inline float relu(float x) { return x <= 0.0f ? 0.0f : x; }

__device__ inline unsigned long long first_element() {
    return 4ull * ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x);
}

__device__ inline float4 four(const float *from) { return __ldg(reinterpret_cast<const float4 *>(from)); }

__device__ inline void put_four(float *to, float4 from) { *reinterpret_cast<float4 *>(to) = from; }

} // namespace

extern "C" __global__ void __launch_bounds__(256) binary_fwd(const float *__restrict__ a, const float *__restrict__ b,
                                                             float *__restrict__ out, unsigned long long n,
                                                             unsigned op, float low, float high) {
    const unsigned long long first = first_element();
    if (first + 4ull <= n) {
        const float4 x = four(a + first);
        const float4 y = four(b + first);
        put_four(out + first,
                 make_float4(combine(op, x.x, y.x, low, high), combine(op, x.y, y.y, low, high),
                             combine(op, x.z, y.z, low, high), combine(op, x.w, y.w, low, high)));
        return;
    }
    for (unsigned long long i = first; i < n; ++i) {
        out[i] = combine(op, a[i], b[i], low, high);
    }
}

// out[i][j] = x[i][j] op column[i]; n = rows * width.
extern "C" __global__ void __launch_bounds__(256)
    binary_column_fwd(const float *__restrict__ x, const float *__restrict__ column, float *__restrict__ out,
                      unsigned long long n, unsigned long long width, unsigned op) {
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = combine(op, x[i], column[i / width], 0.0f, 0.0f);
    }
}

extern "C" __global__ void __launch_bounds__(256) scale_fwd(unsigned long long n, float factor,
                                                            const float *__restrict__ x, float *__restrict__ out) {
    const unsigned long long first = first_element();
    if (first + 4ull <= n) {
        const float4 v = four(x + first);
        put_four(out + first, make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w));
        return;
    }
    for (unsigned long long i = first; i < n; ++i) {
        out[i] = factor * x[i];
    }
}

extern "C" __global__ void __launch_bounds__(256) relu_fwd(const float *__restrict__ x, float *__restrict__ out,
                                                           unsigned long long n) {
    const unsigned long long first = first_element();
    if (first + 4ull <= n) {
        const float4 v = four(x + first);
        put_four(out + first, make_float4(relu(v.x), relu(v.y), relu(v.z), relu(v.w)));
        return;
    }
    for (unsigned long long i = first; i < n; ++i) {
        out[i] = relu(x[i]);
    }
}

extern "C" __global__ void __launch_bounds__(256) unary_fwd(const float *__restrict__ x, float *__restrict__ out,
                                                            unsigned long long n, unsigned op, float low, float high) {
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = function(op, x[i], low, high);
    }
}

// Adds `row` to every row of `out`, in place, then takes max(., 0) if `positive`.
extern "C" __global__ void __launch_bounds__(256) add_row_fwd(const float *__restrict__ row, unsigned long long width,
                                                              unsigned positive, float *__restrict__ out,
                                                              unsigned long long n) {
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float sum = out[i] + row[i % width];
        out[i] = positive ? relu(sum) : sum;
    }
}
