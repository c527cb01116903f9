// A vertex-cover episode whose nodes are shared by ranks: what a rank counts, offers to the others and takes from them.
//
// A rank has the rows of its own nodes first .. first + n_own. Every rank knows which nodes are alive (not in the
// cover) and the residual degrees of all. A round, as in cover_loop.cuh, is: score_select_values_* on the own nodes,
// with a state of its own, finds the best GROUP of them; cover_offer_* packs them; all ranks gather all offers;
// cover_agree takes the best of all on every rank alike; cover_sums_* and cover_share count the own degrees anew; all
// ranks gather them; cover_count reads them. Ranks gather buffers of floats, so integers travel as the bits of floats.
//
// What: sums_v = sum of weight_u over the neighbours u of an own node v: of alive (its degree) or of degree (d2).
//   An offer has the scores that were no numbers so far, and for each of GROUP nodes the upper half of its key
//   (score_select.cu), the node (NONE where there are fewer), its degree, and for degrees below GROUP its residual
//   neighbours: earlier picks of a round can leave no other node without an edge.
// Shapes: row_ptr [n_own + 1], columns; words [n_nodes, words_per_row] of the own columns, words_per_row =
//   ceil(n_own / 64); weight, alive, degree of all [n_nodes]; sums, own degree, shared [n_own]; offer [OFFER]; offers
//   [n_ranks, OFFER]; state, group, cover: cover_loop.cuh; own_*: the same of the own selection.
// Launch: cover_sums_bits BLOCK threads, grid [words_per_row, ceil(n_nodes / ROWS)], sums zero before; cover_offer_*
//   and cover_agree one block of BLOCK threads; others BLOCK threads, any number of blocks.
// Determinism: integers only; the order of (score, node) is total.
// Bytes: cover_sums_csr 8 B an entry, cover_sums_bits the own columns of the matrix and 8 n_nodes for each 64 of them;
//   cover_share 20 n_own; cover_count 8 n_nodes; cover_rank_rows 16 n_own; cover_agree 324 n_ranks.
// Source: OpenGraphGym-MG, algorithm 4.

#include "kernel.cuh"

#include "cover_loop.cuh"

namespace {

using namespace cover;
using Wide = unsigned long long;

constexpr unsigned NONE = 0xffffffffu;
// Words of one node in an offer: key, node, degree, neighbours.
constexpr unsigned SLOT = 3 + GROUP - 1;
constexpr unsigned OFFER = 1 + GROUP * SLOT;
// Rows of a bit matrix that one block adds.
constexpr unsigned ROWS = 1024;

__device__ Wide n_threads() { return (Wide)gridDim.x * BLOCK; }

// Own columns of a bit matrix.
struct OwnBits {
    const Wide *words;
    unsigned words_per_row;
    unsigned n_nodes;

    __device__ unsigned n_entries(unsigned) const { return n_nodes; }

    // The i-th candidate for a neighbour of an own node, or NONE.
    __device__ unsigned entry(unsigned own, unsigned i) const {
        return (words[(Wide)i * words_per_row + own / 64] >> (own % 64)) & 1 ? i : NONE;
    }
};

// Rows of own nodes as lists.
struct OwnLists {
    const Wide *row_ptr;
    const unsigned *columns;

    __device__ unsigned n_entries(unsigned own) const { return (unsigned)(row_ptr[own + 1] - row_ptr[own]); }

    __device__ unsigned entry(unsigned own, unsigned i) const { return columns[row_ptr[own] + i]; }
};

// What the own selection has found.
struct Found {
    const Wide *keys;
    const unsigned *group;
    const unsigned *degree;
    const unsigned *alive;
    const unsigned *state;
    unsigned first;
};

// A warp packs one node of the own selection.
template <class Rows> __device__ void pack_offer(const Rows &rows, const Found &found, float *offer) {
    const unsigned slot = threadIdx.x / WARP, lane = lane_of_warp();
    if (threadIdx.x == 0) {
        offer[0] = __uint_as_float(found.state[N_UNBOUNDED]);
    }
    float *to = offer + 1 + slot * SLOT;
    if (slot >= found.state[N_REMOVED]) {
        if (lane == 0) {
            to[1] = __uint_as_float(NONE);
        }
        return;
    }
    const unsigned own = found.group[slot];
    const unsigned degree = found.degree[own];
    if (lane == 0) {
        to[0] = __uint_as_float((unsigned)(found.keys[own] >> 32));
        to[1] = __uint_as_float(found.first + own);
        to[2] = __uint_as_float(degree);
    }
    if (degree >= GROUP) {
        return;
    }
    unsigned n_listed = 0;
    const unsigned n_entries = rows.n_entries(own);
    for (unsigned base = 0; base < n_entries && n_listed < degree; base += WARP) {
        const unsigned i = base + lane;
        const unsigned u = i < n_entries ? rows.entry(own, i) : NONE;
        const bool is_neighbor = u != NONE && found.alive[u] > 0;
        const unsigned lanes = __ballot_sync(ALL_LANES, is_neighbor);
        if (is_neighbor) {
            to[3 + n_listed + __popc(lanes & ((1u << lane) - 1))] = __uint_as_float(u);
        }
        n_listed += __popc(lanes);
    }
}

// A rank's own nodes, and the state of its own selection.
struct Own {
    unsigned first;
    unsigned n_own;
    Wide *best;
    unsigned *state;
};

// What every rank keeps of the whole episode.
struct Episode {
    unsigned n_nodes;
    unsigned select;
    unsigned keep_isolated;
    unsigned *alive;
    unsigned *cover;
    unsigned *state;
};

__device__ unsigned word_at(const float *slot, unsigned i) { return __float_as_uint(slot[i]); }

// The key of an offered node: larger for a larger score, then for a lower node; 0 for none.
__device__ Wide key_at(const float *slot) {
    const unsigned node = word_at(slot, 1);
    return node == NONE ? 0 : ((Wide)word_at(slot, 0) << 32) | (NONE - node);
}

__device__ const float *slot_at(const float *offers, unsigned i) {
    return offers + (Wide)(i / GROUP) * OFFER + 1 + (i % GROUP) * SLOT;
}

// The largest offered key below `below` among this thread's offers.
__device__ Wide best_offer(const float *offers, unsigned n_offers, Wide below) {
    Wide best = 0;
    for (unsigned i = threadIdx.x; i < n_offers; i += BLOCK) {
        const Wide key = key_at(slot_at(offers, i));
        best = key < below && key > best ? key : best;
    }
    return best;
}

// Passes over the first N_PASSED picks and takes the others one after the other, as if each were removed before the
// next is looked at; gives the number of both.
__device__ unsigned take_picks(const Episode &episode, const float *const *picks, unsigned n_picks) {
    const unsigned n_passed = episode.state[N_PASSED] < n_picks ? episode.state[N_PASSED] : n_picks;
    unsigned n_cover = episode.state[N_COVER], n_found = n_passed;
    for (; n_found < n_picks && picks[n_found] != nullptr; n_found++) {
        const float *pick = picks[n_found];
        const unsigned degree = word_at(pick, 2);
        unsigned left = degree;
        for (unsigned j = n_passed; j < n_found && degree < GROUP; j++) {
            // A pick that was left out has no edge to a later one: all its neighbours went before it.
            for (unsigned i = 0; i < degree; i++) {
                left -= word_at(pick, 3 + i) == word_at(picks[j], 1);
            }
        }
        if (left > 0 || episode.keep_isolated) {
            const unsigned node = word_at(pick, 1);
            episode.cover[n_cover++] = node;
            episode.alive[node] = 0;
        }
    }
    episode.state[N_COVER] = n_cover;
    episode.state[N_PASSED] -= n_passed;
    return n_found;
}

// Where the own selection goes on: at the own nodes whose keys are below this pick of all ranks.
__device__ Wide own_bound(const float *pick, const Own &own) {
    const unsigned node = word_at(pick, 1);
    const Wide score = (Wide)word_at(pick, 0) << 32;
    if (node < own.first) {
        return score + (1ull << 32); // own nodes with this score come behind it
    }
    return node - own.first < own.n_own ? score | (NONE - (node - own.first)) : score;
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    cover_sums_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned *weight, unsigned n_own,
                   unsigned long long *sums) {
    for (Wide own = warp_of_grid(); own < n_own; own += warps_of_grid()) {
        Wide sum = 0;
        for (Wide entry = row_ptr[own] + lane_of_warp(); entry < row_ptr[own + 1]; entry += WARP) {
            sum += weight[columns[entry]];
        }
        __syncwarp();
        sum = warp_sum(sum);
        if (lane_of_warp() == 0) {
            sums[own] = sum;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_sums_bits(const unsigned long long *words, unsigned words_per_row, const unsigned *weight, unsigned n_nodes,
                    unsigned n_own, unsigned long long *sums) {
    const unsigned column = threadIdx.x % 64;
    const Wide own = (Wide)blockIdx.x * 64 + column;
    const Wide begin = (Wide)block_in_y() * ROWS;
    const Wide end = begin + ROWS < n_nodes ? begin + ROWS : n_nodes;
    Wide sum = 0;
    for (Wide u = begin + threadIdx.x / 64; u < end; u += BLOCK / 64) {
        sum += (words[u * words_per_row + blockIdx.x] >> column) & 1 ? weight[u] : 0;
    }
    if (own < n_own && sum > 0) {
        atomicAdd(&sums[own], sum);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_share(const unsigned long long *sums, const unsigned *alive, unsigned first, unsigned n_own, unsigned *degree,
                float *shared) {
    for (Wide own = thread_of_grid(); own < n_own; own += n_threads()) {
        const unsigned residual = alive[first + own] > 0 ? (unsigned)sums[own] : 0;
        degree[own] = residual;
        shared[own] = __uint_as_float(residual);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_count(const float *shared, unsigned n_nodes, unsigned *degree, unsigned *state) {
    unsigned max_degree = 0, n_candidates = 0;
    for (Wide v = thread_of_grid(); v < n_nodes; v += n_threads()) {
        const unsigned residual = __float_as_uint(shared[v]);
        degree[v] = residual;
        max_degree = residual > max_degree ? residual : max_degree;
        n_candidates += residual > 0;
    }
    __syncwarp();
    report_degrees(max_degree, n_candidates, state);
}

extern "C" __global__ void __launch_bounds__(256)
    cover_rank_rows(const unsigned *degree, const unsigned *alive, unsigned first, unsigned n_own,
                    unsigned by_largest_degree, const unsigned *state, float *node, float *edge) {
    const float scale = scale_of(state, by_largest_degree);
    for (Wide own = thread_of_grid(); own < n_own; own += n_threads()) {
        node[own] = alive[first + own] > 0 ? 0.0f : 1.0f;
        edge[2 * own] = __fmul_rn((float)degree[own], scale);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_offer_csr(const unsigned long long *row_ptr, const unsigned *columns, const unsigned long long *keys,
                    const unsigned *group, const unsigned *degree, const unsigned *alive, const unsigned *own_state,
                    unsigned first, float *offer) {
    pack_offer(OwnLists{row_ptr, columns}, Found{keys, group, degree, alive, own_state, first}, offer);
}

extern "C" __global__ void __launch_bounds__(256)
    cover_offer_bits(const unsigned long long *words, unsigned words_per_row, unsigned n_nodes,
                     const unsigned long long *keys, const unsigned *group, const unsigned *degree,
                     const unsigned *alive, const unsigned *own_state, unsigned first, float *offer) {
    const OwnBits rows = {words, words_per_row, n_nodes};
    pack_offer(rows, Found{keys, group, degree, alive, own_state, first}, offer);
}

// One block runs: without its number here, the compiler keeps to 32 registers on sm_100 and spills.
extern "C" __global__ void __launch_bounds__(256, 1)
    cover_agree(const float *offers, unsigned n_ranks, unsigned first, unsigned n_own, unsigned n_nodes,
                unsigned select, unsigned keep_isolated, unsigned *alive, unsigned *cover, unsigned *state,
                unsigned long long *own_best, unsigned *own_state) {
    __shared__ Wide shared_keys[WARPS];
    __shared__ const float *picks[GROUP];
    const Episode episode = {n_nodes, select, keep_isolated, alive, cover, state};
    const Own own = {first, n_own, own_best, own_state};
    const unsigned n_offers = n_ranks * GROUP;
    if (threadIdx.x < GROUP) {
        picks[threadIdx.x] = nullptr;
    }
    const bool is_new_step = state[N_LEFT] == 0;
    const bool is_over = is_new_step && state[N_CANDIDATES] == 0;
    const unsigned n_wanted = wanted_of(state, select, n_nodes);
    const unsigned n_picks = n_wanted < GROUP ? n_wanted : GROUP;
    __syncthreads();
    Wide best = ~0ull;
    for (unsigned i = 0; i < n_picks && best != 0; i++) {
        const Wide mine = best_offer(offers, n_offers, best);
        best = block_max(mine, shared_keys);
        if (best != 0 && mine == best) {
            for (unsigned at = threadIdx.x; at < n_offers; at += BLOCK) {
                if (key_at(slot_at(offers, at)) == best) {
                    picks[i] = slot_at(offers, at);
                }
            }
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) {
        return;
    }
    own_state[N_COVER] = 0;
    own_state[N_CANDIDATES] = 1; // the own selection looks for candidates in every round
    own_state[N_LEFT] = 0;
    if (is_over) {
        return;
    }
    const unsigned n_found = take_picks(episode, picks, n_picks);
    const unsigned n_left = n_found < n_picks ? 0 : n_wanted - n_found;
    if (n_left > 0) {
        own_state[N_LEFT] = GROUP;
        own_best[0] = own_bound(picks[n_found - 1], own);
    }
    state[N_LEFT] = n_left;
    state[N_STEPS] += is_new_step ? 1 : 0;
    unsigned n_unbounded = 0;
    for (unsigned rank = 0; rank < n_ranks; rank++) {
        n_unbounded += word_at(offers + (Wide)rank * OFFER, 0);
    }
    state[N_UNBOUNDED] = n_unbounded;
    // The degrees are counted anew.
    state[MAX_DEGREE] = 0;
    state[N_CANDIDATES] = 0;
}
