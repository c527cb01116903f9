// One Adam step over a flat parameter arena, in place.
//
// Shapes: params, grad, first and second have n elements. correction1 = 1 - beta1^step and correction2 = 1 -
// beta2^step come from the caller, who computes the powers in f64. Bytes: 28 n (four reads, three writes).
// Determinism: one thread an element, nothing is summed over elements.
//
// Source: Kingma and Ba, "Adam" (2015), algorithm 1.
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
