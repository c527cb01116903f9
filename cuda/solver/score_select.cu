// The score and selection of a vertex-cover round: scores in closed form or of a model, the best nodes, their place in
// the cover.
//
// What: where a new step begins, the score of every candidate v (a node with a residual edge) is
//   alpha_i x + beta_i y   with x = deg_v s, y = d2_v s^2, s = 1 / largest residual degree (or 1),
//   and i the last piece of the table with starts_i x <= y;
// or, in the kernels named `values`, scores_v, which a model has computed in this step. Every further round of the step
// goes on in the order of those scores. The round's nodes are the best GROUP of them (or fewer, by the rule of the
// step), the lower node first where scores are equal; the first N_PASSED of them, of which there are fewer than
// candidates, are passed over. Of the others, one that the earlier ones of the round leave without an
// edge is left out, unless the rules keep it; the others go to `cover` and to `group`.
//
// Shapes: degree, d2, scores, keys [n_nodes]; table [3 n_pieces]: starts, alpha, beta; best [1 + blocks GROUP];
//   group [2 GROUP]; cover [n_nodes]; alive [8 ceil(n_nodes / 256)] words of 32 bits; state: cover_loop.cuh.
// Launch: BLOCK threads, any number of blocks.
//
// Determinism: one answer. A score is the same sequence of roundings as on the host (`layers::ScoreTable`): no product
// is contracted with a sum. The order of (score, node) is total, so the shape of the reduction does not matter.
//
// Bytes a round: 12 n_nodes (degrees, and d2 of candidates) and, with more than one node a step, 8 n_nodes for the
// keys.
//
// Source: OpenGraphGym-MG, algorithm 4 and section 4.5.1.

#include "kernel.cuh"

#include "cover_loop.cuh"

namespace {

using namespace cover;
using Key = unsigned long long;

// Tables of up to so many pieces are searched in shared memory; the policies at hand have a few dozen.
constexpr unsigned SHARED_PIECES = 512;

struct Table {
    const float *starts;
    const float *alpha;
    const float *beta;
    unsigned n_pieces;
};

// The score of a candidate; `starts` ascends from 0, so the piece is found by halving.
__device__ float score(const Table &table, float x, float y) {
    unsigned low = 0, high = table.n_pieces;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (y >= __fmul_rn(table.starts[middle], x)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return __fadd_rn(__fmul_rn(table.alpha[low], x), __fmul_rn(table.beta[low], y));
}

// Larger for a larger score, then for a lower node; never 0. No number counts as the smallest score.
__device__ Key key_of(float score, unsigned node) {
    const float clamped = fmaxf(score, -3.402823466e38f);
    const unsigned bits = __float_as_uint(clamped == 0.0f ? 0.0f : clamped); // -0 and 0 are equal scores
    const unsigned ordered = (bits & 0x80000000u) ? ~bits : (bits | 0x80000000u);
    return ((Key)ordered << 32) | (0xffffffffu - node);
}

__device__ unsigned node_of(Key key) { return 0xffffffffu - (unsigned)key; }

// The adjacency as lists.
struct Lists {
    const unsigned long long *row_ptr;
    const unsigned *columns;

    __device__ bool has_edge(unsigned u, unsigned v) const {
        unsigned long long low = row_ptr[u], high = row_ptr[u + 1];
        while (low < high) {
            const unsigned long long middle = (low + high) / 2;
            if (columns[middle] < v) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low < row_ptr[u + 1] && columns[low] == v;
    }
};

// The adjacency as a bit matrix.
struct Bits {
    const unsigned long long *words;
    unsigned words_per_row;

    __device__ bool has_edge(unsigned u, unsigned v) const {
        return (words[(unsigned long long)u * words_per_row + v / 64] >> (v % 64)) & 1;
    }
};

// Scores in closed form.
struct ClosedForm {
    const unsigned long long *d2;
    Table table;
    unsigned by_largest_degree;

    // Copies a small table to shared memory; all threads of a block call this.
    __device__ void load(float *pieces) {
        if (table.n_pieces <= SHARED_PIECES) {
            for (unsigned i = threadIdx.x; i < 3 * table.n_pieces; i += BLOCK) {
                pieces[i] = table.starts[i];
            }
            table.starts = pieces;
            table.alpha = pieces + table.n_pieces;
            table.beta = pieces + 2 * table.n_pieces;
            __syncthreads();
        }
    }

    __device__ float scale(const unsigned *state) const { return scale_of(state, by_largest_degree); }

    __device__ float score_of(unsigned node, unsigned degree, float scale, unsigned *) const {
        const float x = __fmul_rn((float)degree, scale);
        const float scale2 = __fmul_rn(scale, scale);
        const float y = __fmul_rn((float)(long long)d2[node], scale2);
        return score(table, x, y);
    }
};

// Scores that a model has computed.
struct Values {
    const float *scores;

    __device__ void load(float *) {}

    __device__ float scale(const unsigned *) const { return 1.0f; }

    __device__ float score_of(unsigned node, unsigned, float, unsigned *state) const {
        const float score = scores[node];
        if (!(fabsf(score) <= 3.402823466e38f)) {
            atomicAdd(&state[N_UNBOUNDED], 1u);
        }
        return score;
    }
};

struct Episode {
    const unsigned *degree;
    unsigned n_nodes;
    unsigned select;
    unsigned keep_isolated;
    Key *keys;
    Key *best;
    unsigned *marks; // null where the adjacency is bits
    unsigned *alive;
    unsigned *group;
    unsigned *cover;
    unsigned *state;
};

// What every block finds in the state when a round begins.
struct Round {
    bool is_new_step;
    unsigned n_wanted; // nodes that this and later rounds of the step pick or pass over
    unsigned n_picks;  // nodes that this round picks or passes over
    float scale;
    Key below; // keys of earlier rounds of the step are not below this
};

template <class Scores> __device__ Round round_of(const Episode &episode, const Scores &scores) {
    const unsigned *state = episode.state;
    Round round;
    round.is_new_step = state[N_LEFT] == 0;
    round.n_wanted = wanted_of(state, episode.select, episode.n_nodes);
    round.n_picks = round.n_wanted < GROUP ? round.n_wanted : GROUP;
    round.scale = scores.scale(state);
    round.below = round.is_new_step ? ~0ull : episode.best[0];
    return round;
}

// The key of one node in this round; 0 where it is no candidate.
template <class Scores>
__device__ Key round_key(const Episode &episode, const Scores &scores, const Round &round, unsigned node,
                         unsigned degree) {
    if (!round.is_new_step) {
        return episode.keys[node];
    }
    Key key = 0;
    if (degree > 0) {
        key = key_of(scores.score_of(node, degree, round.scale, episode.state), node);
    }
    if (round.n_wanted > 1) {
        episode.keys[node] = key;
    }
    return key;
}

// The largest key below the round's bound among this thread's nodes; beside it, the marks of the last round are cleared
// and the candidates' bits are set.
template <class Scores>
__device__ Key best_of_thread(const Episode &episode, const Scores &scores, const Round &round) {
    Key best = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * BLOCK;
    for (unsigned long long base = blockIdx.x * BLOCK; base < episode.n_nodes; base += step) {
        const unsigned node = (unsigned)base + threadIdx.x;
        const bool exists = base + threadIdx.x < episode.n_nodes;
        const unsigned degree = exists ? episode.degree[node] : 0;
        const unsigned alive = __ballot_sync(ALL_LANES, degree > 0);
        if (lane_of_warp() == 0) {
            episode.alive[(base + threadIdx.x) / 32] = alive;
        }
        if (exists) {
            if (episode.marks != nullptr && episode.marks[node] != 0) {
                episode.marks[node] = 0;
            }
            const Key key = round_key(episode, scores, round, node, degree);
            best = key < round.below && key > best ? key : best;
        }
    }
    return best;
}

// This thread's best key below `below`, from the keys that it stored before.
__device__ Key next_of_thread(const Episode &episode, Key below) {
    Key best = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * BLOCK;
    for (unsigned long long node = blockIdx.x * BLOCK + threadIdx.x; node < episode.n_nodes; node += step) {
        const Key key = episode.keys[node];
        best = key < below && key > best ? key : best;
    }
    return best;
}

// This thread's best of the blocks' offers below `below`, past the L1 cache: other blocks wrote them in this launch.
__device__ Key best_offer(const Episode &episode, unsigned n_offers, Key below) {
    const Key *offers = episode.best + 1;
    Key best = 0;
    for (unsigned i = threadIdx.x; i < n_offers; i += BLOCK) {
        const Key key = load_relaxed(offers + i);
        best = key < below && key > best ? key : best;
    }
    return best;
}

// What the last block knows of the round's nodes.
struct Picks {
    Key key[GROUP];
    unsigned node[GROUP];
    unsigned degree[GROUP];
    unsigned is_joined[GROUP * GROUP]; // [i][j]: j comes before i and they have an edge
};

// Takes the picks one after the other, as if each were removed before the next is looked at.
__device__ void take_picks(const Episode &episode, const Round &round, const Picks &picks) {
    unsigned *state = episode.state;
    const unsigned n_passed = state[N_PASSED] < round.n_picks ? state[N_PASSED] : round.n_picks;
    unsigned n_found = n_passed, n_removed = 0, n_cover = state[N_COVER];
    for (unsigned i = n_passed; i < round.n_picks && picks.key[i] != 0; i++) {
        n_found++;
        unsigned left = picks.degree[i];
        for (unsigned j = n_passed; j < i; j++) {
            // A pick j that is left out has no edge to a later one: all its neighbours went before it.
            left -= picks.is_joined[i * GROUP + j];
        }
        if (left > 0 || episode.keep_isolated) {
            episode.group[n_removed] = picks.node[i];
            episode.group[GROUP + n_removed] = picks.degree[i];
            episode.cover[n_cover] = picks.node[i];
            n_removed++;
            n_cover++;
        }
    }
    // With fewer nodes than wanted the candidates of this step are used up.
    state[N_LEFT] = n_found < round.n_picks ? 0 : round.n_wanted - n_found;
    state[N_PASSED] -= n_passed;
    state[N_REMOVED] = n_removed;
    state[N_COVER] = n_cover;
    state[N_STEPS] += round.is_new_step ? 1 : 0;
    state[N_SHORT] = 0;
    state[N_LONG] = 0;
    atomicExch(&state[TICKET], 0u); // atomic, as the other blocks' additions are, which no fence orders before this
    if (n_found > 0) {
        episode.best[0] = picks.key[n_found - 1];
    }
    if (n_removed > 0) {
        // The removal counts both anew.
        state[MAX_DEGREE] = 0;
        state[N_CANDIDATES] = 0;
    }
}

template <class Graph, class Scores>
__device__ void score_select(const Graph &graph, const Episode &episode, Scores scores) {
    __shared__ Key shared_keys[WARPS];
    __shared__ Picks picks;
    __shared__ unsigned is_last;
    __shared__ float pieces[3 * SHARED_PIECES];
    unsigned *state = episode.state;
    if (state[N_LEFT] == 0 && state[N_CANDIDATES] == 0) {
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            state[N_REMOVED] = 0; // the episode is over: the removal has nothing to do
        }
        return;
    }
    const Round round = round_of(episode, scores);
    scores.load(pieces);
    Key mine = best_of_thread(episode, scores, round);
    for (unsigned i = 0; i < round.n_picks; i++) {
        const Key best = block_max(mine, shared_keys);
        if (threadIdx.x == 0) {
            episode.best[1 + blockIdx.x * round.n_picks + i] = best;
        }
        if (mine == best && best != 0 && i + 1 < round.n_picks) {
            mine = next_of_thread(episode, best);
        }
    }
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(&state[TICKET], 1u) + 1 == gridDim.x;
        __threadfence(); // before the barrier: the ticket's acquire reaches the block's threads through it
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
    const unsigned n_offers = gridDim.x * round.n_picks;
    mine = best_offer(episode, n_offers, ~0ull);
    for (unsigned i = 0; i < round.n_picks; i++) {
        const Key best = block_max(mine, shared_keys);
        if (threadIdx.x == 0) {
            picks.key[i] = best;
            picks.node[i] = node_of(best);
            picks.degree[i] = best != 0 ? episode.degree[node_of(best)] : 0;
        }
        if (mine == best && best != 0) {
            mine = best_offer(episode, n_offers, best);
        }
    }
    __syncthreads();
    if (threadIdx.x < GROUP * GROUP) {
        const unsigned i = threadIdx.x / GROUP, j = threadIdx.x % GROUP;
        const bool both = j < i && i < round.n_picks && picks.key[i] != 0;
        picks.is_joined[threadIdx.x] = both && graph.has_edge(picks.node[i], picks.node[j]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        take_picks(episode, round, picks);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256, 4)
    score_select_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *degree,
                     const unsigned long long *d2, unsigned n_nodes, const float *table, unsigned n_pieces,
                     unsigned by_largest_degree, unsigned select, unsigned keep_isolated, unsigned long long *keys,
                     unsigned long long *best, unsigned *marks, unsigned *alive, unsigned *group, unsigned *cover,
                     unsigned *state) {
    const Table pieces = {table, table + n_pieces, table + 2 * (unsigned long long)n_pieces, n_pieces};
    const Episode episode = {degree, n_nodes, select, keep_isolated, keys, best, marks, alive, group, cover, state};
    score_select(Lists{row_ptr, columns}, episode, ClosedForm{d2, pieces, by_largest_degree});
}

extern "C" __global__ void __launch_bounds__(256, 4)
    score_select_bits(const unsigned long long *words, unsigned words_per_row, const unsigned *degree,
                      const unsigned long long *d2, unsigned n_nodes, const float *table, unsigned n_pieces,
                      unsigned by_largest_degree, unsigned select, unsigned keep_isolated, unsigned long long *keys,
                      unsigned long long *best, unsigned *alive, unsigned *group, unsigned *cover, unsigned *state) {
    const Table pieces = {table, table + n_pieces, table + 2 * (unsigned long long)n_pieces, n_pieces};
    const Episode episode = {degree, n_nodes, select, keep_isolated, keys, best, nullptr, alive, group, cover, state};
    score_select(Bits{words, words_per_row}, episode, ClosedForm{d2, pieces, by_largest_degree});
}

extern "C" __global__ void __launch_bounds__(256, 4)
    score_select_values_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *degree,
                            const float *scores, unsigned n_nodes, unsigned select, unsigned keep_isolated,
                            unsigned long long *keys, unsigned long long *best, unsigned *marks, unsigned *alive,
                            unsigned *group, unsigned *cover, unsigned *state) {
    const Episode episode = {degree, n_nodes, select, keep_isolated, keys, best, marks, alive, group, cover, state};
    score_select(Lists{row_ptr, columns}, episode, Values{scores});
}

extern "C" __global__ void __launch_bounds__(256, 4)
    score_select_values_bits(const unsigned long long *words, unsigned words_per_row, const unsigned *degree,
                             const float *scores, unsigned n_nodes, unsigned select, unsigned keep_isolated,
                             unsigned long long *keys, unsigned long long *best, unsigned *alive, unsigned *group,
                             unsigned *cover, unsigned *state) {
    const Episode episode = {degree, n_nodes, select, keep_isolated, keys, best, nullptr, alive, group, cover, state};
    score_select(Bits{words, words_per_row}, episode, Values{scores});
}
