// Groups of samples that share their negatives: a warp a group, whose negatives stand still and are added to once.
#pragma once

#include "kernel.cuh"
#include "sgns.cuh"
#include "warp.cuh"

namespace sgns {

// A group of samples by one warp: the rows of its negatives stand still in shared memory and their sums are added once.
template <int N, class T>
__device__ void group_in_shared(const Job &job, const Group &group, T *vertex, T *context, float *rows, float *losses) {
    const unsigned lane = lane_of_warp();
    const unsigned padded = 128 * N; // one row, and behind all rows the sums
    float *sums = rows + job.n_negatives * padded;
    const float rate = rate_of(job, group.first); // of the whole group
    for (unsigned k = 0; k < job.n_negatives; ++k) {
        const Row<N> row = load_row<N>(context, negative_of(job, group.number, k), job.dim, lane);
        for (int c = 0; c < N; ++c)
            for (int j = 0; j < 4; ++j) {
                rows[k * padded + 128 * c + 4 * lane + j] = row.part[c].at[j];
                sums[k * padded + 128 * c + 4 * lane + j] = 0.0f;
            }
    }
    // Every lane reads back its own columns only: no barrier is needed.
    for (unsigned long long i = group.first; i < group.end; ++i) {
        const Edge edge = edge_of(job, i);
        const Row<N> source = load_row<N>(vertex, edge.source, job.dim, lane);
        const Row<N> target = load_row<N>(context, edge.target, job.dim, lane);
        const unsigned random = rounding_word<T>(job, i, lane);
        const float dot = dot_of<N>(source, target);
        const float factor = approximate_coefficient(dot, true, rate);
        float loss = losses ? loss_of(dot, true) : 0.0f;
        Row<N> gradient = zero_row<N>();
        add_scaled<N>(gradient, factor, target);
        add_row<N>(context, edge.target, job.dim, lane, source, factor, random + 0xC2B2AE35u);
        for (unsigned k = 0; k < job.n_negatives; ++k) {
            Row<N> row;
            for (int c = 0; c < N; ++c) {
                const float4 v = *reinterpret_cast<const float4 *>(rows + k * padded + 128 * c + 4 * lane);
                row.part[c] = Four{{v.x, v.y, v.z, v.w}};
            }
            const float negative_dot = dot_of<N>(source, row);
            const float negative = approximate_coefficient(negative_dot, false, rate);
            if (losses) loss += loss_of(negative_dot, false);
            add_scaled<N>(gradient, negative, row);
            for (int c = 0; c < N; ++c) {
                float4 *at = reinterpret_cast<float4 *>(sums + k * padded + 128 * c + 4 * lane);
                const float4 old = *at;
                Four sum{{old.x, old.y, old.z, old.w}};
                sgns::add_scaled(sum, negative, source.part[c]);
                *at = make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]);
            }
        }
        add_row<N>(vertex, edge.source, job.dim, lane, gradient, 1.0f, random);
        if (losses && lane == 0) losses[i] = loss;
    }
    const unsigned random = rounding_word<T>(job, group.first, lane);
    for (unsigned k = 0; k < job.n_negatives; ++k) {
        Row<N> sum;
        for (int c = 0; c < N; ++c) {
            const float4 v = *reinterpret_cast<const float4 *>(sums + k * padded + 128 * c + 4 * lane);
            sum.part[c] = Four{{v.x, v.y, v.z, v.w}};
        }
        add_row<N>(context, negative_of(job, group.number, k), job.dim, lane, sum, 1.0f,
                   random + 0xC2B2AE35u * (k + 2));
    }
}

// Adds factor * v to what a row held as `old`: f32 rows lose nothing, fp16 rows what others wrote meanwhile.
__device__ inline void update_four(float *at, const Four &, float factor, const Four &v, const RoundingWords &) {
    add_four(at, scaled(factor, v), 0u);
}

__device__ inline void update_four(unsigned short *at, const Four &old, float factor, const Four &v,
                                   const RoundingWords &random) {
    Four sum = old;
    sgns::add_scaled(sum, factor, v);
    store_four(at, sum, random);
}

// A lane's four columns of a table; the first four again for a lane that has none.
template <class T> struct Columns {
    T *first;
    unsigned row_bytes;

    // One multiplication: multiply, widen and add.
    __device__ T *of(unsigned row) const {
        return reinterpret_cast<T *>(reinterpret_cast<unsigned long long>(first) +
                                     static_cast<unsigned long long>(row) * row_bytes);
    }
};

// The negatives of a group: a lane's columns of each, and what is to be added to them.
template <int K> struct Negatives {
    Four row[K];
    Four sum[K];
};

// One sample with at most K <= 7 negatives in registers, of whose dot products the warp makes all sums at once. A
// negative that is not there is a row of zeros. `is_inside`: this lane has columns.
template <int K, bool ONE_TABLE, class T>
__device__ inline void sample_beside_negatives(const Edge &edge, float rate, const Columns<T> &vertex,
                                               const Columns<T> &context, bool is_inside, Negatives<K> &negatives,
                                               unsigned random) {
    T *const source = vertex.of(edge.source);
    T *const target = context.of(edge.target);
    const Four s = load_four_or_zeros(is_inside, source);
    const Four t = load_four(target);
    float dots[8] = {sgns::dot_of(s, t)};
#pragma unroll
    for (int k = 0; k < K; ++k) dots[k + 1] = sgns::dot_of(s, negatives.row[k]);
    const bool is_positive = lane_of_warp() < 4u;
    const float own_factor = approximate_coefficient(warp_sum_of_each<K + 1u>(dots), is_positive, rate);
    const float factor = __shfl_sync(ALL_LANES, own_factor, 0);
    Four gradient = scaled(factor, t);
#pragma unroll
    for (int k = 0; k < K; ++k) {
        const float negative = __shfl_sync(ALL_LANES, own_factor, 4 * k + 4);
        sgns::add_scaled(gradient, negative, negatives.row[k]);
        sgns::add_scaled(negatives.sum[k], negative, s);
    }
    if (!is_inside) return;
    const RoundingWords words = rounding_words_of<T>(random);
    update_four(target, t, factor, s, words);
    const bool is_loop = ONE_TABLE && edge.source == edge.target; // its row has just been written
    const Four now = is_loop ? load_four(source) : s;
    update_four(source, now, 1.0f, gradient, RoundingWords{{words.word[0] * 0x2C1B3C6Du, words.word[1] * 0x297A2D39u}});
}

// A group of samples by one warp, with the rows of its at most K negatives in registers; dim <= 128.
template <int K, bool ONE_TABLE, class T>
__device__ inline void group_in_registers(const Job &job, const Group &group, const Columns<T> &vertex,
                                          const Columns<T> &context) {
    const unsigned lane = lane_of_warp();
    const bool is_inside = 4u * lane < job.dim;
    const unsigned own_negative = lane < job.n_negatives ? negative_of(job, group.number, lane) : 0u;
    const float rate = __shfl_sync(ALL_LANES, rate_of(job, group.first), 0); // of the whole group, and found once
    Negatives<K> negatives;
#pragma unroll
    for (unsigned k = 0; k < K; ++k) {
        const unsigned row = __shfl_sync(ALL_LANES, own_negative, k);
        negatives.row[k] = load_four_if(is_inside && k < job.n_negatives, context.of(row));
        negatives.sum[k] = zero_four();
    }
    unsigned random = rounding_word<T>(job, group.first, lane);
    for (unsigned long long base = group.first; base < group.end; base += WARP) { // lane l reads edge l
        const Edge own = base + lane < group.end ? edge_of(job, base + lane) : Edge{0u, 0u};
        const unsigned n = group.end - base < WARP ? static_cast<unsigned>(group.end - base) : WARP;
#pragma unroll 1
        for (unsigned i = 0; i < n; ++i) {
            const Edge edge = {__shfl_sync(ALL_LANES, own.source, i), __shfl_sync(ALL_LANES, own.target, i)};
            sample_beside_negatives<K, ONE_TABLE>(edge, rate, vertex, context, is_inside, negatives, random);
            random += 0xC2B2AE35u;
        }
    }
#pragma unroll
    for (unsigned k = 0; k < K; ++k) {
        const unsigned row = __shfl_sync(ALL_LANES, own_negative, k);
        if (is_inside && k < job.n_negatives) add_four(context.of(row), negatives.sum[k], random + 0x85EBCA6Bu * k);
    }
}

constexpr int REGISTER_NEGATIVES = 5;

// At most REGISTER_NEGATIVES negatives, dim <= 128, dim % 4 == 0, no losses.
template <bool ONE_TABLE, class T> __device__ void run_registers(const Job &job, T *vertex, T *context) {
    const unsigned row_bytes = job.dim * sizeof(T);
    const unsigned column = 4u * lane_of_warp() < job.dim ? 4u * lane_of_warp() : 0u;
    const Columns<T> of_vertex = {vertex + column, row_bytes};
    const Columns<T> of_context = {context + column, row_bytes};
    for_each_group(job, [&](const Group &group) {
        group_in_registers<REGISTER_NEGATIVES, ONE_TABLE>(job, group, of_vertex, of_context);
    });
}

// dim <= 256, dim % 4 == 0; dynamic shared memory holds 2 * n_negatives rows of 128 or 256 floats for each warp of the
// block.
template <class T> __device__ void run_shared(const Job &job, T *vertex, T *context, float *losses) {
    CU_DYN_SHARED(float, memory);
    const unsigned padded = job.dim <= 128 ? 128 : 256;
    float *rows = memory + 2ull * job.n_negatives * padded * (threadIdx.x >> 5);
    for_each_group(job, [&](const Group &group) {
        if (padded == 128)
            group_in_shared<1>(job, group, vertex, context, rows, losses);
        else
            group_in_shared<2>(job, group, vertex, context, rows, losses);
    });
}

} // namespace sgns
