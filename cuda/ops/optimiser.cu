// One step of an optimiser over a flat parameter arena, in place: Adam, RMSProp with momentum, gradient descent; and
// the norm of the gradient that bounds it.
//
// Shapes: all arrays have n elements. Adam's correction1 = 1 - beta1^step and correction2 = 1 - beta2^step come from
// the caller, who computes the powers in f64. Bytes: 28 n (Adam, RMSProp: four reads, three writes), 12 n (descent),
// 4 n (squares). A thread has four adjacent elements, by accesses of 16 bytes where all four exist.
//
// `<rule>_step` has its numbers as arguments. `<rule>_captured_step` is captured once and run for many steps: it finds
// in `numbers` learning rate, correction1 and correction2, and in `clip` the norm and what the gradient is multiplied
// by. Where the norm is not finite, that factor is NaN, and nothing is written.
//
// Determinism: a step sums nothing over elements. Squares are summed in f64 in a fixed order, as the loss is
// (block_sum.cuh): the order depends on the arrays' lengths alone.
//
// Source: Kingma and Ba, "Adam" (2015), algorithm 1; Tieleman and Hinton, "Neural networks for machine learning"
// (2012), lecture 6.5, with TensorFlow's epsilon under the root.
#include "block_sum.cuh"
#include "kernel.cuh"
#include "warp.cuh"

namespace {

constexpr unsigned NORM = 0u;
constexpr unsigned FACTOR = 1u;

// An optimiser's numbers of one step; `factor` is what the gradient is multiplied by.
struct Adam {
    float learning_rate, beta1, beta2, epsilon, correction1, correction2, factor;

    __device__ __forceinline__ void step(float &param, float derivative, float &m, float &v) const {
        const float g = factor * derivative;
        m = beta1 * m + (1.0f - beta1) * g;
        v = beta2 * v + (1.0f - beta2) * g * g;
        param -= learning_rate * (m / correction1) / (sqrtf(v / correction2) + epsilon);
    }
};

struct RmsProp {
    float learning_rate, decay, momentum, epsilon, factor;

    __device__ __forceinline__ void step(float &param, float derivative, float &square, float &speed) const {
        const float g = factor * derivative;
        square = decay * square + (1.0f - decay) * g * g;
        speed = momentum * speed + learning_rate * g / sqrtf(square + epsilon);
        param -= speed;
    }
};

struct Descent {
    float learning_rate, factor;

    __device__ __forceinline__ void step(float &param, float derivative) const {
        param -= learning_rate * (factor * derivative);
    }
};

// This thread's four elements, of a rule that keeps two numbers for each.
template <class Rule>
__device__ __forceinline__ void step_of_four(const Rule rule, float *__restrict__ params,
                                             const float *__restrict__ grad, float *__restrict__ first,
                                             float *__restrict__ second, unsigned long long n) {
    const unsigned long long i = first_of_four();
    if (i + 4ull <= n) {
        float4 param = load4(params + i), m = load4(first + i), v = load4(second + i);
        const float4 g = load4(grad + i);
        rule.step(param.x, g.x, m.x, v.x);
        rule.step(param.y, g.y, m.y, v.y);
        rule.step(param.z, g.z, m.z, v.z);
        rule.step(param.w, g.w, m.w, v.w);
        store4(params + i, param);
        store4(first + i, m);
        store4(second + i, v);
        return;
    }
#pragma unroll 1
    for (unsigned long long j = i; j < n; ++j) {
        rule.step(params[j], grad[j], first[j], second[j]);
    }
}

// The same of gradient descent.
__device__ __forceinline__ void descent_of_four(const Descent rule, float *__restrict__ params,
                                                const float *__restrict__ grad, unsigned long long n) {
    const unsigned long long i = first_of_four();
    if (i + 4ull <= n) {
        float4 param = load4(params + i);
        const float4 g = load4(grad + i);
        rule.step(param.x, g.x);
        rule.step(param.y, g.y);
        rule.step(param.z, g.z);
        rule.step(param.w, g.w);
        store4(params + i, param);
        return;
    }
#pragma unroll 1
    for (unsigned long long j = i; j < n; ++j) {
        rule.step(params[j], grad[j]);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    adam_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ first,
              float *__restrict__ second, unsigned long long n, float learning_rate, float beta1, float beta2,
              float epsilon, float correction1, float correction2) {
    const Adam rule = {learning_rate, beta1, beta2, epsilon, correction1, correction2, 1.0f};
    step_of_four(rule, params, grad, first, second, n);
}

extern "C" __global__ void __launch_bounds__(256)
    adam_captured_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ first,
                       float *__restrict__ second, const float *__restrict__ numbers, const float *__restrict__ clip,
                       unsigned long long n, float beta1, float beta2, float epsilon) {
    const float factor = clip[FACTOR];
    if (factor != factor) { // NaN
        return;
    }
    const Adam rule = {numbers[0], beta1, beta2, epsilon, numbers[1], numbers[2], factor};
    step_of_four(rule, params, grad, first, second, n);
}

extern "C" __global__ void __launch_bounds__(256)
    rms_prop_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ mean_square,
                  float *__restrict__ velocity, unsigned long long n, float learning_rate, float decay, float momentum,
                  float epsilon) {
    const RmsProp rule = {learning_rate, decay, momentum, epsilon, 1.0f};
    step_of_four(rule, params, grad, mean_square, velocity, n);
}

extern "C" __global__ void __launch_bounds__(256)
    rms_prop_captured_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ mean_square,
                           float *__restrict__ velocity, const float *__restrict__ numbers,
                           const float *__restrict__ clip, unsigned long long n, float decay, float momentum,
                           float epsilon) {
    const float factor = clip[FACTOR];
    if (factor != factor) {
        return;
    }
    const RmsProp rule = {numbers[0], decay, momentum, epsilon, factor};
    step_of_four(rule, params, grad, mean_square, velocity, n);
}

extern "C" __global__ void __launch_bounds__(256)
    sgd_step(float *__restrict__ params, const float *__restrict__ grad, unsigned long long n, float learning_rate) {
    descent_of_four({learning_rate, 1.0f}, params, grad, n);
}

extern "C" __global__ void __launch_bounds__(256)
    sgd_captured_step(float *__restrict__ params, const float *__restrict__ grad, const float *__restrict__ numbers,
                      const float *__restrict__ clip, unsigned long long n) {
    const float factor = clip[FACTOR];
    if (factor != factor) {
        return;
    }
    descent_of_four({numbers[0], factor}, params, grad, n);
}

// The sums of the squares of one array, a double a block, from partials[first] on. Grid: (ceil(n / 4096)).
extern "C" __global__ void __launch_bounds__(256)
    squares_fwd(const float *__restrict__ grad, unsigned long long *__restrict__ partials, unsigned long long n,
                unsigned long long first) {
    __shared__ double sums[SUM_THREADS];
    const unsigned long long begin = blockIdx.x * SUMMED_PER_BLOCK;
    const unsigned long long end = n - begin < SUMMED_PER_BLOCK ? n : begin + SUMMED_PER_BLOCK;
    double own = 0.0;
    for (unsigned long long i = begin + 4u * threadIdx.x; i < end; i += 4u * SUM_THREADS) {
        if (i + 4u <= end) {
            const float4 g = load4(grad + i);
            own += double(g.x) * double(g.x) + double(g.y) * double(g.y);
            own += double(g.z) * double(g.z) + double(g.w) * double(g.w);
        } else {
            for (unsigned long long j = i; j < end; ++j) {
                own += double(grad[j]) * double(grad[j]);
            }
        }
    }
    const double sum = block_sum(own, sums);
    if (threadIdx.x == 0u) {
        reinterpret_cast<double *>(partials)[first + blockIdx.x] = sum;
    }
}

// The norm of all arrays, and the factor that makes it at most max_norm. Grid: (1).
extern "C" __global__ void __launch_bounds__(256)
    clip_fwd(const unsigned long long *__restrict__ partials, float *__restrict__ clip, unsigned long long n_partials,
             float max_norm) {
    __shared__ double sums[SUM_THREADS];
    const double *const parts = reinterpret_cast<const double *>(partials);
    const double2 *const pairs = reinterpret_cast<const double2 *>(partials);
    double own = 0.0;
    for (unsigned long long i = threadIdx.x; i < n_partials / 2u; i += SUM_THREADS) {
        const double2 pair = pairs[i];
        own += pair.x + pair.y;
    }
    if (threadIdx.x == 0u && n_partials % 2u == 1u) {
        own += parts[n_partials - 1u];
    }
    const double sum = block_sum(own, sums);
    if (threadIdx.x == 0u) {
        const float norm = float(sqrt(sum));
        clip[NORM] = norm;
        const float nothing = norm - norm; // NaN where the norm is not finite
        clip[FACTOR] = nothing == 0.0f ? (norm > max_norm ? max_norm / norm : 1.0f) : nothing;
    }
}
