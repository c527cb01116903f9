// Relational graph convolution (R-GCN) without its weight matrices.
//
// The message of an edge (s, r, d) is W_r^T applied to the features of s, and W_r = sum_b a[r, b] V_b. Messages are made
// once for each pair (s, r) that occurs, and summed into destinations by the gathered sums of segment_sum.cu, which carry
// the normaliser 1 / c_{d,r}. W_r exists in shared memory at most, and with one-hot features not at all:
//
//   one-hot features, bases [n_sources, n_bases, width]:      pair[p, :] = sum_b a[r_p, b] * V[s_p, b, :]
//     basis_pairs_fwd   a warp a source: V[s] is read once and serves all pairs of s
//     basis_pairs_bwd   dV[s, b, :] = sum_p a[r_p, b] * g[p, :] and, for da, dots[rank_p, b] = V[s_p, b, :] . g[p, :]
//     basis_pairs_step  the same, but V[s] -= rate * (dV[s] + decay * V[s]) in place: no gradient is stored
//     da[r, :] is the sum of the rows of `dots` with relation r: a segment sum, since rank_p sorts pairs by relation.
//   dense features x [n_sources, n_blocks * in]:              pair[p, :] = W_{r_p}^T x[s_p, :]
//     relation_transform_fwd    W_r as a sum of bases, or block-diagonal with n_blocks blocks [in, out]
//     relation_transform_bwd    t[p, :] = W_{r_p} g[p, :]; dx is the segment sum of t over each source's pairs
//     relation_weights_bwd      dW of each piece: sum over its pairs of x[s_p, :] outer g[p, :]
//
// A source has at most 2^25 pairs, one for each relation. Pieces are runs of pairs of one relation (in `order`, sorted by relation), so that a hot relation is spread over many
// blocks. Determinism: no atomics; every sum has a fixed order. Source: Schlichtkrull et al., "Modeling relational data with
// graph convolutional networks" (2018), equations 2, 3 and 4.
//
// Bytes of basis_pairs_fwd: 4 * (n_sources * n_bases * width + n_pairs * width) + 4 * n_pairs + 8 * n_sources, the
// coefficients being cached; of basis_pairs_bwd: the same with V written too, and 8 * n_pairs * n_bases for `dots`.
#include "kernel.cuh"

namespace basis {

constexpr unsigned BASES_AT_ONCE = 64, COLUMNS_AT_ONCE = 32; // the largest tile of V[s] that a warp keeps

struct Pairs {
    const unsigned long long *offsets; // pairs of source s: offsets[s]..offsets[s + 1]
    const unsigned *relations;         // of each pair
    unsigned n_bases, width;
};

__device__ inline unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

// A warp's own part of the dynamic shared memory; rows of odd length keep columns in different banks.
struct Tile {
    float *at;
    unsigned stride;

    __device__ Tile(float *memory, const Pairs &pairs) {
        const unsigned rows = smaller(pairs.n_bases, BASES_AT_ONCE);
        stride = smaller(pairs.width, COLUMNS_AT_ONCE) | 1;
        at = memory + rows * stride * (threadIdx.x >> 5);
    }

    __device__ void load(const float *v, unsigned first_base, unsigned n_rows, unsigned first_column, unsigned n_columns,
                         unsigned width) {
        __syncwarp();
        for (unsigned i = threadIdx.x & 31; i < n_rows * n_columns; i += 32) {
            const unsigned b = i / n_columns, h = i % n_columns;
            at[b * stride + h] = v[static_cast<unsigned long long>(first_base + b) * width + first_column + h];
        }
        __syncwarp();
    }
};

__device__ inline unsigned long long warp_index() {
    return (static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
}

template <bool STEP>
__device__ void backward(const Pairs &pairs, const unsigned *ranks, const float *v, const float *coefficients,
                         const float *gradients, float rate, float decay, float *memory, float *dots, float *out,
                         unsigned long long source) {
    const unsigned lane = threadIdx.x & 31;
    const unsigned long long first = pairs.offsets[source];
    const unsigned n_pairs = static_cast<unsigned>(pairs.offsets[source + 1] - first);
    const unsigned long long block = source * pairs.n_bases * pairs.width;
    Tile tile(memory, pairs);
    for (unsigned b0 = 0; b0 < pairs.n_bases; b0 += BASES_AT_ONCE) {
        const unsigned nb = smaller(BASES_AT_ONCE, pairs.n_bases - b0);
        for (unsigned h0 = 0; h0 < pairs.width; h0 += COLUMNS_AT_ONCE) {
            const unsigned nh = smaller(COLUMNS_AT_ONCE, pairs.width - h0);
            tile.load(v + block, b0, nb, h0, nh, pairs.width);
            for (unsigned i = lane; i < n_pairs * nb; i += 32) {
                const unsigned long long p = first + i / nb;
                const unsigned b = i % nb;
                float *dot = dots + static_cast<unsigned long long>(ranks[p]) * pairs.n_bases + b0 + b;
                float sum = h0 == 0 ? 0.0f : *dot; // this lane wrote it
                const float *g = gradients + p * pairs.width + h0;
                for (unsigned h = 0; h < nh; ++h) sum = fmaf(tile.at[b * tile.stride + h], g[h], sum);
                *dot = sum;
            }
            for (unsigned i = lane; i < nb * nh; i += 32) {
                const unsigned b = i / nh, h = i % nh;
                float sum = 0.0f;
                for (unsigned long long p = first; p < first + n_pairs; ++p)
                    sum = fmaf(coefficients[static_cast<unsigned long long>(pairs.relations[p]) * pairs.n_bases + b0 + b],
                               gradients[p * pairs.width + h0 + h], sum);
                const float old = tile.at[b * tile.stride + h];
                out[block + static_cast<unsigned long long>(b0 + b) * pairs.width + h0 + h] =
                    STEP ? old - rate * fmaf(decay, old, sum) : sum;
            }
        }
    }
}

// ---- Dense features.

struct Weights {
    const float *bases;        // [n_bases, in, out], or without coefficients [n_relations, n_blocks, in, out]
    const float *coefficients; // [n_relations, n_bases]; null: block-diagonal weights
    unsigned n_bases, n_blocks, in, out;

    // The weight between input i and output o of block j.
    __device__ float at(unsigned relation, unsigned j, unsigned i, unsigned o) const {
        const unsigned long long place = static_cast<unsigned long long>(i) * out + o;
        if (!coefficients) {
            const unsigned long long size = static_cast<unsigned long long>(in) * out;
            return bases[(static_cast<unsigned long long>(relation) * n_blocks + j) * size + place];
        }
        float sum = 0.0f;
        for (unsigned b = 0; b < n_bases; ++b)
            sum = fmaf(coefficients[static_cast<unsigned long long>(relation) * n_bases + b],
                       bases[static_cast<unsigned long long>(b) * in * out + place], sum);
        return sum;
    }
};

struct Pieces {
    const unsigned *relations;
    const unsigned long long *offsets; // piece t: order[offsets[t]..offsets[t + 1]]
    const unsigned *order;             // pairs, sorted by relation
    const unsigned *sources;           // of each pair
};

// One piece, and the columns `column_tile * n_columns ...` of its results. ADJOINT: from outputs to inputs.
template <bool ADJOINT>
__device__ void transform(const Pieces &pieces, const Weights &weights, const float *x, unsigned n_columns, float *tile,
                          float *out) {
    const unsigned inner = ADJOINT ? weights.out : weights.in;
    const unsigned outer = ADJOINT ? weights.in : weights.out;
    const unsigned x_width = weights.n_blocks * inner, out_width = weights.n_blocks * outer;
    const unsigned relation = pieces.relations[blockIdx.x];
    const unsigned first_column = blockIdx.y * n_columns;
    const unsigned width = smaller(n_columns, out_width - first_column);
    for (unsigned e = threadIdx.x; e < inner * width; e += blockDim.x) {
        const unsigned k = e / width, column = first_column + e % width;
        const unsigned j = column / outer, c = column % outer;
        tile[e] = ADJOINT ? weights.at(relation, j, c, k) : weights.at(relation, j, k, c);
    }
    __syncthreads();
    const unsigned long long first = pieces.offsets[blockIdx.x];
    const unsigned n_items = static_cast<unsigned>(pieces.offsets[blockIdx.x + 1] - first) * width;
    for (unsigned e = threadIdx.x; e < n_items; e += blockDim.x) {
        const unsigned long long pair = pieces.order[first + e / width];
        const unsigned long long row = ADJOINT ? pair : pieces.sources[pair];
        const unsigned c = e % width, column = first_column + c;
        const float *from = x + row * x_width + static_cast<unsigned long long>(column / outer) * inner;
        float sum = 0.0f;
        for (unsigned k = 0; k < inner; ++k) sum = fmaf(from[k], tile[k * width + c], sum);
        out[pair * out_width + column] = sum;
    }
}

} // namespace basis

// offsets [n_sources + 1], relations [n_pairs], bases [n_sources, n_bases, width], coefficients [n_relations, n_bases],
// pairs [n_pairs, width]; shared memory: min(n_bases, 64) * (min(width, 32) | 1) floats for each warp.
extern "C" __global__ void __launch_bounds__(128)
    basis_pairs_fwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ relations,
                    const float *__restrict__ bases, const float *__restrict__ coefficients, unsigned n_sources,
                    unsigned n_bases, unsigned width, float *__restrict__ pairs) {
    CU_DYN_SHARED(float, memory);
    const unsigned long long source = basis::warp_index();
    if (source >= n_sources) return;
    const unsigned lane = threadIdx.x & 31;
    const unsigned long long first = offsets[source];
    const unsigned n_pairs = static_cast<unsigned>(offsets[source + 1] - first);
    if (n_pairs == 0) return; // the same for the whole warp
    basis::Tile tile(memory, basis::Pairs{offsets, relations, n_bases, width});
    const float *v = bases + source * n_bases * width;
    for (unsigned h0 = 0; h0 < width; h0 += basis::COLUMNS_AT_ONCE) {
        const unsigned nh = basis::smaller(basis::COLUMNS_AT_ONCE, width - h0);
        for (unsigned b0 = 0; b0 < n_bases; b0 += basis::BASES_AT_ONCE) {
            const unsigned nb = basis::smaller(basis::BASES_AT_ONCE, n_bases - b0);
            tile.load(v, b0, nb, h0, nh, width);
            for (unsigned i = lane; i < n_pairs * nh; i += 32) {
                const unsigned long long p = first + i / nh;
                const unsigned h = i % nh;
                const float *a = coefficients + static_cast<unsigned long long>(relations[p]) * n_bases + b0;
                float *out = pairs + p * width + h0 + h;
                float sum = b0 == 0 ? 0.0f : *out; // this lane wrote it
                for (unsigned b = 0; b < nb; ++b) sum = fmaf(a[b], tile.at[b * tile.stride + h], sum);
                *out = sum;
            }
        }
    }
}

// Sources first_source..first_source + n_sources; ranks [n_pairs] are rows of `dots`; gradients [n_pairs, width];
// grad_bases as bases. Shared memory as above.
extern "C" __global__ void __launch_bounds__(128, 8)
    basis_pairs_bwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ relations,
                    const unsigned *__restrict__ ranks, const float *__restrict__ bases,
                    const float *__restrict__ coefficients, const float *__restrict__ gradients, unsigned first_source,
                    unsigned n_sources, unsigned n_bases, unsigned width, float *__restrict__ dots,
                    float *__restrict__ grad_bases) {
    CU_DYN_SHARED(float, memory);
    const unsigned long long source = basis::warp_index();
    if (source >= n_sources) return;
    basis::backward<false>(basis::Pairs{offsets, relations, n_bases, width}, ranks, bases, coefficients, gradients, 0.0f,
                           0.0f, memory, dots, grad_bases, first_source + source);
}

// As basis_pairs_bwd, but bases[s] -= rate * (gradient + decay * bases[s]).
extern "C" __global__ void __launch_bounds__(128, 8)
    basis_pairs_step(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ relations,
                     const unsigned *__restrict__ ranks, const float *__restrict__ coefficients,
                     const float *__restrict__ gradients, unsigned first_source, unsigned n_sources, unsigned n_bases,
                     unsigned width, float rate, float decay, float *__restrict__ dots, float *bases) {
    CU_DYN_SHARED(float, memory);
    const unsigned long long source = basis::warp_index();
    if (source >= n_sources) return;
    basis::backward<true>(basis::Pairs{offsets, relations, n_bases, width}, ranks, bases, coefficients, gradients, rate,
                          decay, memory, dots, bases, first_source + source);
}

// Grid (pieces, tiles of n_columns output columns); n_bases 0: block-diagonal weights. x [n_sources, n_blocks * in],
// out [n_pairs, n_blocks * out]; shared memory: in * n_columns floats.
extern "C" __global__ void __launch_bounds__(256)
    relation_transform_fwd(const unsigned *__restrict__ piece_relations,
                           const unsigned long long *__restrict__ piece_offsets, const unsigned *__restrict__ order,
                           const unsigned *__restrict__ sources, const float *__restrict__ bases,
                           const float *__restrict__ coefficients, unsigned n_bases, unsigned n_blocks, unsigned in_size,
                           unsigned out_size, const float *__restrict__ x, unsigned n_columns, float *__restrict__ out) {
    CU_DYN_SHARED(float, tile);
    const basis::Weights weights{bases, n_bases ? coefficients : nullptr, n_bases, n_blocks, in_size, out_size};
    basis::transform<false>(basis::Pieces{piece_relations, piece_offsets, order, sources}, weights, x, n_columns, tile,
                            out);
}

// Grid (pieces, tiles of n_columns input columns); gradients [n_pairs, n_blocks * out], out [n_pairs, n_blocks * in];
// shared memory: out * n_columns floats.
extern "C" __global__ void __launch_bounds__(256)
    relation_transform_bwd(const unsigned *__restrict__ piece_relations,
                           const unsigned long long *__restrict__ piece_offsets, const unsigned *__restrict__ order,
                           const unsigned *__restrict__ sources, const float *__restrict__ bases,
                           const float *__restrict__ coefficients, unsigned n_bases, unsigned n_blocks, unsigned in_size,
                           unsigned out_size, const float *__restrict__ gradients, unsigned n_columns,
                           float *__restrict__ out) {
    CU_DYN_SHARED(float, tile);
    const basis::Weights weights{bases, n_bases ? coefficients : nullptr, n_bases, n_blocks, in_size, out_size};
    basis::transform<true>(basis::Pieces{piece_relations, piece_offsets, order, sources}, weights, gradients, n_columns,
                           tile, out);
}

// Grid (pieces, blocks of 256 weights); out [n_pieces, n_blocks, in, out].
extern "C" __global__ void __launch_bounds__(256)
    relation_weights_bwd(const unsigned long long *__restrict__ piece_offsets, const unsigned *__restrict__ order,
                         const unsigned *__restrict__ sources, unsigned n_blocks, unsigned in_size, unsigned out_size,
                         const float *__restrict__ x, const float *__restrict__ gradients, float *__restrict__ out) {
    const unsigned n_weights = n_blocks * in_size * out_size;
    const unsigned e = blockIdx.y * blockDim.x + threadIdx.x;
    if (e >= n_weights) return;
    const unsigned j = e / (in_size * out_size), i = e / out_size % in_size, o = e % out_size;
    const float *from_x = x + j * in_size + i, *from_g = gradients + j * out_size + o;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned long long k = piece_offsets[blockIdx.x]; k < piece_offsets[blockIdx.x + 1]; ++k) {
        const unsigned long long pair = order[k];
        const unsigned long long source = sources[pair];
        sum = fmaf(from_x[source * n_blocks * in_size], from_g[pair * n_blocks * out_size], sum);
    }
    out[static_cast<unsigned long long>(blockIdx.x) * n_weights + e] = sum;
}
