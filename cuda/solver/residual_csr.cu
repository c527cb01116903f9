// The residual graph over adjacency lists: what a vertex-cover round takes from it, and degrees of states from scratch.
//
// A residual graph is a graph without some nodes; only its integers are kept: `degree` (residual degrees, 0 for removed
// nodes) and `d2` (the sum of the residual degrees of a node's residual neighbours; for nodes without a residual edge
// whatever is left there). Removing the group S takes from every other node w
//   degree_w:  |N(w) and S|
//   d2_w:      the sum of degree_s over s in N(w) and S, and the sum of c_u over residual u in N(w) without S,
//              with c_u = |N(u) and S|.
// residual_mark_csr walks the lists of S: it counts c_u in `marks`, lists each such u once and takes degree_s from
// d2_u. residual_spread_csr walks the lists of those u: it takes c_u from d2_w, then degrees lose their marks and are
// counted. residual_degree_csr and residual_d2_csr count degree and d2 of up to 32 states of one graph, each in one
// pass over it.
//
// Shapes: row_ptr [n_nodes + 1], columns ascending in each row; degree, d2, marks [n_nodes]; list [n_nodes], short rows
//   from its start, long rows from its end; group and state: cover_loop.cuh; alive_bits: bit v is set if v is a
//   candidate. States: alive [n_nodes], bit b of a node's word: it is in state b; degree and d2 [n_nodes, n_states].
// Launch: BLOCK threads, any number of blocks.
// Determinism: integers only, so the order of the atomics changes nothing.
// Bytes a round: 4 B an entry of the lists of S, then 4 B an entry of the lists of its residual neighbours and 8 B (an
//   atomic) for each such entry that is a candidate; 8 n_nodes for the degrees. From scratch: 4 B an entry for the
//   lists and, for each entry, 4 B (degree) or 4 n_states B (d2) gathered.

#include "kernel.cuh"

#include "cover_loop.cuh"

namespace {

using namespace cover;
using Wide = unsigned long long;

// Rows from this length on are shared by all warps of the launch, so that one hub does not keep a single warp busy.
constexpr Wide LONG_ROW = 2048;

// Puts the nodes of the lanes with `wanted` into the list; whole warps call this.
__device__ void append(bool wanted, unsigned node, unsigned *count, unsigned *list, unsigned n_nodes, bool at_end) {
    const unsigned lanes = __ballot_sync(ALL_LANES, wanted);
    if (lanes == 0) {
        return;
    }
    const unsigned lane = lane_of_warp();
    const int first = __ffs((int)lanes) - 1;
    unsigned start = 0;
    if (lane == (unsigned)first) {
        start = atomicAdd(count, (unsigned)__popc(lanes));
    }
    start = __shfl_sync(ALL_LANES, start, first);
    if (wanted) {
        const unsigned at = start + __popc(lanes & ((1u << lane) - 1));
        list[at_end ? n_nodes - 1 - at : at] = node;
    }
}

__device__ void take_from_d2(const unsigned *columns, Wide begin, Wide end, Wide step, unsigned count,
                             const unsigned *alive_bits, Wide *d2) {
    for (Wide entry = begin; entry < end; entry += step) {
        const unsigned w = columns[entry];
        if (test_bit(alive_bits, w)) {
            atomicAdd(&d2[w], 0 - (Wide)count);
        }
    }
}

// Sums `f(column, state)` over a node's row for every state; the lanes of a warp share its entries and the states.
// The result is at the lanes below `n_states`.
template <class Sum, class F>
__device__ Sum sum_row(const unsigned *columns, Wide begin, Wide end, unsigned n_states, F f) {
    unsigned bits = 0; // 2^bits lanes for the states of one entry
    while ((1u << bits) < n_states) {
        ++bits;
    }
    const unsigned width = 1u << bits;
    const unsigned lane = lane_of_warp();
    const unsigned state = lane & (width - 1);
    Sum sum = 0;
    if (state < n_states) {
        for (Wide entry = begin + (lane >> bits); entry < end; entry += 32 >> bits) {
            sum += f(columns[entry], state);
        }
    }
    __syncwarp();
    for (unsigned offset = width; offset < 32; offset *= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, offset);
    }
    return sum;
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    residual_mark_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *alive_bits,
                      const unsigned *group, unsigned n_nodes, unsigned long long *d2, unsigned *marks, unsigned *list,
                      unsigned *state) {
    __shared__ Group picks;
    const unsigned n_removed = state[N_REMOVED];
    if (n_removed == 0) {
        return;
    }
    load_group(picks, group, n_removed);
    __syncthreads();
    for (unsigned s = 0; s < n_removed; s++) {
        const Wide begin = row_ptr[picks.node[s]], end = row_ptr[picks.node[s] + 1];
        for (Wide base = begin + blockIdx.x * BLOCK; base < end; base += (Wide)gridDim.x * BLOCK) {
            const Wide entry = base + threadIdx.x;
            const unsigned u = entry < end ? columns[entry] : 0;
            const bool is_residual = entry < end && test_bit(alive_bits, u) && !is_in_group(picks, n_removed, u);
            bool is_first = false, is_long = false;
            if (is_residual) {
                is_first = atomicAdd(&marks[u], 1u) == 0;
                is_long = row_ptr[u + 1] - row_ptr[u] >= LONG_ROW;
                atomicAdd(&d2[u], 0 - (Wide)picks.degree[s]);
            }
            append(is_first && !is_long, u, &state[N_SHORT], list, n_nodes, false);
            append(is_first && is_long, u, &state[N_LONG], list, n_nodes, true);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    residual_spread_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *alive_bits,
                        const unsigned *group, const unsigned *marks, const unsigned *list, unsigned n_nodes,
                        unsigned *degree, unsigned long long *d2, unsigned *state) {
    __shared__ Group picks;
    const unsigned n_removed = state[N_REMOVED];
    if (n_removed == 0) {
        return;
    }
    load_group(picks, group, n_removed);
    __syncthreads();
    const Wide thread = (Wide)blockIdx.x * BLOCK + threadIdx.x;
    const Wide n_threads = (Wide)gridDim.x * BLOCK;
    const unsigned n_short = state[N_SHORT], n_long = state[N_LONG];
    for (Wide i = thread / 32; i < n_short; i += n_threads / 32) {
        const unsigned u = list[i];
        take_from_d2(columns, row_ptr[u] + lane_of_warp(), row_ptr[u + 1], 32, marks[u], alive_bits, d2);
    }
    for (unsigned i = 0; i < n_long; i++) {
        const unsigned u = list[n_nodes - 1 - i];
        take_from_d2(columns, row_ptr[u] + thread, row_ptr[u + 1], n_threads, marks[u], alive_bits, d2);
    }
    unsigned max_degree = 0, n_candidates = 0;
    for (Wide node = thread; node < n_nodes; node += n_threads) {
        const unsigned before = degree[node];
        if (before > 0) {
            const bool is_gone = is_in_group(picks, n_removed, (unsigned)node);
            const unsigned after = is_gone ? 0 : before - marks[node];
            if (after != before) {
                degree[node] = after;
            }
            max_degree = after > max_degree ? after : max_degree;
            n_candidates += after > 0;
        }
    }
    __syncwarp();
    report_degrees(max_degree, n_candidates, state);
}

extern "C" __global__ void __launch_bounds__(256)
    residual_degree_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *alive,
                        unsigned n_nodes, unsigned n_states, unsigned *degree) {
    const Wide warps = (Wide)gridDim.x * WARPS;
    const unsigned lane = lane_of_warp();
    for (Wide node = (Wide)blockIdx.x * WARPS + threadIdx.x / WARP; node < n_nodes; node += warps) {
        auto is_alive = [&](unsigned u, unsigned b) { return (alive[u] >> b) & 1; };
        const unsigned sum = sum_row<unsigned>(columns, row_ptr[node], row_ptr[node + 1], n_states, is_alive);
        if (lane < n_states) {
            degree[node * n_states + lane] = (alive[node] >> lane) & 1 ? sum : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    residual_d2_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *alive,
                    const unsigned *degree, unsigned n_nodes, unsigned n_states, unsigned long long *d2) {
    const Wide warps = (Wide)gridDim.x * WARPS;
    const unsigned lane = lane_of_warp();
    for (Wide node = (Wide)blockIdx.x * WARPS + threadIdx.x / WARP; node < n_nodes; node += warps) {
        auto degree_of = [&](unsigned u, unsigned b) { return (Wide)degree[(Wide)u * n_states + b]; };
        const Wide sum = sum_row<Wide>(columns, row_ptr[node], row_ptr[node + 1], n_states, degree_of);
        if (lane < n_states) {
            d2[node * n_states + lane] = (alive[node] >> lane) & 1 ? sum : 0;
        }
    }
}
