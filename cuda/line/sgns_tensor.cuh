// Groups of samples that share their negatives, 16 samples a tile, on tensor cores: fp16 tables, f32 sums.
//
// With S the 16 vertex rows of a tile, N the negatives' rows (at most 8) and T the targets' rows, three products do the
// work: S N^T and the diagonal of S T^T are the dot products, C N is what the vertices get and C^T S what the negatives
// get, where C = -sigmoid(S N^T) as halves (off by 2^-12 of itself, or 2^-25); the rate multiplies their f32 sums.
// All rows are read before one is written: of two samples of a tile that share a row, one loses its update to it, and
// so does an edge from a node to itself in order 1.
//
// Layout: lane 4 g + t has of row g (and g + 8) the columns 32 i + 8 t .. 32 i + 8 t + 8 for i < 4, two in a register.
// A product over columns may take them in any order, so registers 2 s and 2 s + 1 are fragment s of S, N and T
// (mma.cuh); transposed, register r of N or S is a fragment of eight columns, whose product comes back in the layout of
// register r.
#pragma once

#include "kernel.cuh"
#include "mma.cuh"
#include "sgns.cuh"
#include "warp.cuh"

namespace sgns {

constexpr unsigned TILE = 16u; // samples

// A lane's columns of one row; zeros behind the last column, and of a row that is not there.
struct Halves {
    unsigned at[16];
};

__device__ inline unsigned short *columns_of(unsigned short *table, unsigned row, unsigned dim) {
    return table + static_cast<unsigned long long>(row) * dim + 8u * (lane_of_warp() % 4u);
}

__device__ inline void load_eight(bool inside, const unsigned short *at, unsigned *to) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (inside) v = load_relaxed(reinterpret_cast<const float4 *>(at));
    to[0] = __float_as_uint(v.x);
    to[1] = __float_as_uint(v.y);
    to[2] = __float_as_uint(v.z);
    to[3] = __float_as_uint(v.w);
}

__device__ inline void store_eight(unsigned short *at, const unsigned (&v)[4]) {
    auto *const to = reinterpret_cast<unsigned long long *>(at);
    store_relaxed(to, v[0] | static_cast<unsigned long long>(v[1]) << 32);
    store_relaxed(to + 1, v[2] | static_cast<unsigned long long>(v[3]) << 32);
}

__device__ inline bool is_column(unsigned i, unsigned dim) { return 32u * i + 8u * (lane_of_warp() % 4u) < dim; }

__device__ inline Halves load_halves(bool is_there, const unsigned short *row, unsigned dim) {
    Halves halves;
#pragma unroll
    for (unsigned i = 0; i < 4u; ++i) load_eight(is_there && is_column(i, dim), row + 32u * i, halves.at + 4u * i);
    return halves;
}

struct Two {
    float low, high;
};

__device__ inline Two two_of(unsigned halves) {
    const float2 values = two_halves_to_float(halves);
    return Two{values.x, values.y};
}

__device__ inline unsigned two_halves_nearest(float low, float high) {
    return float_to_half(low) | static_cast<unsigned>(float_to_half(high)) << 16;
}

// Of a row: old + factor * added, rounded at random.
__device__ inline unsigned moved(unsigned old, float factor, Two added, unsigned random) {
    const Two from = two_of(old);
    return two_halves_stochastic(fmaf(factor, added.low, from.low), fmaf(factor, added.high, from.high), random);
}

// What a lane knows of its rows g and g + 8 of a tile.
struct TileRows {
    unsigned short *source[2], *target[2];
    bool is_there[2];
    float factor[2]; // of the edge: rate * (1 - sigmoid)
};

// Columns 32 i + 8 t .. + 8 of all rows: the two gradient products, and the additions.
__device__ inline void update_columns(const Job &job, unsigned i, const TileRows &rows, const Halves (&s)[2],
                                      const Halves (&target)[2], const Halves &negatives, const unsigned (&c)[2],
                                      unsigned short *negative, bool has_negative, float rate, unsigned random) {
    const unsigned by_negative[4] = {transposed_8x8(c[0]), 0u, transposed_8x8(c[1]), 0u};
    const unsigned by_sample[4] = {c[0], c[1], 0u, 0u};
    const bool inside = is_column(i, job.dim);
    unsigned sources[2][4], targets[2][4];
    Two sums[4];
    unsigned words[4];
#pragma unroll
    for (unsigned j = 0; j < 4u; ++j) {
        const unsigned r = 4u * i + j;
        const unsigned columns_of_negatives[2] = {transposed_8x8(negatives.at[r]), 0u};
        const unsigned columns_of_sources[2] = {transposed_8x8(s[0].at[r]), transposed_8x8(s[1].at[r])};
        float gradient[4] = {}, sum[4] = {};
        mma_16x8x16_f16(gradient, by_sample, columns_of_negatives);
        mma_16x8x16_f16(sum, by_negative, columns_of_sources);
        sums[j] = Two{sum[0], sum[1]};
        const unsigned word = words[j] = mix(random + 0x9E3779B9u * r);
#pragma unroll
        for (unsigned h = 0; h < 2u; ++h) {
            const Two to = two_of(target[h].at[r]);
            const Two of_source = {fmaf(rows.factor[h], to.low, rate * gradient[2u * h]),
                                   fmaf(rows.factor[h], to.high, rate * gradient[2u * h + 1u])};
            sources[h][j] = moved(s[h].at[r], 1.0f, of_source, word * (h ? 0x2C1B3C6Du : 0x297A2D39u));
            targets[h][j] = moved(target[h].at[r], rows.factor[h], two_of(s[h].at[r]), word * (h ? 0x85EBCA6Bu : 1u));
        }
    }
#pragma unroll
    for (unsigned h = 0; h < 2u; ++h)
        if (rows.is_there[h] && inside) {
            store_eight(rows.source[h] + 32u * i, sources[h]);
            store_eight(rows.target[h] + 32u * i, targets[h]);
        }
    __syncwarp(); // a negative may be a target
    if (!has_negative || !inside) return;
    unsigned now[4];
    load_eight(true, negative + 32u * i, now);
#pragma unroll
    for (unsigned j = 0; j < 4u; ++j) now[j] = moved(now[j], rate, sums[j], words[j] * 0xC2B2AE35u);
    store_eight(negative + 32u * i, now);
}

// Samples base .. base + n of a group, n <= 16.
__device__ inline void tile(const Job &job, unsigned long long base, unsigned n, const Halves &negatives,
                            unsigned short *negative, bool has_negative, unsigned short *vertex,
                            unsigned short *context, float rate) {
    const unsigned lane = lane_of_warp();
    const unsigned g = lane / 4u, t = lane % 4u;
    const Edge own = lane < n ? edge_of(job, base + lane) : Edge{0u, 0u};
    TileRows rows;
    Halves s[2], target[2];
#pragma unroll
    for (unsigned h = 0; h < 2u; ++h) {
        const unsigned row = g + 8u * h;
        rows.is_there[h] = row < n;
        rows.source[h] = columns_of(vertex, __shfl_sync(ALL_LANES, own.source, row), job.dim);
        rows.target[h] = columns_of(context, __shfl_sync(ALL_LANES, own.target, row), job.dim);
        s[h] = load_halves(rows.is_there[h], rows.source[h], job.dim);
        target[h] = load_halves(rows.is_there[h], rows.target[h], job.dim);
    }
    float dots[4] = {}, edges[2][4] = {};
#pragma unroll
    for (unsigned k = 0; k < 16u; k += 2u) {
        const unsigned a[4] = {s[0].at[k], s[1].at[k], s[0].at[k + 1u], s[1].at[k + 1u]};
        mma_16x8x16_f16(dots, a, {negatives.at[k], negatives.at[k + 1u]});
        mma_16x8x16_f16(edges[0], a, {target[0].at[k], target[0].at[k + 1u]});
        mma_16x8x16_f16(edges[1], a, {target[1].at[k], target[1].at[k + 1u]});
    }
    // The diagonal: row g's is with lane 4 g + g / 2.
    const unsigned holder = 4u * g + g / 2u;
    const float upper = g % 2u ? edges[0][1] : edges[0][0], lower = g % 2u ? edges[1][3] : edges[1][2];
    rows.factor[0] = approximate_coefficient(__shfl_sync(ALL_LANES, upper, holder), true, rate);
    rows.factor[1] = approximate_coefficient(__shfl_sync(ALL_LANES, lower, holder), true, rate);
    unsigned c[2];
#pragma unroll
    for (unsigned h = 0; h < 2u; ++h) {
        const float low = approximate_coefficient(dots[2u * h], false, 1.0f);
        const float high = approximate_coefficient(dots[2u * h + 1u], false, 1.0f);
        const bool has_low = rows.is_there[h] && 2u * t < job.n_negatives;
        const bool has_high = rows.is_there[h] && 2u * t + 1u < job.n_negatives;
        c[h] = two_halves_nearest(has_low ? low : 0.0f, has_high ? high : 0.0f);
    }
    const unsigned random = rounding_word<unsigned short>(job, base, lane);
#pragma unroll
    for (unsigned i = 0; i < 4u; ++i)
        update_columns(job, i, rows, s, target, negatives, c, negative, has_negative, rate, random);
}

// At most 8 negatives, dim <= 128, dim % 8 == 0, no losses.
__device__ inline void run_tensor(const Job &job, unsigned short *vertex, unsigned short *context) {
    const unsigned lane = lane_of_warp();
    const bool has_negative = lane / 4u < job.n_negatives;
    for_each_group(job, [&](const Group &group) {
        const unsigned own_negative = lane < job.n_negatives ? negative_of(job, group.number, lane) : 0u;
        unsigned short *const negative = columns_of(context, __shfl_sync(ALL_LANES, own_negative, lane / 4u), job.dim);
        const Halves negatives = load_halves(has_negative, negative, job.dim);
        const float rate = rate_of(job, group.first); // of the whole group
#pragma unroll 1
        for (unsigned long long base = group.first; base < group.end; base += TILE) {
            const unsigned n = group.end - base < TILE ? static_cast<unsigned>(group.end - base) : TILE;
            tile(job, base, n, negatives, negative, has_negative, vertex, context, rate);
        }
    });
}

} // namespace sgns
