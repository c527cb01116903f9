// The residual graph over a bit matrix: what a vertex-cover round takes from it, and degrees of states from scratch.
//
// What is kept and what a round changes: see residual_csr.cu. Here the sum of c_u over the residual neighbours u of
// every node w is a sum down the columns of the (symmetric) matrix: the rows u with c_u > 0, each c_u times. Of a
// round's S only |N(S)| rows are read, a share of the density of all: for ER(21000, 0.15) at its start 3150 rows or 8.3
// MB, where the other way (popcount of row w AND row s, for all w) reads all 55 MB and so goes beyond the second-level
// cache of 50 MB; over the whole solve 4.1 MB against 27 MB a removal. residual_remove_bits adds the rows of a chunk
// bit-sliced: 64 columns a word, carry-save adders into bit planes, one word a lane; the planes of the eight warps of a
// block are added in shared memory, and only the block's sums are expanded to integers. c_u is bit-sliced as well:
// planes of the counts of S's rows, so no list of rows is made. residual_masks_bits turns states into masks,
// residual_degree_bits counts bits of A under the masks, residual_planes_bits cuts those degrees into bit planes,
// residual_d2_bits counts bits of A under the planes.
//
// Shapes: words [n_nodes, words_per_row], words_per_row = ceil(n_nodes / 64), bits beyond n_nodes are 0; degree, d2
//   [n_nodes]; alive_bits [2 words_per_row or more]; group and state: cover_loop.cuh.
//   States: alive [n_nodes], bit b of a node's word: it is in state b; masks [n_states, words_per_row]; planes
//   [n_states, n_planes, words_per_row] with 2^n_planes > every degree; degree and d2 [n_nodes, n_states].
// Launch: residual_remove_bits: BLOCK threads, grid [ceil(words_per_row / 32), ceil(n_nodes / 1024)].
// residual_masks_bits
//   and residual_planes_bits: BLOCK threads, a warp for each word of a row. Others: BLOCK threads, any number of
//   blocks.
// Determinism: integers only, so the order of the atomics changes nothing.
// Bytes a round: 8 words_per_row for each residual neighbour of S (up to twice, where it has several neighbours in S)
// and
//   for each node of S; 8 B (an atomic) a candidate and chunk of 1024 rows; 8 n_nodes for the degrees. From scratch:
//   the matrix once for every 8 states, and the masks or planes, which stay in the caches.
// Source: Warren, "Hacker's Delight", section 5-1 (counting with carry-save adders).

#include "kernel.cuh"

#include "cover_loop.cuh"

namespace {

using namespace cover;
using Word = unsigned long long;

constexpr unsigned WARP_WORDS = 2;                   // words of 64 rows that one warp adds
constexpr unsigned CHUNK_WORDS = WARPS * WARP_WORDS; // words of 64 rows that one block adds
constexpr unsigned CHUNK_ROWS = 64 * CHUNK_WORDS;
// A warp's sums are at most 64 WARP_WORDS rows times GROUP = 1024, a block's 8192.
constexpr unsigned WARP_PLANES = 11;
constexpr unsigned BLOCK_PLANES = 14;
constexpr unsigned STATES = 8; // states that one pass over a row counts
static_assert(64 * WARP_WORDS * GROUP < (1u << WARP_PLANES), "a warp's sums fit its planes");
static_assert(CHUNK_ROWS * GROUP < (1u << BLOCK_PLANES), "a block's sums fit its planes");
static_assert(GROUP < 16, "counts of a group fit four planes");

struct FullAdder {
    Word sum, carry;
};

__device__ FullAdder add(Word a, Word b, Word c) {
    const Word half = a ^ b;
    return {half ^ c, (a & b) | (half & c)};
}

// Adds eight rows of weight 2^FIRST to the planes.
template <unsigned FIRST> __device__ void add_rows(const Word (&row)[8], Word (&plane)[BLOCK_PLANES]) {
    FullAdder a = add(plane[FIRST], row[0], row[1]);
    FullAdder b = add(a.sum, row[2], row[3]);
    FullAdder two = add(plane[FIRST + 1], a.carry, b.carry);
    a = add(b.sum, row[4], row[5]);
    b = add(a.sum, row[6], row[7]);
    plane[FIRST] = b.sum;
    FullAdder two_b = add(two.sum, a.carry, b.carry);
    plane[FIRST + 1] = two_b.sum;
    const FullAdder four = add(plane[FIRST + 2], two.carry, two_b.carry);
    plane[FIRST + 2] = four.sum;
    Word carry = four.carry;
#pragma unroll
    for (unsigned p = FIRST + 3; p < WARP_PLANES; p++) {
        const Word next = plane[p] & carry;
        plane[p] ^= carry;
        carry = next;
    }
}

// Adds the rows that `selected` names (bit b: row first_row + b) with weight 2^FIRST; `column` is this lane's word.
template <unsigned FIRST>
__device__ void add_selected(Word selected, unsigned first_row, const Word *words, unsigned words_per_row,
                             unsigned column, Word (&plane)[BLOCK_PLANES]) {
    while (selected != 0) {
        Word row[8];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            row[i] = 0;
            if (selected != 0) {
                const unsigned u = first_row + (unsigned)__ffsll((long long)selected) - 1;
                selected &= selected - 1;
                if (column < words_per_row) {
                    row[i] = words[(Word)u * words_per_row + column];
                }
            }
        }
        add_rows<FIRST>(row, plane);
    }
}

// Adds the residual rows of one word of 64 nodes, each as often as it has neighbours in the group.
__device__ void add_neighbors(unsigned node_word, const Group &picks, unsigned n_removed, const Word *words,
                              unsigned words_per_row, const unsigned *alive_bits, unsigned column,
                              Word (&plane)[BLOCK_PLANES]) {
    Word count[4] = {0, 0, 0, 0}; // bit planes of c_u
    Word residual = alive_bits[2 * node_word] | ((Word)alive_bits[2 * node_word + 1] << 32);
    for (unsigned s = 0; s < n_removed; s++) {
        const unsigned pick = picks.node[s];
        Word carry = words[(Word)pick * words_per_row + node_word];
#pragma unroll
        for (unsigned p = 0; p < 4; p++) {
            const Word next = count[p] & carry;
            count[p] ^= carry;
            carry = next;
        }
        if (pick / 64 == node_word) {
            residual &= ~((Word)1 << (pick % 64));
        }
    }
    const unsigned first_row = 64 * node_word;
    add_selected<0>(count[0] & residual, first_row, words, words_per_row, column, plane);
    add_selected<1>(count[1] & residual, first_row, words, words_per_row, column, plane);
    add_selected<2>(count[2] & residual, first_row, words, words_per_row, column, plane);
    add_selected<3>(count[3] & residual, first_row, words, words_per_row, column, plane);
}

// Adds the planes of the warps in three halvings; afterwards `shared[0]` has the block's. Carries reach one plane
// further in each.
__device__ void add_planes(Word (&plane)[BLOCK_PLANES], Word (*shared)[BLOCK_PLANES][32]) {
    const unsigned warp = threadIdx.x / WARP, lane = lane_of_warp();
    for (unsigned half = WARPS / 2; half > 0; half /= 2) {
        if (warp >= half && warp < 2 * half) {
#pragma unroll
            for (unsigned p = 0; p < BLOCK_PLANES; p++) {
                shared[warp - half][p][lane] = plane[p];
            }
        }
        __syncthreads();
        if (warp < half) {
            Word carry = 0;
#pragma unroll
            for (unsigned p = 0; p < BLOCK_PLANES; p++) {
                const FullAdder sum = add(plane[p], shared[warp][p][lane], carry);
                plane[p] = sum.sum;
                carry = sum.carry;
            }
        }
        __syncthreads();
    }
    if (warp == 0) {
#pragma unroll
        for (unsigned p = 0; p < BLOCK_PLANES; p++) {
            shared[0][p][lane] = plane[p];
        }
    }
    __syncthreads();
}

// The group's own part of the update for the nodes of a chunk, and the new degrees' maximum and number.
__device__ void update_degrees(unsigned chunk, const Group &picks, unsigned n_removed, const Word *words,
                               unsigned words_per_row, unsigned n_nodes, unsigned *degree, Word *d2, unsigned *state) {
    unsigned max_degree = 0, n_candidates = 0;
    for (unsigned i = threadIdx.x; i < CHUNK_ROWS; i += BLOCK) {
        const Word node = (Word)chunk * CHUNK_ROWS + i;
        const unsigned before = node < n_nodes ? degree[node] : 0;
        if (before == 0) {
            continue;
        }
        unsigned lost = 0;
        Word lost_d2 = 0;
        for (unsigned s = 0; s < n_removed; s++) {
            const Word word = words[(Word)picks.node[s] * words_per_row + node / 64];
            const unsigned is_joined = (unsigned)(word >> (node % 64)) & 1;
            lost += is_joined;
            lost_d2 += is_joined ? picks.degree[s] : 0;
        }
        const unsigned after = is_in_group(picks, n_removed, (unsigned)node) ? 0 : before - lost;
        if (lost > 0) {
            atomicAdd(&d2[node], 0 - lost_d2);
        }
        if (after != before) {
            degree[node] = after;
        }
        max_degree = after > max_degree ? after : max_degree;
        n_candidates += after > 0;
    }
    __syncwarp();
    report_degrees(max_degree, n_candidates, state);
}

// Adds, for up to STATES masks from `first` on, the bits of a row under each: the sums over the warp, at every lane.
__device__ void count_under_masks(const Word *row, unsigned words_per_row, const Word *masks, Word mask_step,
                                  unsigned n_masks, unsigned (&count)[STATES]) {
    for (unsigned b = 0; b < STATES; b++) {
        count[b] = 0;
    }
    for (unsigned w = lane_of_warp(); w < words_per_row; w += 32) {
        const Word word = row[w];
#pragma unroll
        for (unsigned b = 0; b < STATES; b++) {
            if (b < n_masks) {
                count[b] += __popcll(word & masks[b * mask_step + w]);
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (unsigned b = 0; b < STATES; b++) {
        for (unsigned offset = 16; offset > 0 && b < n_masks; offset /= 2) {
            count[b] += __shfl_xor_sync(ALL_LANES, count[b], offset);
        }
    }
}

// The lanes' bits as one word: `low` of lane i is bit i, `high` bit 32 + i.
__device__ Word ballot64(bool low, bool high) {
    const unsigned low_half = __ballot_sync(ALL_LANES, low), high_half = __ballot_sync(ALL_LANES, high);
    return low_half | ((Word)high_half << 32);
}

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    residual_remove_bits(const unsigned long long *words, unsigned words_per_row, const unsigned *alive_bits,
                         const unsigned *group, unsigned n_nodes, unsigned *degree, unsigned long long *d2,
                         unsigned *state) {
    __shared__ Group picks;
    __shared__ Word shared[WARPS / 2][BLOCK_PLANES][32];
    const unsigned n_removed = state[N_REMOVED];
    if (n_removed == 0) {
        return;
    }
    load_group(picks, group, n_removed);
    __syncthreads();
    const unsigned warp = threadIdx.x / WARP, lane = lane_of_warp();
    const unsigned chunk = blockIdx.y, first_word = 32 * blockIdx.x;
    Word plane[BLOCK_PLANES];
#pragma unroll
    for (unsigned p = 0; p < BLOCK_PLANES; p++) {
        plane[p] = 0;
    }
    for (unsigned i = 0; i < WARP_WORDS; i++) {
        const unsigned node_word = chunk * CHUNK_WORDS + i * WARPS + warp;
        if (node_word < words_per_row) {
            add_neighbors(node_word, picks, n_removed, words, words_per_row, alive_bits, first_word + lane, plane);
        }
    }
    add_planes(plane, shared);
    for (unsigned i = threadIdx.x; i < 32 * 64; i += BLOCK) {
        const Word column = 64ull * first_word + i;
        unsigned sum = 0;
#pragma unroll
        for (unsigned p = 0; p < BLOCK_PLANES; p++) {
            sum |= ((unsigned)(shared[0][p][i / 64] >> (i % 64)) & 1) << p;
        }
        if (sum > 0 && test_bit(alive_bits, (unsigned)column)) {
            atomicAdd(&d2[column], 0 - (Word)sum);
        }
    }
    if (blockIdx.x == 0) {
        update_degrees(chunk, picks, n_removed, words, words_per_row, n_nodes, degree, d2, state);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    residual_masks_bits(const unsigned *alive, unsigned n_nodes, unsigned n_states, unsigned words_per_row,
                        unsigned long long *masks) {
    const unsigned word = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (word >= words_per_row) {
        return;
    }
    const Word low_node = 64ull * word + lane_of_warp(), high_node = low_node + 32;
    const unsigned low = low_node < n_nodes ? alive[low_node] : 0;
    const unsigned high = high_node < n_nodes ? alive[high_node] : 0;
    for (unsigned b = 0; b < n_states; b++) {
        const Word mask = ballot64((low >> b) & 1, (high >> b) & 1);
        if (lane_of_warp() == 0) {
            masks[(Word)b * words_per_row + word] = mask;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    residual_planes_bits(const unsigned *degree, unsigned n_nodes, unsigned n_states, unsigned n_planes,
                         unsigned words_per_row, unsigned long long *planes) {
    const unsigned word = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (word >= words_per_row) {
        return;
    }
    const Word low_node = 64ull * word + lane_of_warp(), high_node = low_node + 32;
    for (unsigned b = 0; b < n_states; b++) {
        const unsigned low = low_node < n_nodes ? degree[low_node * n_states + b] : 0;
        const unsigned high = high_node < n_nodes ? degree[high_node * n_states + b] : 0;
        for (unsigned p = 0; p < n_planes; p++) {
            const Word plane = ballot64((low >> p) & 1, (high >> p) & 1);
            if (lane_of_warp() == 0) {
                planes[((Word)b * n_planes + p) * words_per_row + word] = plane;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    residual_degree_bits(const unsigned long long *words, unsigned words_per_row, const unsigned long long *masks,
                         const unsigned *alive, unsigned n_nodes, unsigned n_states, unsigned *degree) {
    const Word warps = (Word)gridDim.x * WARPS;
    for (Word node = (Word)blockIdx.x * WARPS + threadIdx.x / WARP; node < n_nodes; node += warps) {
        for (unsigned first = 0; first < n_states; first += STATES) {
            const unsigned n_masks = n_states - first < STATES ? n_states - first : STATES;
            unsigned count[STATES];
            count_under_masks(words + node * words_per_row, words_per_row, masks + (Word)first * words_per_row,
                              words_per_row, n_masks, count);
            if (lane_of_warp() == 0) {
#pragma unroll
                for (unsigned b = 0; b < STATES; b++) {
                    if (b < n_masks) {
                        const bool is_alive = (alive[node] >> (first + b)) & 1;
                        degree[node * n_states + first + b] = is_alive ? count[b] : 0;
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    residual_d2_bits(const unsigned long long *words, unsigned words_per_row, const unsigned long long *planes,
                     const unsigned *alive, unsigned n_nodes, unsigned n_states, unsigned n_planes,
                     unsigned long long *d2) {
    const Word warps = (Word)gridDim.x * WARPS;
    const Word state_step = (Word)n_planes * words_per_row;
    for (Word node = (Word)blockIdx.x * WARPS + threadIdx.x / WARP; node < n_nodes; node += warps) {
        for (unsigned first = 0; first < n_states; first += STATES) {
            const unsigned n_masks = n_states - first < STATES ? n_states - first : STATES;
            Word sum[STATES] = {};
            for (unsigned p = 0; p < n_planes; p++) {
                unsigned count[STATES];
                count_under_masks(words + node * words_per_row, words_per_row,
                                  planes + first * state_step + (Word)p * words_per_row, state_step, n_masks, count);
#pragma unroll
                for (unsigned b = 0; b < STATES; b++) {
                    sum[b] += b < n_masks ? (Word)count[b] << p : 0;
                }
            }
            if (lane_of_warp() == 0) {
#pragma unroll
                for (unsigned b = 0; b < STATES; b++) {
                    if (b < n_masks) {
                        const bool is_alive = (alive[node] >> (first + b)) & 1;
                        d2[node * n_states + first + b] = is_alive ? sum[b] : 0;
                    }
                }
            }
        }
    }
}
