// Dense products over blocks of rows whose results must not depend on the other blocks (bit-equal sums for any P).
//
// block_matmul_fwd: out [rows, cols] = x [rows, inner] * op(w) [inner, cols]. An element is one ascending sum over
// the whole inner dimension, so a row depends on itself and w alone and block bounds need not be known. Bytes: 4 *
// rows * (inner + cols); FLOP: 2 * rows * inner * cols.
//
// block_outer_fwd: out [n_blocks, n_left * n_right] = x_b^T y_b for the rows bounds[b] .. bounds[b + 1] of x [rows,
// n_left] and y [rows, n_right]. A block is cut into parts of `part_rows` rows counted from its own start; the
// parts of a block are added in order by block_outer_sum_fwd. Bytes: 4 * rows * (n_left + n_right) for n_left <= 64
// and n_right <= 64 (one tile), plus 4 * n_left * n_right a part, written and read; FLOP: 2 * rows * n_left *
// n_right.
//
// Determinism: a block's bits depend on its own rows alone. No atomics.
#include "kernel.cuh"
#include "tile_product.cuh"
#include "warp.cuh"

// Grid: (tile rows, tile columns).
extern "C" __global__ void __launch_bounds__(256)
    block_matmul_fwd(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ out,
                     unsigned long long rows, unsigned long long inner, unsigned long long cols, unsigned transpose_w,
                     unsigned narrow) {
    __shared__ TileMemory<64, 64> square;
    __shared__ TileMemory<128, 32> tall;
    const Strided left = strided(x, rows, inner, false);
    const Strided right = strided(w, inner, cols, transpose_w != 0u);
    if (narrow) {
        tile_product(left, right, 0ull, inner, blockIdx.x * 128ull, blockIdx.y * 32ull, out, tall);
    } else {
        tile_product(left, right, 0ull, inner, blockIdx.x * 64ull, blockIdx.y * 64ull, out, square);
    }
}

// Grid: (n_blocks * n_parts, tile rows * tile columns); out is [n_blocks, n_parts, n_left * n_right]. Parts behind a
// block's end are zeros.
extern "C" __global__ void __launch_bounds__(256)
    block_outer_fwd(const unsigned long long *__restrict__ bounds, const float *__restrict__ x,
                    const float *__restrict__ y, float *__restrict__ out, unsigned long long n_left,
                    unsigned long long n_right, unsigned n_parts, unsigned part_rows) {
    __shared__ TileMemory<64, 64> memory;
    const unsigned block = blockIdx.x / n_parts;
    const unsigned part = blockIdx.x % n_parts;
    const unsigned long long first = bounds[block] + (unsigned long long)part * part_rows;
    const unsigned long long block_end = bounds[block + 1u];
    const unsigned long long end = first + part_rows < block_end ? first + part_rows : block_end;
    const unsigned tile_columns = unsigned((n_right + 63ull) / 64ull);
    const Strided left = strided(x, n_left, block_end, true); // x^T, its inner index is the row of x
    const Strided right = strided(y, block_end, n_right, false);
    tile_product(left, right, first, end, blockIdx.y / tile_columns * 64ull, blockIdx.y % tile_columns * 64ull,
                 out + blockIdx.x * (n_left * n_right), memory);
}

// Adds the parts of each block in order; a block has ceil(its rows / part_rows) of them. Grid: one thread for each
// block and element.
extern "C" __global__ void __launch_bounds__(256)
    block_outer_sum_fwd(const unsigned long long *__restrict__ bounds, const float *__restrict__ partials,
                        float *__restrict__ out, unsigned long long size, unsigned n_blocks, unsigned n_parts,
                        unsigned part_rows) {
    const unsigned long long i = thread_of_grid();
    if (i >= n_blocks * size) {
        return;
    }
    const unsigned long long block = i / size;
    const unsigned long long rows = bounds[block + 1ull] - bounds[block];
    const unsigned long long own_parts = (rows + part_rows - 1ull) / part_rows;
    float sum = 0.0f;
    for (unsigned long long part = 0; part < own_parts; ++part) {
        sum += partials[(block * n_parts + part) * size + i % size];
    }
    out[i] = sum;
}
