// The input of a policy's model for the state of a vertex-cover episode: rows of the nodes, and the residual graph's
// mask.
//
// What: with s the scale of the state, for each node v
//   node_v = 1 if v is in the cover, edge_v = (degree_v s, 0),
//   neighbor_degree_v = d2_v s^2 for a candidate, 0 for the others,
//   keep_v = 0 if v is in the cover; and scale = s.
// Where edges have weights w, edge_v is the sum of the positive w_uv s over residual neighbours u, and the sum of the
// sizes of the negative ones, both added in the order of v's list: a warp a node, whose even lanes have the one sum and
// whose odd lanes the other.
// For a batch of training, state_neighbor_degree writes neighbor_degree of some states of one graph: row (v, b) of the
// batch is at first + v stride + b.
// Before the first launch of an episode `node` and `edge` are 0 and `keep` is 1 everywhere. Picks are never taken back,
// so `node` and `keep` change at nodes of the cover only; without weights the second number of an edge row stays 0.
// Shapes: degree, d2, cover [n_nodes]; node, neighbor_degree, keep [n_nodes]; edge [n_nodes, 2]; scale [1]; state:
//   cover_loop.cuh. cover_weight_sums takes the rows first .. first + n_rows of the graph as lists: row_ptr
//   [n_rows + 1], columns and weights [n_entries]; degree is of all nodes. For a batch d2 [n_nodes, n_states] and scale
//   [n_states], of at most 32 states.
// Launch: BLOCK threads, any number of blocks.
// Determinism: one answer; a row is the same sequence of roundings as on the host.
// Bytes: cover_rows 8 n_nodes + 8 n_cover, cover_neighbor_degree 16 n_nodes, cover_mask 8 n_cover,
//   state_neighbor_degree 12 B a node and state, cover_weight_sums 12 B an entry and 20 n_rows.

#include "kernel.cuh"

#include "cover_loop.cuh"

namespace {

using namespace cover;
using Wide = unsigned long long;

__device__ Wide first_of_thread() { return (Wide)blockIdx.x * BLOCK + threadIdx.x; }

__device__ Wide n_threads() { return (Wide)gridDim.x * BLOCK; }

// Writes a value at each node of the cover.
__device__ void set_cover(const unsigned *cover, unsigned n_cover, float value, float *row) {
    for (Wide i = first_of_thread(); i < n_cover; i += n_threads()) {
        row[cover[i]] = value;
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    cover_rows(const unsigned *degree, const unsigned *cover, unsigned n_nodes, unsigned by_largest_degree,
               const unsigned *state, float *node, float *edge) {
    const float scale = scale_of(state, by_largest_degree);
    for (Wide v = first_of_thread(); v < n_nodes; v += n_threads()) {
        edge[2 * v] = __fmul_rn((float)degree[v], scale);
    }
    set_cover(cover, state[N_COVER], 1.0f, node);
}

extern "C" __global__ void __launch_bounds__(256)
    cover_weight_sums(const unsigned long long *row_ptr, const unsigned *columns, const float *weights,
                      const unsigned *degree, unsigned first, unsigned n_rows, unsigned by_largest_degree,
                      const unsigned *state, float *edge) {
    const float scale = scale_of(state, by_largest_degree);
    const unsigned lane = lane_of_warp();
    const float sign = lane % 2 == 0 ? 1.0f : -1.0f;
    for (Wide row = warp_of_grid(); row < n_rows; row += warps_of_grid()) {
        const Wide begin = row_ptr[row];
        // A residual edge has two ends with a residual degree.
        const Wide end = degree[first + row] > 0 ? row_ptr[row + 1] : begin;
        float sum = 0.0f;
        for (Wide base = begin; base < end; base += WARP) {
            const Wide entry = base + lane;
            const bool is_residual = entry < end && degree[columns[entry]] > 0;
            const float weight = is_residual ? __fmul_rn(weights[entry], scale) : 0.0f;
            for (unsigned i = 0; i < WARP; i++) {
                sum = __fadd_rn(sum, fmaxf(sign * __shfl_sync(ALL_LANES, weight, i), 0.0f));
            }
        }
        if (lane < 2) {
            edge[2 * row + lane] = sum;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_neighbor_degree(const unsigned *degree, const unsigned long long *d2, unsigned n_nodes,
                          unsigned by_largest_degree, const unsigned *state, float *neighbor_degree) {
    const float scale = scale_of(state, by_largest_degree);
    const float scale2 = __fmul_rn(scale, scale);
    for (Wide v = first_of_thread(); v < n_nodes; v += n_threads()) {
        neighbor_degree[v] = degree[v] > 0 ? __fmul_rn((float)(long long)d2[v], scale2) : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_mask(const unsigned *cover, unsigned by_largest_degree, const unsigned *state, float *keep, float *scale) {
    if (first_of_thread() == 0) {
        scale[0] = scale_of(state, by_largest_degree);
    }
    set_cover(cover, state[N_COVER], 0.0f, keep);
}

extern "C" __global__ void __launch_bounds__(256)
    state_neighbor_degree(const unsigned long long *d2, const float *scale, unsigned n_nodes, unsigned n_states,
                          unsigned stride, unsigned long long first, float *neighbor_degree) {
    const unsigned state = lane_of_warp();
    if (state >= n_states) {
        return;
    }
    const float scale2 = __fmul_rn(scale[state], scale[state]);
    for (Wide v = first_of_thread() / WARP; v < n_nodes; v += n_threads() / WARP) {
        neighbor_degree[first + v * stride + state] = __fmul_rn((float)(long long)d2[v * n_states + state], scale2);
    }
}
