// The mean squared or Huber loss of a prediction, and its derivative.
//
// Shapes: pred and target have n elements, upstream one; partials (doubles, as u64) one a block; out one element
// (loss) or n (derivative). Bytes: 8 n (loss), 12 n (derivative).
//
// Determinism: f64 sums in a fixed order: block b adds the elements b * 4096 .. (b + 1) * 4096, thread t
// of it every 256th from t, then a tree; the blocks' sums are added by the same tree. The order depends on n alone.
//
// Source: Huber, "Robust Estimation of a Location Parameter" (1964); f64 as in the host's loss.
#include "block_sum.cuh"
#include "kernel.cuh"
#include "warp.cuh"

namespace {

__device__ inline double penalty(float error, float delta, unsigned huber) {
    const double e = error;
    const double size = e < 0.0 ? -e : e;
    const double d = delta;
    if (!huber) {
        return e * e;
    }
    return size <= d ? 0.5 * e * e : d * (size - 0.5 * d);
}

} // namespace

// Grid: (ceil(n / 4096)). A single block writes the loss itself; several leave their sums for loss_sum_fwd.
extern "C" __global__ void __launch_bounds__(256)
    loss_fwd(const float *__restrict__ pred, const float *__restrict__ target,
             unsigned long long *__restrict__ partials, float *__restrict__ out, unsigned long long n, float delta,
             unsigned huber) {
    __shared__ double sums[SUM_THREADS];
    const unsigned long long first = blockIdx.x * SUMMED_PER_BLOCK;
    const unsigned long long end = n - first < SUMMED_PER_BLOCK ? n : first + SUMMED_PER_BLOCK;
    double own = 0.0;
    for (unsigned long long i = first + threadIdx.x; i < end; i += SUM_THREADS) {
        own += penalty(pred[i] - target[i], delta, huber);
    }
    const double sum = block_sum(own, sums);
    if (threadIdx.x != 0u) {
        return;
    }
    if (gridDim.x == 1u) {
        out[0] = float(sum / double(n > 0ull ? n : 1ull));
    } else {
        reinterpret_cast<double *>(partials)[blockIdx.x] = sum;
    }
}

// Adds the blocks' sums and divides by n. Grid: (1).
extern "C" __global__ void __launch_bounds__(256)
    loss_sum_fwd(const unsigned long long *__restrict__ partials, float *__restrict__ out,
                 unsigned long long n_partials, unsigned long long n) {
    __shared__ double sums[SUM_THREADS];
    const double *const parts = reinterpret_cast<const double *>(partials);
    double own = 0.0;
    for (unsigned long long i = threadIdx.x; i < n_partials; i += SUM_THREADS) {
        own += parts[i];
    }
    const double sum = block_sum(own, sums);
    if (threadIdx.x == 0u) {
        out[0] = float(sum / double(n));
    }
}

// out = upstream / n * slope(pred - target). Grid: one thread for four adjacent elements.
extern "C" __global__ void __launch_bounds__(256)
    loss_bwd(const float *__restrict__ pred, const float *__restrict__ target, const float *__restrict__ upstream,
             float *__restrict__ out, unsigned long long n, float delta, unsigned huber) {
    const float factor = upstream[0] / float(n);
    const auto derivative = [=](float prediction, float wanted) {
        const float error = prediction - wanted;
        float slope = 2.0f * error;
        if (huber) { // not fminf and fmaxf: they would lose a NaN
            slope = error < -delta ? -delta : error > delta ? delta : error;
        }
        return factor * slope;
    };
    const unsigned long long i = first_of_four();
    if (i + 4ull <= n) {
        const float4 x = load4(pred + i), y = load4(target + i);
        store4(out + i,
               make_float4(derivative(x.x, y.x), derivative(x.y, y.y), derivative(x.z, y.z), derivative(x.w, y.w)));
        return;
    }
#pragma unroll 1
    for (unsigned long long j = i; j < n; ++j) {
        out[j] = derivative(pred[j], target[j]);
    }
}
