// Product of a bit matrix with dense columns: out[own rows] = act(scale * keep A (keep x) + bias), for dense graphs.
//
// Shapes: words u64 [n_columns, words_per_row], bit v % 64 of word v / 64 of row u is A[v, u] for own row v (all rows
// restricted to own columns: by symmetry the own rows); x [n_columns, width], keep [n_columns, n_states], scale
// [n_states], bias and out [n_rows, width], width = n_states * state_width.
//
// Work (the model that benches count): 2 * n_parts * n_columns * n_rows * width tensor FLOP (n_parts = 2 or 3),
// whatever the density; bytes: words 8 * n_columns * words_per_row once for each 32 columns, x once for each 512
// rows, partial sums 4 * width * n_rows * (1 + n_splits) twice. Worth it above a density of about 1/32 (4 + 4 *
// width B an entry in lists against 1/8 B an element here).
//
// `sparse_bits_<8|32>_<fast|exact>_fwd` multiply on tensor cores, 8 or 32 columns of x a block, in 2 or 3 parts. A's
// elements are expanded in registers: a one becomes the bf16 2.0, whose only set bit is bit 14, so a word needs one
// shift and one mask for two elements; x is halved (exact) and split into n_parts bf16 parts. Error: of x = 1.f * 2^e
// the first part (8 bits, to nearest) leaves at most 2^(e - 8), the second 2^(e - 17), the third nothing, as x has 24
// bits. Each sum is then off by at most 2^-17 (two parts) or 0 (three) times sum |x_u|, and by f32 accumulation: at
// most (n_columns * n_parts) * 2^-22 * sum |x_u|, in practice that of n_columns / 16 roundings. Products are exact
// (down to |x| = 2^-100, where parts would become subnormal). x must be finite: tensor cores multiply the zeros too.
// `sparse_bits_<8|32>_portable_fwd` are the same product on plain f32 units, one row a thread, x unsplit: bit for bit
// the host's sum when n_columns <= split. It reads only neighbours, so it takes any x.
//
// Determinism: fixed splits of `split` columns of A, added in order by `sparse_bits_sum_fwd`: a row's bits depend
// on that row, on n_columns and on the width's tiles, never on n_rows, the grid or who owns the row.
//
// Source: the residual graph as a mask, see sparse_csr.cu; the split is that of Henry, Tang and Heinecke,
// "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations" (ARITH 2019).
#include "kernel.cuh"
#include "mma.cuh"
#include "sparse_finish.cuh"
#include "warp.cuh"

namespace {

constexpr unsigned THREADS = 256u;
constexpr unsigned WARPS = 8u;
constexpr unsigned CHUNK = 64u;              // columns of A in shared memory at a time
constexpr unsigned PAIRS = CHUNK / 2u;       // two neighbouring columns share a register
constexpr unsigned WORD_STRIDE = WARPS + 1u; // one more, so that four rows fall on different banks
constexpr unsigned PART_STRIDE = 40u;        // 8 modulo 32: a fragment's 4 x 8 reads fall on different banks
constexpr unsigned ONES = 0x40004000u;       // bf16 2.0 in both halves

struct Bits {
    const unsigned long long *words;
    const float *x;
    unsigned n_columns;
    unsigned n_rows;
    unsigned words_per_row;
    unsigned split; // columns of A that one block sums
    Finish finish;
};

// x under its mask in the column's state; zero outside the matrix.
__device__ inline float masked_x(const Bits &bits, unsigned u, unsigned column, unsigned state) {
    const Finish &finish = bits.finish;
    if (u >= bits.n_columns || column >= finish.width) {
        return 0.0f;
    }
    const float x = __ldg(bits.x + (unsigned long long)u * finish.width + column);
    if (!(finish.flags & SPARSE_MASKED)) {
        return x;
    }
    const float keep = kept(finish, u, state);
    return keep == 0.0f ? 0.0f : keep * x;
}

__device__ inline unsigned long long word_of(const Bits &bits, unsigned u, unsigned word) {
    if (u >= bits.n_columns || word >= bits.words_per_row) {
        return 0ull;
    }
    return __ldg(bits.words + (unsigned long long)u * bits.words_per_row + word);
}

// What a block writes: the finished row where there is one split, else a partial sum.
__device__ inline void put(const Bits &bits, float *out, float sum, unsigned row, unsigned column) {
    if (row >= bits.n_rows || column >= bits.finish.width) {
        return;
    }
    if (gridDim.z == 1u) {
        sum = finished(bits.finish, sum, row, column, state_of(bits.finish, column));
    }
    const unsigned long long at = (unsigned long long)blockIdx.z * bits.n_rows + row;
    out[at * bits.finish.width + column] = sum;
}

// What a thread carries from global to shared memory for the next chunk.
struct Carried {
    float x[2u * PAIRS / WARPS];
    unsigned long long words[CHUNK * WARPS / THREADS];
};

__device__ inline void fetch(const Bits &bits, unsigned first, unsigned first_column, unsigned n_tile, unsigned state,
                             Carried &carried) {
    const unsigned column = threadIdx.x % 32u;
#pragma unroll
    for (unsigned i = 0; i < PAIRS / WARPS; ++i) {
        const unsigned u = first + 2u * (threadIdx.x / 32u + i * WARPS);
        const bool wanted = column < n_tile;
        carried.x[2u * i] = wanted ? masked_x(bits, u, first_column + column, state) : 0.0f;
        carried.x[2u * i + 1u] = wanted ? masked_x(bits, u + 1u, first_column + column, state) : 0.0f;
    }
#pragma unroll
    for (unsigned i = 0; i < CHUNK * WARPS / THREADS; ++i) {
        const unsigned at = threadIdx.x + i * THREADS;
        carried.words[i] = word_of(bits, first + at / WARPS, blockIdx.x * WARPS + at % WARPS);
    }
}

// Splits what was carried into bf16 parts, two columns of A a register, the lower half for the lower column.
template <unsigned PARTS>
__device__ inline void settle(const Carried &carried, unsigned (*parts)[PAIRS][PART_STRIDE],
                              unsigned long long (*words)[WORD_STRIDE]) {
    const unsigned column = threadIdx.x % 32u;
#pragma unroll
    for (unsigned i = 0; i < PAIRS / WARPS; ++i) {
        float even = 0.5f * carried.x[2u * i];
        float odd = 0.5f * carried.x[2u * i + 1u];
#pragma unroll
        for (unsigned part = 0; part < PARTS; ++part) {
            const unsigned low = bf16_bits(even);
            const unsigned high = bf16_bits(odd);
            parts[part][threadIdx.x / 32u + i * WARPS][column] = low | (high << 16);
            even -= bf16_value(low);
            odd -= bf16_value(high);
        }
    }
#pragma unroll
    for (unsigned i = 0; i < CHUNK * WARPS / THREADS; ++i) {
        const unsigned at = threadIdx.x + i * THREADS;
        words[at / WARPS][at % WARPS] = carried.words[i];
    }
}

// The 16 x 16 fragments of A for 64 own rows (four of 16) and 16 columns of A, from four words a lane: rows group and
// group + 8 of tile m are bits 16 m + group and 16 m + group + 8.
__device__ inline void expand(const unsigned long long (*words)[WORD_STRIDE], unsigned first, unsigned (&a)[4][4]) {
    const unsigned warp = threadIdx.x / 32u;
    const unsigned group = threadIdx.x % 32u / 4u;
    const unsigned t = threadIdx.x % 4u;
#pragma unroll
    for (unsigned half = 0; half < 2u; ++half) {
        const unsigned long long even = words[first + 2u * t + 8u * half][warp];
        const unsigned long long odd = words[first + 2u * t + 8u * half + 1u][warp];
#pragma unroll
        for (unsigned m = 0; m < 4u; ++m) {
            const unsigned low = unsigned(even >> (16u * m)) & 0xffffu;
            const unsigned high = unsigned(odd >> (16u * m)) & 0xffffu;
            const unsigned both = (low | (high << 16)) >> group;
            a[m][2u * half] = (both << 14) & ONES;
            a[m][2u * half + 1u] = (both << 6) & ONES;
        }
    }
}

// 512 own rows (64 a warp) by 8 * TILES columns of x, over one split of A's columns.
template <unsigned TILES, unsigned PARTS> __device__ inline void tensor_product(const Bits &bits, float *out) {
    __shared__ unsigned parts[PARTS][PAIRS][PART_STRIDE];
    __shared__ unsigned long long words[CHUNK][WORD_STRIDE];
    const unsigned group = threadIdx.x % 32u / 4u;
    const unsigned t = threadIdx.x % 4u;
    const unsigned first_row = (blockIdx.x * WARPS + threadIdx.x / 32u) * 64u;
    const unsigned first_column = blockIdx.y * 8u * TILES;
    const unsigned begin = blockIdx.z * bits.split;
    const unsigned end = bits.n_columns - begin < bits.split ? bits.n_columns : begin + bits.split;
    float sum[4][TILES][4] = {};
    const unsigned state = state_of(bits.finish, first_column + threadIdx.x % 32u);
    Carried carried;
    fetch(bits, begin, first_column, 8u * TILES, state, carried);
    for (unsigned first = begin; first < end; first += CHUNK) {
        __syncthreads(); // the last chunk has been read
        settle<PARTS>(carried, parts, words);
        __syncthreads();
        if (first + CHUNK < end) {
            fetch(bits, first + CHUNK, first_column, 8u * TILES, state, carried);
        }
        const unsigned left = end - first < CHUNK ? end - first : CHUNK;
        const unsigned steps = first_row < bits.n_rows ? (left + 15u) / 16u : 0u;
#pragma unroll 1
        for (unsigned step = 0; step < steps; ++step) {
            unsigned a[4][4];
            expand(words, 16u * step, a);
#pragma unroll
            for (unsigned n = 0; n < TILES; ++n) {
#pragma unroll
                for (unsigned part = 0; part < PARTS; ++part) {
                    const unsigned b[2] = {parts[part][8u * step + t][8u * n + group],
                                           parts[part][8u * step + t + 4u][8u * n + group]};
#pragma unroll
                    for (unsigned m = 0; m < 4u; ++m) {
                        mma_16x8x16(sum[m][n], a[m], b);
                    }
                }
            }
        }
    }
#pragma unroll
    for (unsigned m = 0; m < 4u; ++m) {
#pragma unroll
        for (unsigned n = 0; n < TILES; ++n) {
#pragma unroll
            for (unsigned i = 0; i < 4u; ++i) {
                put(bits, out, sum[m][n][i], first_row + 16u * m + group + 8u * (i / 2u),
                    first_column + 8u * n + 2u * t + i % 2u);
            }
        }
    }
}

// One own row a thread by TILE columns of x, which wait in shared memory 32 rows at a time.
template <unsigned TILE> __device__ inline void portable_product(const Bits &bits, float *out) {
    __shared__ float xs[32][TILE];
    const unsigned row = blockIdx.x * THREADS + threadIdx.x;
    const unsigned first_column = blockIdx.y * TILE;
    const unsigned begin = blockIdx.z * bits.split;
    const unsigned end = bits.n_columns - begin < bits.split ? bits.n_columns : begin + bits.split;
    const unsigned column = first_column + threadIdx.x % TILE; // of x; THREADS divides by TILE
    const unsigned state = state_of(bits.finish, column);
    float sum[TILE] = {};
    for (unsigned first = begin; first < end; first += 32u) {
        __syncthreads(); // the last rows have been read
        for (unsigned at = threadIdx.x; at < 32u * TILE; at += THREADS) {
            xs[at / TILE][at % TILE] = masked_x(bits, first + at / TILE, column, state);
        }
        __syncthreads();
        const unsigned n = end - first < 32u ? end - first : 32u;
        for (unsigned i = 0; i < n; ++i) {
            if ((word_of(bits, first + i, row / 64u) >> (row % 64u)) & 1ull) {
#pragma unroll
                for (unsigned j = 0; j < TILE; ++j) {
                    sum[j] += xs[i][j];
                }
            }
        }
    }
#pragma unroll
    for (unsigned j = 0; j < TILE; ++j) {
        put(bits, out, sum[j], row, first_column + j);
    }
}

} // namespace

// Grid: (own rows / 512, columns / (8 * TILES), splits). `split` is a multiple of 64; with more than one split, out is
// [n_splits, n_rows, width] partial sums.
#define SPARSE_BITS(name, TILES, PARTS)                                                                                \
    extern "C" __global__ void __launch_bounds__(256) sparse_bits_##name##_fwd(                                        \
        const unsigned long long *__restrict__ words, const float *__restrict__ x, const float *__restrict__ keep,     \
        const float *__restrict__ scale, const float *__restrict__ bias, float *__restrict__ out, unsigned n_columns,  \
        unsigned n_rows, unsigned words_per_row, unsigned width, unsigned state_width, unsigned n_states,              \
        unsigned first_row, unsigned split, unsigned flags) {                                                          \
        const Finish finish = {keep, scale, bias, width, state_width, n_states, first_row, flags};                     \
        tensor_product<TILES, PARTS>({words, x, n_columns, n_rows, words_per_row, split, finish}, out);                \
    }

SPARSE_BITS(8_fast, 1, 2)
SPARSE_BITS(8_exact, 1, 3)
SPARSE_BITS(32_fast, 4, 2)
SPARSE_BITS(32_exact, 4, 3)

// Grid: (own rows / 256, columns / TILE, splits); out as above.
#define SPARSE_BITS_PORTABLE(TILE)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) sparse_bits_##TILE##_portable_fwd(                               \
        const unsigned long long *__restrict__ words, const float *__restrict__ x, const float *__restrict__ keep,     \
        const float *__restrict__ scale, const float *__restrict__ bias, float *__restrict__ out, unsigned n_columns,  \
        unsigned n_rows, unsigned words_per_row, unsigned width, unsigned state_width, unsigned n_states,              \
        unsigned first_row, unsigned split, unsigned flags) {                                                          \
        const Finish finish = {keep, scale, bias, width, state_width, n_states, first_row, flags};                     \
        portable_product<TILE>({words, x, n_columns, n_rows, words_per_row, split, finish}, out);                      \
    }

SPARSE_BITS_PORTABLE(8)
SPARSE_BITS_PORTABLE(32)

// Adds the splits in order and finishes the rows. Grid: one thread for each row and column.
extern "C" __global__ void __launch_bounds__(256)
    sparse_bits_sum_fwd(const float *__restrict__ partials, const float *__restrict__ keep,
                        const float *__restrict__ scale, const float *__restrict__ bias, float *__restrict__ out,
                        unsigned n_splits, unsigned n_rows, unsigned width, unsigned state_width, unsigned n_states,
                        unsigned first_row, unsigned flags) {
    const unsigned long long i = thread_of_grid();
    const unsigned long long n = (unsigned long long)n_rows * width;
    if (i >= n) {
        return;
    }
    float sum = 0.0f;
    for (unsigned split = 0; split < n_splits; ++split) {
        sum += partials[split * n + i];
    }
    const Finish finish = {keep, scale, bias, width, state_width, n_states, first_row, flags};
    const unsigned column = unsigned(i % width);
    out[i] = finished(finish, sum, unsigned(i / width), column, state_of(finish, column));
}
