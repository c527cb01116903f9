// The state that the kernels of a vertex-cover episode share: `score_select_*` and `residual_*`.
//
// An episode is a row of rounds. A round picks up to GROUP nodes (score_select) and removes them (residual_*). A step
// of the policy (one evaluation) is one round where it picks up to GROUP nodes, else several: the later rounds go on in
// the same order of scores. All that varies is in device memory, so every round is the same sequence of launches with
// the same arguments, and rounds after the last one do nothing.
#pragma once

#include "kernel.cuh"
#include "warp.cuh"

namespace cover {

// Nodes that a round removes at most: what the paper's selection asks for in one step.
constexpr unsigned GROUP = 8;

// Threads of a block of every kernel here.
constexpr unsigned BLOCK = 256;
constexpr unsigned WARPS = BLOCK / WARP;

// The words of `state`.
enum State : unsigned {
    MAX_DEGREE = 0,   // the largest residual degree
    N_CANDIDATES = 1, // nodes with a residual edge
    N_LEFT = 2,       // nodes that later rounds of the current step still pick or pass over
    N_REMOVED = 3,    // nodes of this round, in `group`
    N_COVER = 4,      // nodes of the cover so far
    N_STEPS = 5,      // policy evaluations so far
    N_SHORT = 6,      // listed neighbours with short rows (lists only)
    N_LONG = 7,       // listed neighbours with long rows (lists only)
    TICKET = 8,       // blocks of score_select that have offered their best
    N_UNBOUNDED = 9,  // candidates' scores of a model that were no numbers
    N_PASSED = 10,    // best candidates that the next rounds pass over: those of earlier starts
};

// `group[0..GROUP]` are the nodes of this round, `group[GROUP..2 GROUP]` their residual degrees before it.

// The nodes of this round and their degrees in shared memory; the caller synchronises.
struct Group {
    unsigned node[GROUP];
    unsigned degree[GROUP];
};

__device__ inline void load_group(Group &shared, const unsigned *group, unsigned n_removed) {
    if (threadIdx.x < n_removed) {
        shared.node[threadIdx.x] = group[threadIdx.x];
        shared.degree[threadIdx.x] = group[GROUP + threadIdx.x];
    }
}

__device__ inline bool is_in_group(const Group &group, unsigned n_removed, unsigned node) {
    bool found = false;
    for (unsigned s = 0; s < n_removed; s++) {
        found |= group.node[s] == node;
    }
    return found;
}

// What degrees are multiplied with: 1 / the largest residual degree, or 1.
__device__ inline float scale_of(const unsigned *state, unsigned by_largest_degree) {
    const unsigned largest = state[MAX_DEGREE] > 0 ? state[MAX_DEGREE] : 1;
    return by_largest_degree ? 1.0f / (float)largest : 1.0f;
}

__device__ inline bool test_bit(const unsigned *bits, unsigned i) { return (bits[i >> 5] >> (i & 31)) & 1; }

// Adds a thread's largest degree and number of candidates to the state. Called by whole warps.
__device__ inline void report_degrees(unsigned max_degree, unsigned n_candidates, unsigned *state) {
    max_degree = warp_max(max_degree);
    n_candidates = warp_sum(n_candidates);
    if (lane_of_warp() == 0 && n_candidates > 0) {
        atomicMax(&state[MAX_DEGREE], max_degree);
        atomicAdd(&state[N_CANDIDATES], n_candidates);
    }
}

// The largest value of a block, for all of its threads.
__device__ inline unsigned long long block_max(unsigned long long value, unsigned long long *shared) {
    value = warp_max(value);
    if (lane_of_warp() == 0) {
        shared[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    unsigned long long best = shared[0];
    for (unsigned w = 1; w < WARPS; w++) {
        best = shared[w] > best ? shared[w] : best;
    }
    __syncthreads(); // `shared` is written again by the next call
    return best;
}

// Nodes that a step picks (section 4.5.1); a `select` of 0 is the adaptive rule.
__device__ inline unsigned picks_of(unsigned select, unsigned n_candidates, unsigned n_nodes) {
    const unsigned long long c = n_candidates, n = n_nodes;
    if (select > 0) {
        return select;
    }
    return 2 * c > n ? 8 : 4 * c > n ? 4 : 8 * c > n ? 2 : 1;
}

// Nodes that this and later rounds of a step pick or pass over.
__device__ inline unsigned wanted_of(const unsigned *state, unsigned select, unsigned n_nodes) {
    return state[N_LEFT] > 0 ? state[N_LEFT] : state[N_PASSED] + picks_of(select, state[N_CANDIDATES], n_nodes);
}

} // namespace cover
