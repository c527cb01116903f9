// Element-wise operations: binary (add, sub, mul, where positive), scale and relu.
//
// Shapes: a, b, x and out have n elements; a thread has four adjacent ones (one float4 where all four exist).
// Bytes: 12 n (binary), 8 n (scale, relu). Determinism: one operation an element, the host's bits.
#include "kernel.cuh"

namespace {

constexpr unsigned ADD = 0u;
constexpr unsigned SUB = 1u;
constexpr unsigned MUL = 2u; // any other code: a where b > 0, else zero

__device__ inline float combine(unsigned op, float a, float b) {
    switch (op) {
    case ADD:
        return a + b;
    case SUB:
        return a - b;
    case MUL:
        return a * b;
    default:
        return b > 0.0f ? a : 0.0f;
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
                                                             unsigned op) {
    const unsigned long long first = first_element();
    if (first + 4ull <= n) {
        const float4 x = four(a + first);
        const float4 y = four(b + first);
        put_four(out + first,
                 make_float4(combine(op, x.x, y.x), combine(op, x.y, y.y), combine(op, x.z, y.z), combine(op, x.w, y.w)));
        return;
    }
    for (unsigned long long i = first; i < n; ++i) {
        out[i] = combine(op, a[i], b[i]);
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
