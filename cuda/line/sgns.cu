// Skip-gram with negative sampling over sampled edges: the update of LINE.
//
// A sample is an edge (u, v) with K negatives n_1..n_K. With x = vertex[u] . context[t] for each target t in (v,
// n_1..n_K) and g_t = rate * ([t is v] - sigmoid(x)):   context[t] += g_t * vertex[u],   vertex[u] += sum_t g_t *
// context[t], where the right-hand sides are the rows as the sample found them (a target that is drawn twice may see
// its own first addition). Order 2 has the tables vertex and context, order 1 uses one table for both. Source: Tang,
// Qu, Wang, Zhang, Yan, Mei, "LINE" (WWW 2015), equations 3, 6 and 7.
//
// Shapes: tables row-major with `dim` columns, f32 or fp16 (as u16); edges [2 * n_edges]; negatives [2 * n_targets] and
// edge_alias [2 * n_edges] are alias tables of (threshold, alias) pairs; losses [count] where `with_loss` is not 0.
// n_negatives is at most 31. Sample i has the rate `rate + rate_slope * i`, the samples of a group that of its first.
// Bytes of one sample, tables in f32: (2 + K) rows read and added to = 8 * dim * (2 + K): 7168 for dim 128, K 5.
//
// sgns_order<1|2>_<f32|f16>          dim <= 128, dim % 4 == 0, no losses: a warp a sample, vertex row and all
//                                    targets in registers
// sgns_order<1|2>_<f32|f16>_any      every dim, losses
// sgns_order<1|2>_<f32|f16>_shared5  dim <= 128, dim % 4 == 0, at most 5 negatives, no losses: a warp a group, whose
//                                    negatives stand in registers
// sgns_order<1|2>_f16_tensor         dim <= 128, dim % 8 == 0, at most 8 negatives, no losses: a warp a group, 16 of
//                                    its samples at a time on tensor cores
// sgns_order<1|2>_<f32|f16>_shared   dim <= 256, dim % 4 == 0, losses: a warp a group, whose negatives stand in shared
//                                    memory
// These are hogwild: warps update one another's rows meanwhile. f32 rows take atomic additions, fp16 rows plain writes
// with stochastic rounding. Not repeatable on a GPU.
//
// sgns_permute_edges writes the pairs of a list in another order: element i of the permutation is a Feistel network
// over the smallest even number of bits that holds n_edges - 1, walked until it lies below n_edges. Source: Mitchell,
// Stokes, Frank, Holmes, "Bandwidth-optimal random shuffling for GPUs" (TOPC 2022), section 4, with 6 rounds. Bytes: 16
// an edge.
//
// sgns_coefficients_*, sgns_row_gradients_*, sgns_add_rows_* are the deterministic mode: coefficients of a batch from
// tables that nobody writes, then each row's sum in list order, then one addition a row. Same bits for every launch
// geometry.
#include "kernel.cuh"
#include "sgns.cuh"
#include "sgns_groups.cuh"
#include "sgns_tensor.cuh"

namespace sgns {

// One sample by one warp with at most 128 * N columns; up to TILE target rows are in flight together. Lane k draws
// target k. Gives the loss, or 0.
template <int N, int TILE, bool LOSS, class T>
__device__ inline float sample_in_registers(const Job &job, unsigned long long i, T *vertex, T *context) {
    const unsigned lane = lane_of_warp();
    const Edge edge = edge_of(job, i);
    const Row<N> source = load_row<N>(vertex, edge.source, job.dim, lane);
    const unsigned random = rounding_word<T>(job, i, lane);
    const unsigned n_slots = job.n_negatives + 1;
    const unsigned own_target = lane < n_slots ? target_of(job, i, lane, edge.target) : 0;
    const float rate = rate_of(job, i);
    Row<N> gradient = zero_row<N>();
    float loss = 0.0f;
    for (unsigned first = 0; first < n_slots; first += TILE) {
        Row<N> row[TILE];
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            const unsigned target = __shfl_sync(ALL_LANES, own_target, (first + k) & 31);
            row[k] = first + k < n_slots ? load_row<N>(context, target, job.dim, lane) : zero_row<N>();
        }
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            if (first + k >= n_slots) break; // the same for the whole warp
            const bool positive = first + k == 0;
            const float dot = dot_of<N>(source, row[k]);
            const float factor = approximate_coefficient(dot, positive, rate);
            if (LOSS) loss += loss_of(dot, positive);
            add_scaled<N>(gradient, factor, row[k]);
            const unsigned target = __shfl_sync(ALL_LANES, own_target, first + k); // again, not kept: registers
            add_row<N>(context, target, job.dim, lane, source, factor, random + 0xC2B2AE35u * (first + k + 1));
        }
    }
    add_row<N>(vertex, edge.source, job.dim, lane, gradient, 1.0f, random);
    return loss;
}

// One sample of any dimension: the dot products first, then column by column, rows read again (they are in the
// second-level cache by then). Lane k holds target k and its coefficient.
template <class T> __device__ float sample_of_any_dim(const Job &job, unsigned long long i, T *vertex, T *context) {
    const unsigned lane = lane_of_warp();
    const Edge edge = edge_of(job, i);
    T *source = vertex + static_cast<unsigned long long>(edge.source) * job.dim;
    const unsigned random = rounding_word<T>(job, i, lane);
    const unsigned n_slots = job.n_negatives + 1;
    const unsigned own_target = lane < n_slots ? target_of(job, i, lane, edge.target) : 0;
    const float rate = rate_of(job, i);
    float own_factor = 0.0f, loss = 0.0f;
    for (unsigned k = 0; k < n_slots; ++k) {
        const T *row = context + static_cast<unsigned long long>(__shfl_sync(ALL_LANES, own_target, k)) * job.dim;
        float sum = 0.0f;
        for (unsigned column = lane; column < job.dim; column += 32)
            sum = fmaf(load_one(source + column), load_one(row + column), sum);
        const float dot = warp_sum(sum);
        loss += loss_of(dot, k == 0);
        if (k == lane) own_factor = approximate_coefficient(dot, k == 0, rate);
    }
    for (unsigned first = 0; first < job.dim; first += 32) {
        const unsigned column = first + lane;
        const bool inside = column < job.dim;
        const float old = inside ? load_one(source + column) : 0.0f;
        float gradient = 0.0f;
        for (unsigned k = 0; k < n_slots; ++k) {
            const float factor = __shfl_sync(ALL_LANES, own_factor, k);
            T *row = context + static_cast<unsigned long long>(__shfl_sync(ALL_LANES, own_target, k)) * job.dim;
            if (!inside) continue;
            gradient = fmaf(factor, load_one(row + column), gradient);
            add_one(row + column, factor * old, random + 0xC2B2AE35u * (k + 1) + 0x85EBCA6Bu * first);
        }
        if (inside) add_one(source + column, gradient, random + 0x85EBCA6Bu * first);
    }
    return loss;
}

template <class T> __device__ void run(const Job &job, T *vertex, T *context) {
    for (unsigned long long i = warp_of_grid(); i < job.count; i += warps_of_grid())
        sample_in_registers<1, 6, false>(job, i, vertex, context);
}

template <class T> __device__ void run_any(const Job &job, T *vertex, T *context, float *losses) {
    const bool in_registers = job.dim <= 256 && job.dim % 4 == 0;
    for (unsigned long long i = warp_of_grid(); i < job.count; i += warps_of_grid()) {
        const float loss = in_registers ? sample_in_registers<2, 3, true>(job, i, vertex, context)
                                        : sample_of_any_dim(job, i, vertex, context);
        if (losses && (lane_of_warp()) == 0) losses[i] = loss;
    }
}

// ---- The deterministic mode.

template <class T>
__device__ void coefficients(const Job &job, const T *vertex, const T *context, unsigned *sources, unsigned *targets,
                             float *factors, float *losses) {
    const unsigned lane = lane_of_warp();
    const unsigned n_slots = job.n_negatives + 1;
    for (unsigned long long i = warp_of_grid(); i < job.count; i += warps_of_grid()) {
        const Edge edge = edge_of(job, i);
        const T *source = vertex + static_cast<unsigned long long>(edge.source) * job.dim;
        float loss = 0.0f;
        for (unsigned slot = 0; slot < n_slots; ++slot) {
            const unsigned target = target_of(job, i, slot, edge.target);
            const T *row = context + static_cast<unsigned long long>(target) * job.dim;
            float sum = 0.0f;
            for (unsigned column = lane; column < job.dim; column += 32)
                sum = fmaf(load_one(source + column), load_one(row + column), sum);
            const float dot = warp_sum(sum);
            loss += loss_of(dot, slot == 0);
            if (lane == 0) {
                targets[i * n_slots + slot] = target;
                factors[i * n_slots + slot] = coefficient(dot, slot == 0, rate_of(job, i));
            }
        }
        if (lane == 0) {
            sources[i] = edge.source;
            if (losses) losses[i] = loss;
        }
    }
}

template <class T>
__device__ void row_gradients(const unsigned long long *offsets, const unsigned *others, const unsigned *places,
                              const float *factors, const T *table, unsigned n_rows, unsigned dim, float *gradients) {
    const unsigned lane = lane_of_warp();
    for (unsigned long long r = warp_of_grid(); r < n_rows; r += warps_of_grid())
        for (unsigned column = lane; column < dim; column += 32) {
            float sum = 0.0f;
            for (unsigned long long i = offsets[r]; i < offsets[r + 1]; ++i)
                sum = fmaf(factors[places[i]],
                           load_one(table + static_cast<unsigned long long>(others[i]) * dim + column), sum);
            gradients[r * dim + column] = sum;
        }
}

} // namespace sgns

#define SGNS_JOB                                                                                                       \
    sgns::Job {                                                                                                        \
        edges, n_edges, edge_alias, drawn, reversed, negatives, n_targets, dim, n_negatives, group, seed,              \
            first_sample, first_edge, count, rate, rate_slope                                                          \
    }

// Order 2, two tables, without losses.
#define SGNS_ORDER2(name, T, BOUNDS, RUN)                                                                              \
    extern "C" __global__ void __launch_bounds__ BOUNDS sgns_order2_##name(                                            \
        const unsigned *__restrict__ edges, unsigned long long n_edges, const unsigned *__restrict__ edge_alias,       \
        unsigned drawn, unsigned reversed, const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,   \
        unsigned n_negatives, unsigned group, unsigned long long seed, unsigned long long first_sample,                \
        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope, T *vertex,              \
        T *context) {                                                                                                  \
        sgns::RUN(SGNS_JOB, vertex, context);                                                                          \
    }

// The same with losses.
#define SGNS_ORDER2_LOSSES(name, T, RUN)                                                                               \
    extern "C" __global__ void __launch_bounds__(128, 5) sgns_order2_##name(                                           \
        const unsigned *__restrict__ edges, unsigned long long n_edges, const unsigned *__restrict__ edge_alias,       \
        unsigned drawn, unsigned reversed, const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,   \
        unsigned n_negatives, unsigned group, unsigned long long seed, unsigned long long first_sample,                \
        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope, unsigned with_loss,     \
        float *losses, T *vertex, T *context) {                                                                        \
        sgns::RUN(SGNS_JOB, vertex, context, with_loss ? losses : nullptr);                                            \
    }

// Order 1, one table, without losses.
#define SGNS_ORDER1(name, T, BOUNDS, RUN)                                                                              \
    extern "C" __global__ void __launch_bounds__ BOUNDS sgns_order1_##name(                                            \
        const unsigned *__restrict__ edges, unsigned long long n_edges, const unsigned *__restrict__ edge_alias,       \
        unsigned drawn, unsigned reversed, const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,   \
        unsigned n_negatives, unsigned group, unsigned long long seed, unsigned long long first_sample,                \
        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope, T *table) {             \
        sgns::RUN(SGNS_JOB, table, table);                                                                             \
    }

// The same with losses.
#define SGNS_ORDER1_LOSSES(name, T, RUN)                                                                               \
    extern "C" __global__ void __launch_bounds__(128, 5) sgns_order1_##name(                                           \
        const unsigned *__restrict__ edges, unsigned long long n_edges, const unsigned *__restrict__ edge_alias,       \
        unsigned drawn, unsigned reversed, const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,   \
        unsigned n_negatives, unsigned group, unsigned long long seed, unsigned long long first_sample,                \
        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope, unsigned with_loss,     \
        float *losses, T *table) {                                                                                     \
        sgns::RUN(SGNS_JOB, table, table, with_loss ? losses : nullptr);                                               \
    }

// The deterministic mode's coefficients.
#define SGNS_COEFFICIENTS(name, T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(128) sgns_coefficients_##name(                                        \
        const unsigned *__restrict__ edges, unsigned long long n_edges, const unsigned *__restrict__ edge_alias,       \
        unsigned drawn, unsigned reversed, const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,   \
        unsigned n_negatives, unsigned group, unsigned long long seed, unsigned long long first_sample,                \
        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope, unsigned with_loss,     \
        float *losses, const T *vertex, const T *context, unsigned *sources, unsigned *targets, float *factors) {      \
        sgns::coefficients(SGNS_JOB, vertex, context, sources, targets, factors, with_loss ? losses : nullptr);        \
    }

SGNS_ORDER2(f32, float, (128), run)
SGNS_ORDER2(f16, unsigned short, (128, 8), run)
SGNS_ORDER2(f32_shared5, float, (128, 5), run_registers<false>)
SGNS_ORDER2(f16_shared5, unsigned short, (128, 5), run_registers<false>)
SGNS_ORDER2(f16_tensor, unsigned short, (128, 2), run_tensor)
SGNS_ORDER2_LOSSES(f32_any, float, run_any)
SGNS_ORDER2_LOSSES(f16_any, unsigned short, run_any)
SGNS_ORDER2_LOSSES(f32_shared, float, run_shared)
SGNS_ORDER2_LOSSES(f16_shared, unsigned short, run_shared)

SGNS_ORDER1(f32, float, (128), run)
SGNS_ORDER1(f16, unsigned short, (128, 8), run)
SGNS_ORDER1(f32_shared5, float, (128, 5), run_registers<true>)
SGNS_ORDER1(f16_shared5, unsigned short, (128, 5), run_registers<true>)
SGNS_ORDER1(f16_tensor, unsigned short, (128, 2), run_tensor)
SGNS_ORDER1_LOSSES(f32_any, float, run_any)
SGNS_ORDER1_LOSSES(f16_any, unsigned short, run_any)
SGNS_ORDER1_LOSSES(f32_shared, float, run_shared)
SGNS_ORDER1_LOSSES(f16_shared, unsigned short, run_shared)

SGNS_COEFFICIENTS(f32, float)
SGNS_COEFFICIENTS(f16, unsigned short)

// gradients[r, :] = sum over i in offsets[r]..offsets[r + 1] of factors[places[i]] * table[others[i], :], in order of
// i.
#define SGNS_ROW_GRADIENTS(name, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(128) sgns_row_gradients_##name(                                       \
        const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ others,                           \
        const unsigned *__restrict__ places, const float *__restrict__ factors, const T *__restrict__ table,           \
        unsigned n_rows, unsigned dim, float *__restrict__ gradients) {                                                \
        sgns::row_gradients(offsets, others, places, factors, table, n_rows, dim, gradients);                          \
    }

SGNS_ROW_GRADIENTS(f32, float)
SGNS_ROW_GRADIENTS(f16, unsigned short)

// table[rows[r], :] += gradients[r, :]; the listed rows are distinct.
extern "C" __global__ void __launch_bounds__(128)
    sgns_add_rows_f32(const unsigned *__restrict__ rows, const float *__restrict__ gradients, unsigned n_rows,
                      unsigned dim, float *__restrict__ table) {
    const unsigned long long element = thread_of_grid();
    if (element >= static_cast<unsigned long long>(n_rows) * dim) return;
    const unsigned long long at = static_cast<unsigned long long>(rows[element / dim]) * dim + element % dim;
    table[at] += gradients[element];
}

// table[rows[r], :] += gradients[r, :]; the listed rows are distinct.
extern "C" __global__ void __launch_bounds__(128)
    sgns_add_rows_f16(const unsigned *__restrict__ rows, const float *__restrict__ gradients, unsigned n_rows,
                      unsigned dim, unsigned long long seed, unsigned long long first_sample,
                      unsigned short *__restrict__ table) {
    const unsigned long long element = thread_of_grid();
    if (element >= static_cast<unsigned long long>(n_rows) * dim) return;
    const unsigned long long at = static_cast<unsigned long long>(rows[element / dim]) * dim + element % dim;
    const unsigned random =
        sgns::philox(seed, first_sample, rows[element / dim], sgns::ROUNDING + 1 + element % dim).word[0];
    table[at] = float_to_half_stochastic(half_to_float(table[at]) + gradients[element], random);
}

// ---- The order of edges.

extern "C" __global__ void __launch_bounds__(256)
    sgns_permute_edges(const unsigned *__restrict__ pairs, unsigned *__restrict__ permuted, unsigned n_edges,
                       unsigned half_bits, unsigned key_low, unsigned key_high) {
    const unsigned long long i = thread_of_grid();
    if (i >= n_edges) return;
    const unsigned from = sgns::permuted(static_cast<unsigned>(i), n_edges, half_bits, key_low, key_high);
    reinterpret_cast<uint2 *>(permuted)[i] = reinterpret_cast<const uint2 *>(pairs)[from];
}
