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
// sgns_order<1|2>_<f32|f16>          dim <= 128, dim % 4 == 0, no losses: a warp a sample, vertex row and all targets
// in
//                                    registers
// sgns_order<1|2>_<f32|f16>_any      every dim, losses
// sgns_order<1|2>_<f32|f16>_shared5  dim <= 128, dim % 4 == 0, at most 5 negatives, no losses: a warp a group, whose
//                                    negatives stand in registers
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

namespace sgns {

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

// A group of samples by one warp: the rows of its negatives stand still in shared memory and their sums are added once.
template <int N, class T>
__device__ void group_in_shared(const Job &job, unsigned long long first, unsigned long long end, T *vertex, T *context,
                                float *rows, float *losses) {
    const unsigned lane = lane_of_warp();
    const unsigned padded = 128 * N; // one row, and behind all rows the sums
    float *sums = rows + job.n_negatives * padded;
    const float rate = rate_of(job, first); // of the whole group
    for (unsigned k = 0; k < job.n_negatives; ++k) {
        const Row<N> row = load_row<N>(context, target_of(job, first, k + 1, 0), job.dim, lane);
        for (int c = 0; c < N; ++c)
            for (int j = 0; j < 4; ++j) {
                rows[k * padded + 128 * c + 4 * lane + j] = row.part[c].at[j];
                sums[k * padded + 128 * c + 4 * lane + j] = 0.0f;
            }
    }
    // Every lane reads back its own columns only: no barrier is needed.
    for (unsigned long long i = first; i < end; ++i) {
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
    const unsigned random = rounding_word<T>(job, first, lane);
    for (unsigned k = 0; k < job.n_negatives; ++k) {
        Row<N> sum;
        for (int c = 0; c < N; ++c) {
            const float4 v = *reinterpret_cast<const float4 *>(sums + k * padded + 128 * c + 4 * lane);
            sum.part[c] = Four{{v.x, v.y, v.z, v.w}};
        }
        add_row<N>(context, target_of(job, first, k + 1, 0), job.dim, lane, sum, 1.0f, random + 0xC2B2AE35u * (k + 2));
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

// A lane's four columns of a table.
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

// One sample with at most K <= 7 negatives in registers, of whose dot products the warp makes eight sums at once. A
// negative that is not there is a row of zeros. `is_inside`: this lane has columns.
template <int K, bool ONE_TABLE, class T>
__device__ inline void sample_beside_negatives(const Edge &edge, float rate, const Columns<T> &vertex,
                                               const Columns<T> &context, bool is_inside, Negatives<K> &negatives,
                                               unsigned random) {
    T *const source = vertex.of(edge.source);
    T *const target = context.of(edge.target);
    const Four s = load_four_if(is_inside, source);
    const Four t = load_four_if(is_inside, target);
    float dots[8] = {sgns::dot_of(s, t)};
#pragma unroll
    for (int k = 0; k < K; ++k) dots[k + 1] = sgns::dot_of(s, negatives.row[k]);
    const bool is_positive = lane_of_warp() < 4u;
    const float own_factor = approximate_coefficient(warp_sum_of_eight(dots), is_positive, rate);
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
__device__ inline void group_in_registers(const Job &job, unsigned long long first, unsigned long long end,
                                          const Columns<T> &vertex, const Columns<T> &context) {
    const unsigned lane = lane_of_warp();
    const bool is_inside = 4u * lane < job.dim;
    const unsigned own_negative = lane < job.n_negatives ? target_of(job, first, lane + 1u, 0u) : 0u;
    const float rate = rate_of(job, first); // of the whole group
    Negatives<K> negatives;
#pragma unroll
    for (unsigned k = 0; k < K; ++k) {
        const unsigned row = __shfl_sync(ALL_LANES, own_negative, k);
        negatives.row[k] = load_four_if(is_inside && k < job.n_negatives, context.of(row));
        negatives.sum[k] = zero_four();
    }
    unsigned random = rounding_word<T>(job, first, lane);
    for (unsigned long long base = first; base < end; base += WARP) { // lane l reads edge l
        const Edge own = base + lane < end ? edge_of(job, base + lane) : Edge{0u, 0u};
        const unsigned n = end - base < WARP ? static_cast<unsigned>(end - base) : WARP;
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

// At most K negatives, dim <= 128, dim % 4 == 0, no losses.
template <int K, bool ONE_TABLE, class T> __device__ void run_registers(const Job &job, T *vertex, T *context) {
    const unsigned row_bytes = job.dim * sizeof(T);
    const Columns<T> of_vertex = {vertex + 4u * lane_of_warp(), row_bytes};
    const Columns<T> of_context = {context + 4u * lane_of_warp(), row_bytes};
    const unsigned long long n_groups = (job.count + job.group - 1) / job.group;
    for (unsigned long long g = warp_of_grid(); g < n_groups; g += warps_of_grid()) {
        const unsigned long long first = g * job.group;
        const unsigned long long end = first + job.group < job.count ? first + job.group : job.count;
        group_in_registers<K, ONE_TABLE>(job, first, end, of_vertex, of_context);
    }
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

// dim <= 256, dim % 4 == 0; `memory` holds 2 * n_negatives rows of 128 or 256 floats for each warp of the block.
template <class T> __device__ void run_shared(const Job &job, T *vertex, T *context, float *losses, float *memory) {
    const unsigned padded = job.dim <= 128 ? 128 : 256;
    float *rows = memory + 2ull * job.n_negatives * padded * (threadIdx.x >> 5);
    const unsigned long long n_groups = (job.count + job.group - 1) / job.group;
    for (unsigned long long g = warp_of_grid(); g < n_groups; g += warps_of_grid()) {
        const unsigned long long first = g * job.group;
        const unsigned long long end = first + job.group < job.count ? first + job.group : job.count;
        if (padded == 128)
            group_in_shared<1>(job, first, end, vertex, context, rows, losses);
        else
            group_in_shared<2>(job, first, end, vertex, context, rows, losses);
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

// ---- Order 2: two tables.

extern "C" __global__ void __launch_bounds__(128)
    sgns_order2_f32(const unsigned *__restrict__ edges, unsigned long long n_edges,
                    const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                    const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                    unsigned group, unsigned long long seed, unsigned long long first_sample,
                    unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                    float *vertex, float *context) {
    sgns::run(SGNS_JOB, vertex, context);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order2_f32_any(const unsigned *__restrict__ edges, unsigned long long n_edges,
                        const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                        const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                        unsigned group, unsigned long long seed, unsigned long long first_sample,
                        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                        unsigned with_loss, float *losses, float *vertex, float *context) {
    sgns::run_any(SGNS_JOB, vertex, context, with_loss ? losses : nullptr);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order2_f32_shared(const unsigned *__restrict__ edges, unsigned long long n_edges,
                           const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                           const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                           unsigned n_negatives, unsigned group, unsigned long long seed,
                           unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                           float rate, float rate_slope, unsigned with_loss, float *losses, float *vertex,
                           float *context) {
    CU_DYN_SHARED(float, memory);
    sgns::run_shared(SGNS_JOB, vertex, context, with_loss ? losses : nullptr, memory);
}

extern "C" __global__ void __launch_bounds__(128, 8)
    sgns_order2_f16(const unsigned *__restrict__ edges, unsigned long long n_edges,
                    const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                    const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                    unsigned group, unsigned long long seed, unsigned long long first_sample,
                    unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                    unsigned short *vertex, unsigned short *context) {
    sgns::run(SGNS_JOB, vertex, context);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order2_f16_any(const unsigned *__restrict__ edges, unsigned long long n_edges,
                        const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                        const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                        unsigned group, unsigned long long seed, unsigned long long first_sample,
                        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                        unsigned with_loss, float *losses, unsigned short *vertex, unsigned short *context) {
    sgns::run_any(SGNS_JOB, vertex, context, with_loss ? losses : nullptr);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order2_f16_shared(const unsigned *__restrict__ edges, unsigned long long n_edges,
                           const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                           const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                           unsigned n_negatives, unsigned group, unsigned long long seed,
                           unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                           float rate, float rate_slope, unsigned with_loss, float *losses, unsigned short *vertex,
                           unsigned short *context) {
    CU_DYN_SHARED(float, memory);
    sgns::run_shared(SGNS_JOB, vertex, context, with_loss ? losses : nullptr, memory);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order2_f32_shared5(const unsigned *__restrict__ edges, unsigned long long n_edges,
                            const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                            const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                            unsigned n_negatives, unsigned group, unsigned long long seed,
                            unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                            float rate, float rate_slope, float *vertex, float *context) {
    sgns::run_registers<5, false>(SGNS_JOB, vertex, context);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order2_f16_shared5(const unsigned *__restrict__ edges, unsigned long long n_edges,
                            const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                            const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                            unsigned n_negatives, unsigned group, unsigned long long seed,
                            unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                            float rate, float rate_slope, unsigned short *vertex, unsigned short *context) {
    sgns::run_registers<5, false>(SGNS_JOB, vertex, context);
}

// ---- Order 1: one table.

extern "C" __global__ void __launch_bounds__(128)
    sgns_order1_f32(const unsigned *__restrict__ edges, unsigned long long n_edges,
                    const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                    const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                    unsigned group, unsigned long long seed, unsigned long long first_sample,
                    unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                    float *table) {
    sgns::run(SGNS_JOB, table, table);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order1_f32_any(const unsigned *__restrict__ edges, unsigned long long n_edges,
                        const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                        const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                        unsigned group, unsigned long long seed, unsigned long long first_sample,
                        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                        unsigned with_loss, float *losses, float *table) {
    sgns::run_any(SGNS_JOB, table, table, with_loss ? losses : nullptr);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order1_f32_shared(const unsigned *__restrict__ edges, unsigned long long n_edges,
                           const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                           const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                           unsigned n_negatives, unsigned group, unsigned long long seed,
                           unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                           float rate, float rate_slope, unsigned with_loss, float *losses, float *table) {
    CU_DYN_SHARED(float, memory);
    sgns::run_shared(SGNS_JOB, table, table, with_loss ? losses : nullptr, memory);
}

extern "C" __global__ void __launch_bounds__(128, 8)
    sgns_order1_f16(const unsigned *__restrict__ edges, unsigned long long n_edges,
                    const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                    const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                    unsigned group, unsigned long long seed, unsigned long long first_sample,
                    unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                    unsigned short *table) {
    sgns::run(SGNS_JOB, table, table);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order1_f16_any(const unsigned *__restrict__ edges, unsigned long long n_edges,
                        const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                        const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim, unsigned n_negatives,
                        unsigned group, unsigned long long seed, unsigned long long first_sample,
                        unsigned long long first_edge, unsigned long long count, float rate, float rate_slope,
                        unsigned with_loss, float *losses, unsigned short *table) {
    sgns::run_any(SGNS_JOB, table, table, with_loss ? losses : nullptr);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order1_f16_shared(const unsigned *__restrict__ edges, unsigned long long n_edges,
                           const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                           const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                           unsigned n_negatives, unsigned group, unsigned long long seed,
                           unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                           float rate, float rate_slope, unsigned with_loss, float *losses, unsigned short *table) {
    CU_DYN_SHARED(float, memory);
    sgns::run_shared(SGNS_JOB, table, table, with_loss ? losses : nullptr, memory);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order1_f32_shared5(const unsigned *__restrict__ edges, unsigned long long n_edges,
                            const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                            const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                            unsigned n_negatives, unsigned group, unsigned long long seed,
                            unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                            float rate, float rate_slope, float *table) {
    sgns::run_registers<5, true>(SGNS_JOB, table, table);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    sgns_order1_f16_shared5(const unsigned *__restrict__ edges, unsigned long long n_edges,
                            const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                            const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                            unsigned n_negatives, unsigned group, unsigned long long seed,
                            unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                            float rate, float rate_slope, unsigned short *table) {
    sgns::run_registers<5, true>(SGNS_JOB, table, table);
}

// ---- The deterministic mode.

extern "C" __global__ void __launch_bounds__(128)
    sgns_coefficients_f32(const unsigned *__restrict__ edges, unsigned long long n_edges,
                          const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                          const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                          unsigned n_negatives, unsigned group, unsigned long long seed,
                          unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                          float rate, float rate_slope, unsigned with_loss, float *losses, const float *vertex,
                          const float *context, unsigned *sources, unsigned *targets, float *factors) {
    sgns::coefficients(SGNS_JOB, vertex, context, sources, targets, factors, with_loss ? losses : nullptr);
}

extern "C" __global__ void __launch_bounds__(128)
    sgns_coefficients_f16(const unsigned *__restrict__ edges, unsigned long long n_edges,
                          const unsigned *__restrict__ edge_alias, unsigned drawn, unsigned reversed,
                          const unsigned *__restrict__ negatives, unsigned n_targets, unsigned dim,
                          unsigned n_negatives, unsigned group, unsigned long long seed,
                          unsigned long long first_sample, unsigned long long first_edge, unsigned long long count,
                          float rate, float rate_slope, unsigned with_loss, float *losses, const unsigned short *vertex,
                          const unsigned short *context, unsigned *sources, unsigned *targets, float *factors) {
    sgns::coefficients(SGNS_JOB, vertex, context, sources, targets, factors, with_loss ? losses : nullptr);
}

// gradients[r, :] = sum over i in offsets[r]..offsets[r + 1] of factors[places[i]] * table[others[i], :], in order of
// i.
extern "C" __global__ void __launch_bounds__(128)
    sgns_row_gradients_f32(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ others,
                           const unsigned *__restrict__ places, const float *__restrict__ factors,
                           const float *__restrict__ table, unsigned n_rows, unsigned dim,
                           float *__restrict__ gradients) {
    sgns::row_gradients(offsets, others, places, factors, table, n_rows, dim, gradients);
}

// gradients[r, :] = sum over i in offsets[r]..offsets[r + 1] of factors[places[i]] * table[others[i], :], in order of
// i.
extern "C" __global__ void __launch_bounds__(128)
    sgns_row_gradients_f16(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ others,
                           const unsigned *__restrict__ places, const float *__restrict__ factors,
                           const unsigned short *__restrict__ table, unsigned n_rows, unsigned dim,
                           float *__restrict__ gradients) {
    sgns::row_gradients(offsets, others, places, factors, table, n_rows, dim, gradients);
}

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
