// The tile of a dense f32 product that one block of 256 threads makes, 4 x 4 elements a thread.
//
// Every element of the result is one sum in ascending order of the inner index, whatever the tile's shape and
// place: a row's bits do not depend on other rows. Loads of the next step are in flight while a step is multiplied.
#pragma once

namespace {

constexpr unsigned TILE_THREADS = 256u;
constexpr unsigned TILE_INNER = 16u; // inner indices in shared memory at a time

// A matrix of `height` by `width` elements with strides; one stride is 1.
struct Strided {
    const float *data;
    unsigned long long height;
    unsigned long long width;
    unsigned long long row_stride;
    unsigned long long column_stride;
};

// A row-major [height, width] matrix, or the transpose of a row-major [width, height] one.
__device__ inline Strided strided(const float *data, unsigned long long height, unsigned long long width,
                                  bool transposed) {
    if (transposed) {
        return {data, height, width, 1ull, height};
    }
    return {data, height, width, width, 1ull};
}

__device__ inline float element(const Strided &m, unsigned long long row, unsigned long long column) {
    return row < m.height && column < m.width ? __ldg(m.data + row * m.row_stride + column * m.column_stride) : 0.0f;
}

// Shared memory of a tile: HEIGHT rows of a and WIDTH columns of b, both by inner index. The four spare elements
// keep float4 alignment and spread columns over banks.
template <unsigned HEIGHT, unsigned WIDTH> struct alignas(16) TileMemory {
    float a[TILE_INNER][HEIGHT + 4u];
    float b[TILE_INNER][WIDTH + 4u];
};

// Where a thread's i-th element of an `extent` by TILE_INNER slab lies: neighbouring threads read neighbouring
// memory.
struct Place {
    unsigned outer;
    unsigned inner;
};

__device__ inline Place place(unsigned i, unsigned extent, bool inner_adjacent) {
    const unsigned at = threadIdx.x + i * TILE_THREADS;
    if (inner_adjacent) {
        return {at / TILE_INNER, at % TILE_INNER};
    }
    return {at % extent, at / extent};
}

// out[row0 + r, column0 + c] = sum over k in first..end of a[row0 + r, k] * b[k, column0 + c]; out is row-major with
// `b.width` columns.
template <unsigned HEIGHT, unsigned WIDTH>
__device__ inline void tile_product(const Strided &a, const Strided &b, unsigned long long first,
                                    unsigned long long end, unsigned long long row0, unsigned long long column0,
                                    float *out, TileMemory<HEIGHT, WIDTH> &memory) {
    static_assert(HEIGHT * WIDTH == 16u * TILE_THREADS, "4 x 4 elements a thread");
    constexpr unsigned A_LOADS = HEIGHT * TILE_INNER / TILE_THREADS;
    constexpr unsigned B_LOADS = WIDTH * TILE_INNER / TILE_THREADS;
    const unsigned tx = threadIdx.x % (WIDTH / 4u);
    const unsigned ty = threadIdx.x / (WIDTH / 4u);
    const bool a_inner = a.column_stride == 1ull; // adjacent elements of a have adjacent inner indices
    const bool b_inner = b.row_stride == 1ull;
    float next_a[A_LOADS];
    float next_b[B_LOADS];
    float sum[4][4] = {};
    for (unsigned long long k = first; k < end + TILE_INNER; k += TILE_INNER) {
        if (k > first) { // store what the last round loaded
            __syncthreads();
#pragma unroll
            for (unsigned i = 0; i < A_LOADS; ++i) {
                const Place p = place(i, HEIGHT, a_inner);
                memory.a[p.inner][p.outer] = next_a[i];
            }
#pragma unroll
            for (unsigned i = 0; i < B_LOADS; ++i) {
                const Place p = place(i, WIDTH, b_inner);
                memory.b[p.inner][p.outer] = next_b[i];
            }
            __syncthreads();
        }
        if (k < end) {
#pragma unroll
            for (unsigned i = 0; i < A_LOADS; ++i) {
                const Place p = place(i, HEIGHT, a_inner);
                next_a[i] = k + p.inner < end ? element(a, row0 + p.outer, k + p.inner) : 0.0f;
            }
#pragma unroll
            for (unsigned i = 0; i < B_LOADS; ++i) {
                const Place p = place(i, WIDTH, b_inner);
                next_b[i] = k + p.inner < end ? element(b, k + p.inner, column0 + p.outer) : 0.0f;
            }
        }
        if (k > first) {
#pragma unroll
            for (unsigned i = 0; i < TILE_INNER; ++i) {
                const float4 left = *reinterpret_cast<const float4 *>(&memory.a[i][4u * ty]);
                const float4 right = *reinterpret_cast<const float4 *>(&memory.b[i][4u * tx]);
                const float l[4] = {left.x, left.y, left.z, left.w};
                const float r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
                for (unsigned y = 0; y < 4u; ++y) {
#pragma unroll
                    for (unsigned x = 0; x < 4u; ++x) {
                        sum[y][x] += l[y] * r[x];
                    }
                }
            }
        }
    }
#pragma unroll
    for (unsigned y = 0; y < 4u; ++y) {
        const unsigned long long row = row0 + 4u * ty + y;
#pragma unroll
        for (unsigned x = 0; x < 4u; ++x) {
            const unsigned long long column = column0 + 4u * tx + x;
            if (row < a.height && column < b.width) {
                out[row * b.width + column] = sum[y][x];
            }
        }
    }
}

} // namespace
