// Dense product out[rows, cols] = op(a)[rows, inner] * op(b)[inner, cols], row-major f32, all four transpose
// combinations.
//
// The general path: on a GPU with cuBLAS, large products go there, and every product that must not depend on the
// shape around it (block_products.cu) uses this tile. Tiles are 64 x 64, or 128 x 32 for at most 32 columns (K = 32
// weights).
//
// Work: 2 * rows * inner * cols FLOP; bytes for the skinny case: 4 * rows * (inner + cols), weights stay in cache.
//
// Determinism: each element is one ascending sum over `split` inner indices; several splits are added in order by
// `matmul_sum_fwd`. The launcher chooses `split` from the dimensions alone.
//
// Source: register tiling of shared-memory slabs as in Volkov and Demmel, "Benchmarking GPUs to Tune Dense Linear
// Algebra" (SC 2008), section 5.
#include "kernel.cuh"
#include "tile_product.cuh"
#include "warp.cuh"

// Grid: (tile rows, tile columns, splits); with more than one split, out is [n_splits, rows, cols] partial sums.
extern "C" __global__ void __launch_bounds__(256)
    matmul_fwd(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out,
               unsigned long long rows, unsigned long long inner, unsigned long long cols, unsigned long long split,
               unsigned transpose_a, unsigned transpose_b, unsigned narrow) {
    __shared__ TileMemory<64, 64> square;
    __shared__ TileMemory<128, 32> tall;
    const Strided left = strided(a, rows, inner, transpose_a != 0u);
    const Strided right = strided(b, inner, cols, transpose_b != 0u);
    const unsigned long long first = blockIdx.z * split;
    const unsigned long long end = inner - first < split ? inner : first + split;
    float *const part = out + blockIdx.z * rows * cols;
    if (narrow) {
        tile_product(left, right, first, end, blockIdx.x * 128ull, blockIdx.y * 32ull, part, tall);
    } else {
        tile_product(left, right, first, end, blockIdx.x * 64ull, blockIdx.y * 64ull, part, square);
    }
}

// Adds n_splits partial results of n elements in order. Grid: one thread an element.
extern "C" __global__ void __launch_bounds__(256)
    matmul_sum_fwd(const float *__restrict__ partials, float *__restrict__ out, unsigned long long n,
                   unsigned n_splits) {
    const unsigned long long i = thread_of_grid();
    if (i >= n) {
        return;
    }
    float sum = 0.0f;
    for (unsigned split = 0; split < n_splits; ++split) {
        sum += partials[split * n + i];
    }
    out[i] = sum;
}
