// Messages of an R-GCN layer: one for each pair of a source and a relation along which it sends.
//
//   message[p][o] = sum over k < n_terms of x(source[p], k, o) * table(relation[p], k, o)
//
// Two forms, by the factor that has a number for each output o:
//   bases     x[k * width + o] of the source's row of shared bases, table[k] of the relation (one-hot input);
//   weights   x[k] of the source's activations, table[k * width + o] of the relation (all other layers).
//
// Shapes: x [n_sources, x_stride]; table [n_relations, n_terms], or with weights [n_relations, n_terms * width];
// message and its gradient dy [n_pairs, width]. source and relation [n_pairs]; starts [n_sources + 1] has the first
// pair of each source. by_relation [n_pairs] has the pairs in the order of their relations, cut into chunks of one
// relation each at chunk_starts [n_chunks + 1].
// Bytes, where a row of x stays in a cache for the pairs of its source, and the table for all: messages and the
// gradient of x 4 * (n_sources * x_stride + n_pairs * (width + 2)); the gradient of the table with bases
// 4 * n_pairs * n_terms more, with weights 4 * n_pairs * (n_terms + width + 1) and 4 * n_terms * width a chunk.
// Determinism: each number is the sum of one thread, over ascending pairs, then ascending k or o.
//
// Source: Schlichtkrull et al., "Modeling relational data with graph convolutional networks", equations 2 and 3.
#include "kernel.cuh"
#include "warp.cuh"

namespace {

// The number of a row at term k and output o, which has one for each o or is the same for all.
template <bool HAS_OUTPUTS>
__device__ __forceinline__ float term(const float *row, unsigned k, unsigned o, unsigned width) {
    return HAS_OUTPUTS ? row[k * width + o] : row[k];
}

template <bool BASES>
__device__ __forceinline__ void messages(const float *__restrict__ x, const float *__restrict__ table,
                                         const unsigned *__restrict__ source, const unsigned *__restrict__ relation,
                                         float *__restrict__ out, unsigned n_pairs, unsigned x_stride, unsigned n_terms,
                                         unsigned width) {
    const Element at = element_of(thread_of_grid(), width);
    if (at.row >= n_pairs) {
        return;
    }
    const unsigned o = static_cast<unsigned>(at.column);
    const unsigned row_length = BASES ? n_terms : n_terms * width;
    const float *const sent = x + static_cast<unsigned long long>(source[at.row]) * x_stride;
    const float *const weights = table + static_cast<unsigned long long>(relation[at.row]) * row_length;
    float sum = 0.0f;
    for (unsigned k = 0; k < n_terms; ++k) {
        sum += term<BASES>(sent, k, o, width) * term<!BASES>(weights, k, o, width);
    }
    out[at.row * width + o] = sum;
}

// Padding of a row of x has no gradient.
template <bool BASES>
__device__ __forceinline__ void
source_gradient(const float *__restrict__ table, const float *__restrict__ dy, const unsigned *__restrict__ starts,
                const unsigned *__restrict__ relation, float *__restrict__ dx, unsigned n_sources, unsigned x_stride,
                unsigned n_terms, unsigned width) {
    const Element at = element_of(thread_of_grid(), x_stride);
    if (at.row >= n_sources) {
        return;
    }
    const unsigned j = static_cast<unsigned>(at.column);
    const unsigned k = BASES ? j / width : j, o = BASES ? j - k * width : 0u;
    const unsigned end = k < n_terms ? starts[at.row + 1] : 0u;
    float sum = 0.0f;
    for (unsigned pair = starts[at.row]; pair < end; ++pair) {
        const unsigned long long r = relation[pair];
        const float *const sent = dy + static_cast<unsigned long long>(pair) * width;
        if (BASES) {
            sum += table[r * n_terms + k] * sent[o];
        } else {
            const float *const weights = table + (r * n_terms + k) * width;
            for (unsigned output = 0; output < width; ++output) {
                sum += weights[output] * sent[output];
            }
        }
    }
    dx[at.row * x_stride + j] = sum;
}

} // namespace

// The messages. Grid: one thread for an element of out [n_pairs, width].
extern "C" __global__ void __launch_bounds__(256)
    relation_messages_bases_fwd(const float *__restrict__ x, const float *__restrict__ table,
                                const unsigned *__restrict__ source, const unsigned *__restrict__ relation,
                                float *__restrict__ out, unsigned n_pairs, unsigned x_stride, unsigned n_terms,
                                unsigned width) {
    messages<true>(x, table, source, relation, out, n_pairs, x_stride, n_terms, width);
}

extern "C" __global__ void __launch_bounds__(256)
    relation_messages_weights_fwd(const float *__restrict__ x, const float *__restrict__ table,
                                  const unsigned *__restrict__ source, const unsigned *__restrict__ relation,
                                  float *__restrict__ out, unsigned n_pairs, unsigned x_stride, unsigned n_terms,
                                  unsigned width) {
    messages<false>(x, table, source, relation, out, n_pairs, x_stride, n_terms, width);
}

// The gradient of x. Grid: one thread for an element of dx [n_sources, x_stride].
extern "C" __global__ void __launch_bounds__(256)
    relation_messages_bases_source_bwd(const float *__restrict__ table, const float *__restrict__ dy,
                                       const unsigned *__restrict__ starts, const unsigned *__restrict__ relation,
                                       float *__restrict__ dx, unsigned n_sources, unsigned x_stride, unsigned n_terms,
                                       unsigned width) {
    source_gradient<true>(table, dy, starts, relation, dx, n_sources, x_stride, n_terms, width);
}

extern "C" __global__ void __launch_bounds__(256)
    relation_messages_weights_source_bwd(const float *__restrict__ table, const float *__restrict__ dy,
                                         const unsigned *__restrict__ starts, const unsigned *__restrict__ relation,
                                         float *__restrict__ dx, unsigned n_sources, unsigned x_stride,
                                         unsigned n_terms, unsigned width) {
    source_gradient<false>(table, dy, starts, relation, dx, n_sources, x_stride, n_terms, width);
}

// The gradient of the coefficients that each pair read, [n_pairs, n_terms]; the caller adds them by relation. Grid: one
// thread for an element of out.
extern "C" __global__ void __launch_bounds__(256)
    relation_messages_bases_relation_bwd(const float *__restrict__ x, const float *__restrict__ dy,
                                         const unsigned *__restrict__ source, float *__restrict__ out, unsigned n_pairs,
                                         unsigned x_stride, unsigned n_terms, unsigned width) {
    const Element at = element_of(thread_of_grid(), n_terms);
    if (at.row >= n_pairs) {
        return;
    }
    const float *const bases = x + static_cast<unsigned long long>(source[at.row]) * x_stride + at.column * width;
    const float *const gradient = dy + at.row * width;
    float sum = 0.0f;
    for (unsigned o = 0; o < width; ++o) {
        sum += bases[o] * gradient[o];
    }
    out[at.row * n_terms + at.column] = sum;
}

// Each chunk's part of the gradient of the weights, [n_chunks, n_terms * width]; the caller adds them by relation.
// Grid: n_chunks blocks in x, one for 256 weights in y and z.
extern "C" __global__ void __launch_bounds__(256)
    relation_messages_weights_relation_bwd(const float *__restrict__ x, const float *__restrict__ dy,
                                           const unsigned *__restrict__ source,
                                           const unsigned *__restrict__ by_relation,
                                           const unsigned *__restrict__ chunk_starts, float *__restrict__ out,
                                           unsigned x_stride, unsigned n_terms, unsigned width) {
    const unsigned j = block_in_y() * blockDim.x + threadIdx.x;
    if (j >= n_terms * width) {
        return;
    }
    const unsigned k = j / width, o = j - k * width;
    const unsigned end = chunk_starts[blockIdx.x + 1];
    float sum = 0.0f;
    for (unsigned i = chunk_starts[blockIdx.x]; i < end; ++i) {
        const unsigned long long pair = by_relation[i];
        sum += x[static_cast<unsigned long long>(source[pair]) * x_stride + k] * dy[pair * width + o];
    }
    out[static_cast<unsigned long long>(blockIdx.x) * (n_terms * width) + j] = sum;
}
