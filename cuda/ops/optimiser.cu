// One step of an optimiser over a flat parameter arena, in place: Adam, RMSProp with momentum, gradient descent.
//
// Shapes: all arrays have n elements. Adam's correction1 = 1 - beta1^step and correction2 = 1 - beta2^step come from
// the caller, who computes the powers in f64. Bytes: 28 n (Adam, RMSProp: four reads, three writes), 12 n (descent).
// Determinism: one thread an element, nothing is summed over elements.
//
// Source: Kingma and Ba, "Adam" (2015), algorithm 1; Tieleman and Hinton, "Neural networks for machine learning"
// (2012), lecture 6.5, with TensorFlow's epsilon under the root.
#include "kernel.cuh"

extern "C" __global__ void __launch_bounds__(256) adam_step(float *__restrict__ params, const float *__restrict__ grad,
                                                            float *__restrict__ first, float *__restrict__ second,
                                                            unsigned long long n, float learning_rate, float beta1,
                                                            float beta2, float epsilon, float correction1,
                                                            float correction2) {
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const float g = grad[i];
    const float m = beta1 * first[i] + (1.0f - beta1) * g;
    const float v = beta2 * second[i] + (1.0f - beta2) * g * g;
    first[i] = m;
    second[i] = v;
    params[i] -= learning_rate * (m / correction1) / (sqrtf(v / correction2) + epsilon);
}

extern "C" __global__ void __launch_bounds__(256)
    rms_prop_step(float *__restrict__ params, const float *__restrict__ grad, float *__restrict__ mean_square,
                  float *__restrict__ velocity, unsigned long long n, float learning_rate, float decay, float momentum,
                  float epsilon) {
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const float g = grad[i];
    const float square = decay * mean_square[i] + (1.0f - decay) * g * g;
    const float step = momentum * velocity[i] + learning_rate * g / sqrtf(square + epsilon);
    mean_square[i] = square;
    velocity[i] = step;
    params[i] -= step;
}

extern "C" __global__ void __launch_bounds__(256) sgd_step(float *__restrict__ params, const float *__restrict__ grad,
                                                           unsigned long long n, float learning_rate) {
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        params[i] -= learning_rate * grad[i];
    }
}
