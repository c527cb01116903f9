// What every sparse product does with a finished sum: residual-graph mask, state scale, bias and relu.
//
// out[v, b, :] = act(scale[b] * keep[first_row + v, b] * sum + bias[v, b, :]); each factor, the bias and the relu are
// optional (flags). The graph is never edited: a node that has left state b has keep[node, b] = 0.
#pragma once

namespace {

constexpr unsigned SPARSE_WEIGHTED = 1u; // one weight for each column id
constexpr unsigned SPARSE_MASKED = 2u;   // `keep` is read, for columns and for rows
constexpr unsigned SPARSE_SCALED = 4u;   // `scale` is read
constexpr unsigned SPARSE_BIAS = 8u;     // `bias` is read
constexpr unsigned SPARSE_RELU = 16u;    // negative results become zero

struct Finish {
    const float *keep;  // [all nodes, n_states]
    const float *scale; // [n_states]
    const float *bias;  // [own rows, width]
    unsigned width;     // n_states * state_width; all three are given: nothing is divided per entry
    unsigned state_width;
    unsigned n_states;
    unsigned first_row; // the node of own row 0
    unsigned flags;
};

// The state of a column. One division: before a loop, never in it.
__device__ inline unsigned state_of(const Finish &f, unsigned column) {
    return f.flags & (SPARSE_MASKED | SPARSE_SCALED) ? column / f.state_width : 0u;
}

// The mask of one node in one state.
__device__ inline float kept(const Finish &f, unsigned long long node, unsigned state) {
    return __ldg(f.keep + node * f.n_states + state);
}

// The factor of a row's sum: its own mask times the scale of the state.
__device__ inline float row_factor(const Finish &f, unsigned row, unsigned state) {
    float factor = 1.0f;
    if (f.flags & SPARSE_MASKED) {
        factor = kept(f, (unsigned long long)f.first_row + row, state);
    }
    if (f.flags & SPARSE_SCALED) {
        factor *= __ldg(f.scale + state);
    }
    return factor;
}

// The result of one element, whose column belongs to `state`. NaN stays NaN through the relu and negative zero becomes
// zero, as on the host.
__device__ inline float finished(const Finish &f, float sum, unsigned row, unsigned column, unsigned state) {
    if (f.flags & (SPARSE_MASKED | SPARSE_SCALED)) {
        sum *= row_factor(f, row, state);
    }
    if (f.flags & SPARSE_BIAS) {
        sum += __ldg(f.bias + (unsigned long long)row * f.width + column);
    }
    if ((f.flags & SPARSE_RELU) && sum <= 0.0f) {
        sum = 0.0f;
    }
    return sum;
}

} // namespace
