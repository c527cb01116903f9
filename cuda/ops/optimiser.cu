// One step of an optimiser over a flat parameter arena, in place: Adam, RMSProp with momentum, gradient descent.
//
// Shapes: all arrays have n elements. Adam's correction1 = 1 - beta1^step and correction2 = 1 - beta2^step come from
// the caller, who computes the powers in f64. Bytes: 28 n (Adam, RMSProp: four reads, three writes), 12 n (descent).
// A thread has four adjacent elements, by accesses of 16 bytes where all four exist.
// Determinism: nothing is summed over elements.
//
// Source: Kingma and Ba, "Adam" (2015), algorithm 1; Tieleman and Hinton, "Neural networks for machine learning"
// (2012), lecture 6.5, with TensorFlow's epsilon under the root.
#include "kernel.cuh"
#include "warp.cuh"

extern "C" __global__ void __launch_bounds__(256)
    adam_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ first,
              float *__restrict__ second, unsigned long long n, float learning_rate, float beta1, float beta2,
              float epsilon, float correction1, float correction2) {
    const auto step = [=](float &param, float g, float &m, float &v) {
        m = beta1 * m + (1.0f - beta1) * g;
        v = beta2 * v + (1.0f - beta2) * g * g;
        param -= learning_rate * (m / correction1) / (sqrtf(v / correction2) + epsilon);
    };
    const unsigned long long i = first_of_four();
    if (i + 4ull <= n) {
        float4 param = load4(params + i), m = load4(first + i), v = load4(second + i);
        const float4 g = load4(grad + i);
        step(param.x, g.x, m.x, v.x);
        step(param.y, g.y, m.y, v.y);
        step(param.z, g.z, m.z, v.z);
        step(param.w, g.w, m.w, v.w);
        store4(params + i, param);
        store4(first + i, m);
        store4(second + i, v);
        return;
    }
#pragma unroll 1
    for (unsigned long long j = i; j < n; ++j) {
        step(params[j], grad[j], first[j], second[j]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    rms_prop_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ mean_square,
                  float *__restrict__ velocity, unsigned long long n, float learning_rate, float decay, float momentum,
                  float epsilon) {
    const auto step = [=](float &param, float g, float &square, float &speed) {
        square = decay * square + (1.0f - decay) * g * g;
        speed = momentum * speed + learning_rate * g / sqrtf(square + epsilon);
        param -= speed;
    };
    const unsigned long long i = first_of_four();
    if (i + 4ull <= n) {
        float4 param = load4(params + i), square = load4(mean_square + i), speed = load4(velocity + i);
        const float4 g = load4(grad + i);
        step(param.x, g.x, square.x, speed.x);
        step(param.y, g.y, square.y, speed.y);
        step(param.z, g.z, square.z, speed.z);
        step(param.w, g.w, square.w, speed.w);
        store4(params + i, param);
        store4(mean_square + i, square);
        store4(velocity + i, speed);
        return;
    }
#pragma unroll 1
    for (unsigned long long j = i; j < n; ++j) {
        step(params[j], grad[j], mean_square[j], velocity[j]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    sgd_step(float *__restrict__ params, const float *__restrict__ grad, unsigned long long n, float learning_rate) {
    const unsigned long long i = first_of_four();
    if (i + 4ull <= n) {
        const float4 p = load4(params + i), g = load4(grad + i);
        store4(params + i, make_float4(p.x - learning_rate * g.x, p.y - learning_rate * g.y, p.z - learning_rate * g.z,
                                       p.w - learning_rate * g.w));
        return;
    }
#pragma unroll 1
    for (unsigned long long j = i; j < n; ++j) {
        params[j] -= learning_rate * grad[j];
    }
}
