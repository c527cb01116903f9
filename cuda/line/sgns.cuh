// Pieces of the skip-gram update with negative sampling: random numbers, draws, table rows of 32 or 16 bits.
#pragma once

#include "kernel.cuh"
#include "warp.cuh"

namespace sgns {

// ---- Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). A number is a function of (seed, sample, slot, purpose): no state, so no launch geometry can change it.

enum Purpose : unsigned { NEGATIVE = 0, EDGE = 1, ROUNDING = 2 };

struct Random4 {
    unsigned word[4];
};

__device__ inline Random4 philox(unsigned long long seed, unsigned long long counter, unsigned slot, unsigned purpose) {
    unsigned c0 = static_cast<unsigned>(counter), c1 = static_cast<unsigned>(counter >> 32), c2 = slot, c3 = purpose;
    unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        const unsigned n0 = static_cast<unsigned>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<unsigned>(p0 >> 32) ^ c3 ^ k1;
        c1 = static_cast<unsigned>(p1);
        c3 = static_cast<unsigned>(p0);
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Random4{{c0, c1, c2, c3}};
}

// An index below `n` from an alias table of (threshold, alias) pairs (Walker 1977, in Vose's form of 1991): the product
// of a 64-bit random number and n has the index in its high part and the coin in the 32 bits below.
__device__ inline unsigned draw(const unsigned *__restrict__ table, unsigned n, const Random4 &random) {
    const unsigned long long low = static_cast<unsigned long long>(random.word[1]) * n;
    const unsigned long long product = static_cast<unsigned long long>(random.word[0]) * n + (low >> 32);
    const unsigned index = static_cast<unsigned>(product >> 32), coin = static_cast<unsigned>(product);
    const uint2 entry = reinterpret_cast<const uint2 *>(table)[index];
    return coin < entry.x ? index : entry.y;
}

// A mixed 32-bit word (two rounds of xor-shift and multiply with full avalanche: the "lowbias32" constants of C.
// Wellons' hash prospector). Spreads one Philox word over the many elements that one sample rounds.
__device__ inline unsigned mix(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

// ---- What a launch works on.

struct Job {
    const unsigned *edges; // pairs (source, target)
    unsigned long long n_edges;
    const unsigned *edge_alias; // read where edges are drawn
    unsigned drawn;             // 0: edges in order from first_edge, wrapping; else drawn from edge_alias
    unsigned reversed;          // not 0: source and target swap their roles
    const unsigned *negatives;  // alias table over the rows of the context table
    unsigned n_targets;         // rows of the context table
    unsigned dim;
    unsigned n_negatives;
    unsigned group; // consecutive samples that share their negatives
    unsigned long long seed, first_sample, first_edge, count;
    float rate, rate_slope;
};

// The learning rate of sample i of the launch.
__device__ inline float rate_of(const Job &job, unsigned long long i) {
    return fmaf(job.rate_slope, static_cast<float>(i), job.rate);
}

// A permutation of 0..n by a Feistel network over 2 * half_bits bits (at most 32), walked until it lies below n.
__device__ inline unsigned permuted(unsigned i, unsigned n, unsigned half_bits, unsigned key_low, unsigned key_high) {
    const unsigned mask = (1u << half_bits) - 1u;
    do {
        unsigned left = i >> half_bits, right = i & mask;
        for (unsigned round = 0; round < 6u; ++round) {
            const unsigned key = (round % 2u ? key_high : key_low) + 0x9E3779B9u * round;
            const unsigned next = left ^ (((right ^ key) * 0x85EBCA6Bu) >> (32u - half_bits));
            left = right;
            right = next & mask;
        }
        i = left << half_bits | right;
    } while (i >= n);
    return i;
}

struct Edge {
    unsigned source, target;
};

__device__ inline Edge edge_of(const Job &job, unsigned long long i) {
    unsigned long long index;
    if (job.drawn)
        index =
            draw(job.edge_alias, static_cast<unsigned>(job.n_edges), philox(job.seed, job.first_sample + i, 0, EDGE));
    else
        index = job.first_edge + i;
    if (index >= job.n_edges) index %= job.n_edges; // rare, and a 64-bit remainder costs a hundred instructions
    const uint2 pair = reinterpret_cast<const uint2 *>(job.edges)[index];
    return job.reversed ? Edge{pair.y, pair.x} : Edge{pair.x, pair.y};
}

// Negative k of all samples whose number divided by job.group is `group`.
__device__ inline unsigned negative_of(const Job &job, unsigned long long group, unsigned k) {
    return draw(job.negatives, job.n_targets, philox(job.seed, group, k, NEGATIVE));
}

// Target number `slot` of sample i: 0 is the edge's own, the others are negatives.
__device__ inline unsigned target_of(const Job &job, unsigned long long i, unsigned slot, unsigned positive) {
    if (slot == 0) return positive;
    const unsigned long long sample = job.first_sample + i;
    return negative_of(job, job.group == 1 ? sample : sample / job.group, slot - 1);
}

// Samples first .. end of a launch, which share their negatives: those of group `number` of all launches.
struct Group {
    unsigned long long first, end, number;
};

// Calls f for the groups of this warp; its number follows from that of the launch's first sample without a division.
template <class F> __device__ inline void for_each_group(const Job &job, F f) {
    const unsigned long long n_groups = (job.count + job.group - 1) / job.group;
    const unsigned long long before = job.first_sample / job.group;
    for (unsigned long long g = warp_of_grid(); g < n_groups; g += warps_of_grid()) {
        const unsigned long long first = g * job.group;
        f(Group{first, first + job.group < job.count ? first + job.group : job.count, before + g});
    }
}

// ---- The objective: -log sigmoid(x) for the positive, -log sigmoid(-x) for a negative.
// The sigmoid is computed, not looked up. |x| is cut at 30, where the slope is 1e-13: expf neither overflows nor
// underflows there, and NaN stays NaN.

constexpr float DOT_CLAMP = 30.0f;

__device__ inline float signed_dot(float dot, bool positive) {
    const float x = positive ? dot : -dot;
    return x > DOT_CLAMP ? DOT_CLAMP : (x < -DOT_CLAMP ? -DOT_CLAMP : x);
}

// rate * (label - sigmoid(dot)), to 1e-6 of the rate: without the cut, which moves it by 1e-13 of the rate.
__device__ inline float approximate_coefficient(float dot, bool positive, float rate) {
    const float size = __fdividef(rate, 1.0f + __expf(positive ? dot : -dot));
    return positive ? size : -size;
}

// rate * (label - sigmoid(dot)).
__device__ inline float coefficient(float dot, bool positive, float rate) {
    const float size = rate / (1.0f + expf(signed_dot(dot, positive)));
    return positive ? size : -size;
}

__device__ inline float loss_of(float dot, bool positive) {
    const float x = signed_dot(dot, positive);
    return logf(1.0f + expf(-fabsf(x))) + (x < 0.0f ? -x : 0.0f);
}

// ---- Rows. Other warps update them meanwhile, so reads go past the first-level cache, which is not kept coherent.

struct Four {
    float at[4];
};

__device__ inline Four zero_four() { return Four{{0.0f, 0.0f, 0.0f, 0.0f}}; }

__device__ inline float dot_of(const Four &a, const Four &b) {
    float sum = a.at[0] * b.at[0];
    for (int i = 1; i < 4; ++i) sum = fmaf(a.at[i], b.at[i], sum);
    return sum;
}

__device__ inline void add_scaled(Four &sum, float factor, const Four &v) {
    for (int i = 0; i < 4; ++i) sum.at[i] = fmaf(factor, v.at[i], sum.at[i]);
}

__device__ inline Four scaled(float factor, const Four &v) {
    return Four{{factor * v.at[0], factor * v.at[1], factor * v.at[2], factor * v.at[3]}};
}

__device__ inline Four load_four(const float *at) {
    const float4 v = load_relaxed(reinterpret_cast<const float4 *>(at));
    return Four{{v.x, v.y, v.z, v.w}};
}

// Four halves, the first in the lower 16 bits of `low`.
__device__ inline Four four_of_halves(unsigned low, unsigned high) {
    const float2 first = two_halves_to_float(low), second = two_halves_to_float(high);
    return Four{{first.x, first.y, second.x, second.y}};
}

__device__ inline Four load_four(const unsigned short *at) {
    const unsigned long long v = load_relaxed(reinterpret_cast<const unsigned long long *>(at));
    return four_of_halves(static_cast<unsigned>(v), static_cast<unsigned>(v >> 32));
}

// Zeros behind the last column.
__device__ inline Four load_four_if(bool inside, const float *at) { return inside ? load_four(at) : zero_four(); }
__device__ inline Four load_four_if(bool inside, const unsigned short *at) {
    unsigned long long v = 0ull;
    if (inside) v = load_relaxed(reinterpret_cast<const unsigned long long *>(at));
    return four_of_halves(static_cast<unsigned>(v), static_cast<unsigned>(v >> 32));
}

// The same where `at` may be read either way: no branch.
__device__ inline Four load_four_or_zeros(bool inside, const float *at) {
    const Four v = load_four(at);
    return inside ? v : zero_four();
}
__device__ inline Four load_four_or_zeros(bool inside, const unsigned short *at) {
    const unsigned long long v = load_relaxed(reinterpret_cast<const unsigned long long *>(at));
    const unsigned mask = inside ? 0xffffffffu : 0u;
    return four_of_halves(static_cast<unsigned>(v) & mask, static_cast<unsigned>(v >> 32) & mask);
}

__device__ inline float load_one(const float *at) { return load_relaxed(at); }
__device__ inline float load_one(const unsigned short *at) { return half_to_float(load_relaxed(at)); }

// 32-bit rows are added to atomically: no update is lost.
__device__ inline void add_four(float *at, const Four &v, unsigned) {
    atomic_add_float4(reinterpret_cast<float4 *>(at), make_float4(v.at[0], v.at[1], v.at[2], v.at[3]));
}

__device__ inline void add_one(float *at, float v, unsigned) { atomicAdd(at, v); }

// 16-bit rows are read, added to, rounded at random in proportion, and written: of two warps that meet, one may lose
// its update (hogwild: Niu, Recht, Re, Wright 2011). Rounded to nearest, updates below half a unit would all be lost.
// Random bits of four halves, 16 each.
struct RoundingWords {
    unsigned word[2];
};

__device__ inline RoundingWords rounding_words(unsigned random) {
    return RoundingWords{{mix(random), mix(random + 0x9E3779B9u)}};
}

__device__ inline void store_four(unsigned short *at, const Four &v, const RoundingWords &random) {
    const unsigned low = two_halves_stochastic(v.at[0], v.at[1], random.word[0]);
    const unsigned high = two_halves_stochastic(v.at[2], v.at[3], random.word[1]);
    store_relaxed(reinterpret_cast<unsigned long long *>(at), low | static_cast<unsigned long long>(high) << 32);
}

__device__ inline void add_four(unsigned short *at, const Four &v, unsigned random) {
    Four sum = load_four(at);
    add_scaled(sum, 1.0f, v);
    store_four(at, sum, rounding_words(random));
}

__device__ inline void add_one(unsigned short *at, float v, unsigned random) {
    store_relaxed(at, float_to_half_stochastic(load_one(at) + v, mix(random)));
}

// ---- Rows of a table in a warp's registers.

template <int N> struct Row {
    Four part[N];
};

// Columns 4 * lane + 128 * i of a row; columns beyond `dim` read as 0.
template <int N, class T> __device__ inline Row<N> load_row(const T *table, unsigned row, unsigned dim, unsigned lane) {
    Row<N> out;
    const T *at = table + static_cast<unsigned long long>(row) * dim;
    for (int i = 0; i < N; ++i) {
        const unsigned column = 4 * lane + 128 * i;
        out.part[i] = column < dim ? load_four(at + column) : zero_four();
    }
    return out;
}

template <int N, class T>
__device__ inline void add_row(T *table, unsigned row, unsigned dim, unsigned lane, const Row<N> &v, float factor,
                               unsigned random) {
    T *at = table + static_cast<unsigned long long>(row) * dim;
    for (int i = 0; i < N; ++i) {
        const unsigned column = 4 * lane + 128 * i;
        if (column < dim) add_four(at + column, scaled(factor, v.part[i]), random + 0x85EBCA6Bu * i);
    }
}

template <int N> __device__ inline float dot_of(const Row<N> &a, const Row<N> &b) {
    float sum = 0.0f;
    for (int i = 0; i < N; ++i) sum += sgns::dot_of(a.part[i], b.part[i]);
    return warp_sum(sum);
}

template <int N> __device__ inline void add_scaled(Row<N> &sum, float factor, const Row<N> &v) {
    for (int i = 0; i < N; ++i) sgns::add_scaled(sum.part[i], factor, v.part[i]);
}

template <int N> __device__ inline Row<N> zero_row() {
    Row<N> v;
    for (int i = 0; i < N; ++i) v.part[i] = zero_four();
    return v;
}

// Random bits for rounding: one word a lane and sample, spread over targets and columns. Only fp16 tables need any.
template <class T> __device__ inline unsigned rounding_word(const Job &, unsigned long long, unsigned) { return 0; }
template <>
__device__ inline unsigned rounding_word<unsigned short>(const Job &job, unsigned long long i, unsigned lane) {
    return philox(job.seed, job.first_sample + i, lane, ROUNDING).word[0];
}

template <class T> __device__ inline RoundingWords rounding_words_of(unsigned) { return RoundingWords{{0u, 0u}}; }
template <> __device__ inline RoundingWords rounding_words_of<unsigned short>(unsigned random) {
    return rounding_words(random);
}

} // namespace sgns
