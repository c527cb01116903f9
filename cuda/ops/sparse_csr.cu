// Sparse product of column lists: out[own rows] = act(scale * keep A (keep x) + bias), B states in one pass.
//
// Shapes: row_ptr u64 [n_rows + 1], columns u32 [n_entries], values f32 [n_entries] or absent, x [n_columns, width],
// keep [n_columns, n_states], scale [n_states], bias and out [n_rows, width], width = n_states * state_width.
// An entry whose weight or mask is zero is not read.
//
// Bytes (the model that benches count): 4 B an entry for its id, 4 B for a weight, 4 * width B for the gathered row
// of x (128 B at K = 32: 132 B an entry), once 8 B a row and 4 * width B a row of out. FLOP: width additions an
// entry.
//
// One warp takes one row (or one chunk of a long row) and up to 128 columns of x: a lane holds VEC adjacent
// columns, LANES lanes hold the columns, and 32 / LANES entries are gathered side by side. Ids come 32 at a time in
// one coalesced read and are handed out by shuffles, so a lane has up to eight gathers in flight (4 KB a warp at K
// = 32). Both numbers and the kind of factor are in the name: `sparse_csr_4x8_unit_fwd` has VEC 4, LANES 8 and no
// factor, `_entry` one factor an entry, `_state` one an entry and state; `sparse_csr_chunks_*` are their twins for
// chunks.
//
// Determinism: a row's sum is made in an order that its number of entries and the width decide alone: entry i goes to
// group i % (32 / LANES), groups are added as a butterfly. Rows of more than CHUNK entries are cut into equal chunks,
// whose sums are added in order by a second kernel. No atomics; the grid does not matter.
//
// Source: row splitting with sub-warps as in Yang, Buluc and Owens, "Design Principles for Sparse Matrix
// Multiplication on the GPU" (Euro-Par 2018), sections 4.1 and 4.2; the mask is the residual graph of
// OpenGraphGym-MG (its adjacency edits are replaced by a mask).
#include "kernel.cuh"
#include "sparse_finish.cuh"
#include "warp.cuh"

namespace {

constexpr unsigned ROWS_PER_BLOCK = 8u; // warps of a block
constexpr unsigned MAX_BATCH = 8u;      // gathers that a lane has in flight

// How an entry gets its factor: none; one for all columns (weight, mask of a single state, or both); one for each
// state, which is its mask, times the weight if there is one.
enum Factors { UNIT, ONE_EACH, STATES };

struct Lists {
    const unsigned *columns;
    const float *values;
    const float *x;
    Finish finish;
};

template <int VEC> __device__ inline void load(const float *from, float (&to)[VEC]) {
    if constexpr (VEC == 4) {
        const float4 four = __ldg(reinterpret_cast<const float4 *>(from));
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    } else {
        to[0] = __ldg(from);
    }
}

template <int VEC> __device__ inline void store(float *to, const float (&from)[VEC]) {
    if constexpr (VEC == 4) {
        store4(to, make_float4(from[0], from[1], from[2], from[3]));
    } else {
        to[0] = from[0];
    }
}

// The factor of one entry that does not depend on the state.
template <Factors FACTORS>
__device__ inline float entry_factor(const Lists &lists, unsigned long long entry, unsigned id) {
    float factor = 1.0f;
    if (FACTORS != UNIT && (lists.finish.flags & SPARSE_WEIGHTED)) {
        factor = __ldg(lists.values + entry);
    }
    if (FACTORS == ONE_EACH && (lists.finish.flags & SPARSE_MASKED)) {
        factor *= __ldg(lists.finish.keep + id);
    }
    return factor;
}

// Adds the entries `first .. end` of one row to this lane's columns. All lanes of a warp call it together; a lane
// that is not `wanted` (behind the last column, or its state is masked) only takes part in the shuffles.
template <int VEC, int LANES, Factors FACTORS>
__device__ inline void add_entries(const Lists &lists, unsigned long long first, unsigned long long end,
                                   unsigned column, unsigned state, bool wanted, float (&sum)[VEC]) {
    constexpr unsigned GROUPS = WARP / LANES;
    constexpr unsigned BATCH = LANES < MAX_BATCH ? LANES : MAX_BATCH;
    const unsigned lane = lane_of_warp();
    const unsigned group = lane / LANES;
    const float *const x = lists.x + column;
    unsigned next_id = first + lane < end ? __ldg(lists.columns + first + lane) : 0u;
    for (unsigned long long base = first; base < end; base += WARP) {
        const unsigned n = end - base < WARP ? unsigned(end - base) : WARP;
        const unsigned id = next_id;
        next_id = base + WARP + lane < end ? __ldg(lists.columns + base + WARP + lane) : 0u;
        const float own_factor = lane < n ? entry_factor<FACTORS>(lists, base + lane, id) : 0.0f;
        for (unsigned step = 0; step * GROUPS < n; step += BATCH) {
            float gathered[BATCH][VEC];
            float factor[BATCH];
#pragma unroll
            for (unsigned i = 0; i < BATCH; ++i) {
                const unsigned entry = (step + i) * GROUPS + group;
                const unsigned long long node = __shfl_sync(ALL_LANES, id, int(entry));
                factor[i] = FACTORS == UNIT ? 1.0f : __shfl_sync(ALL_LANES, own_factor, int(entry));
                bool read = wanted && entry < n;
                if (FACTORS == STATES && read) {
                    factor[i] *= kept(lists.finish, node, state);
                }
                read = read && factor[i] != 0.0f;
#pragma unroll
                for (int j = 0; j < VEC; ++j) {
                    gathered[i][j] = 0.0f;
                }
                if (read) {
                    load<VEC>(x + node * lists.finish.width, gathered[i]);
                }
            }
#pragma unroll
            for (unsigned i = 0; i < BATCH; ++i) {
#pragma unroll
                for (int j = 0; j < VEC; ++j) {
                    sum[j] += FACTORS == UNIT ? gathered[i][j] : factor[i] * gathered[i][j];
                }
            }
        }
    }
#pragma unroll
    for (unsigned offset = LANES; offset < WARP; offset *= 2) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            sum[j] += __shfl_xor_sync(ALL_LANES, sum[j], int(offset));
        }
    }
}

// One warp's row or chunk. `whole` rows are finished; chunks leave their bare sum at `out[slot]`.
template <int VEC, int LANES, Factors FACTORS>
__device__ inline void product(const Lists &lists, unsigned long long first, unsigned long long end, unsigned row,
                               unsigned long long slot, bool whole, float *out) {
    const Finish &finish = lists.finish;
    const unsigned lane = lane_of_warp();
    const unsigned column = (blockIdx.y * LANES + lane % LANES) * VEC;
    const unsigned state = state_of(finish, column); // the same for VEC columns: state_width divides by VEC
    bool wanted = column < finish.width;
    if (FACTORS != UNIT && wanted && (FACTORS == STATES || (finish.flags & SPARSE_MASKED))) {
        wanted = kept(finish, (unsigned long long)finish.first_row + row, state) != 0.0f;
    }
    float sum[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
        sum[j] = 0.0f;
    }
    if (__any_sync(ALL_LANES, wanted)) {
        add_entries<VEC, LANES, FACTORS>(lists, first, end, column, state, wanted, sum);
    }
    if (lane >= LANES || column >= finish.width) {
        return;
    }
    if (whole) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            sum[j] = finished(finish, sum[j], row, column + j, state);
        }
    }
    store<VEC>(out + slot * finish.width + column, sum);
}

template <int VEC, int LANES, Factors FACTORS>
__device__ inline void row_product(const Lists &lists, const unsigned long long *row_ptr, unsigned n_rows,
                                   unsigned chunk, float *out) {
    const unsigned row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP;
    if (row >= n_rows) {
        return;
    }
    const unsigned long long first = row_ptr[row];
    const unsigned long long end = row_ptr[row + 1ull];
    if (end - first <= chunk) {
        product<VEC, LANES, FACTORS>(lists, first, end, row, row, true, out);
    }
}

template <int VEC, int LANES, Factors FACTORS>
__device__ inline void chunk_product(const Lists &lists, const unsigned long long *bounds, const unsigned *rows,
                                     unsigned n_chunks, float *partials) {
    const unsigned chunk = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP;
    if (chunk < n_chunks) {
        const unsigned long long first = bounds[2ull * chunk];
        product<VEC, LANES, FACTORS>(lists, first, bounds[2ull * chunk + 1ull], rows[chunk], chunk, false, partials);
    }
}

} // namespace

// Rows of at most `chunk` entries; longer ones are left to the kernels below. Grid: (rows / 8, columns / tile).
#define SPARSE_CSR_ROWS(name, VEC, LANES, FACTORS)                                                                     \
    extern "C" __global__ void __launch_bounds__(256, 3) sparse_csr_##name##_fwd(                                      \
        const unsigned long long *__restrict__ row_ptr, const unsigned *__restrict__ columns,                          \
        const float *__restrict__ values, const float *__restrict__ x, const float *__restrict__ keep,                 \
        const float *__restrict__ scale, const float *__restrict__ bias, float *__restrict__ out, unsigned n_rows,     \
        unsigned width, unsigned state_width, unsigned n_states, unsigned first_row, unsigned chunk, unsigned flags) { \
        const Lists lists = {columns, values, x, {keep, scale, bias, width, state_width, n_states, first_row, flags}}; \
        row_product<VEC, LANES, FACTORS>(lists, row_ptr, n_rows, chunk, out);                                          \
    }

// The chunks of long rows: chunk c is the entries chunk_bounds[2 c] .. chunk_bounds[2 c + 1] of row chunk_rows[c],
// and its bare sum goes to partials[c]. Grid: (chunks / 8, columns / tile).
#define SPARSE_CSR_CHUNKS(name, VEC, LANES, FACTORS)                                                                   \
    extern "C" __global__ void __launch_bounds__(256, 3) sparse_csr_chunks_##name##_fwd(                               \
        const unsigned long long *__restrict__ chunk_bounds, const unsigned *__restrict__ chunk_rows,                  \
        const unsigned *__restrict__ columns, const float *__restrict__ values, const float *__restrict__ x,           \
        const float *__restrict__ keep, float *__restrict__ partials, unsigned n_chunks, unsigned width,               \
        unsigned state_width, unsigned n_states, unsigned first_row, unsigned flags) {                                 \
        const Lists lists = {                                                                                          \
            columns, values, x, {keep, nullptr, nullptr, width, state_width, n_states, first_row, flags}};             \
        chunk_product<VEC, LANES, FACTORS>(lists, chunk_bounds, chunk_rows, n_chunks, partials);                       \
    }

// An instance for each kind of factor; VEC = 4 asks that width and state_width divide by 4.
#define SPARSE_CSR(shape, VEC, LANES)                                                                                  \
    SPARSE_CSR_ROWS(shape##_unit, VEC, LANES, UNIT)                                                                    \
    SPARSE_CSR_ROWS(shape##_entry, VEC, LANES, ONE_EACH)                                                               \
    SPARSE_CSR_ROWS(shape##_state, VEC, LANES, STATES)                                                                 \
    SPARSE_CSR_CHUNKS(shape##_unit, VEC, LANES, UNIT)                                                                  \
    SPARSE_CSR_CHUNKS(shape##_entry, VEC, LANES, ONE_EACH)                                                             \
    SPARSE_CSR_CHUNKS(shape##_state, VEC, LANES, STATES)

SPARSE_CSR(1x1, 1, 1)
SPARSE_CSR(1x4, 1, 4)
SPARSE_CSR(1x32, 1, 32)
SPARSE_CSR(4x2, 4, 2)
SPARSE_CSR(4x8, 4, 8)
SPARSE_CSR(4x16, 4, 16)
SPARSE_CSR(4x32, 4, 32)

// Adds a long row's chunks in order and finishes it; row long_rows[i] has the chunks long_first[i] .. long_first[i
// + 1]. Grid: one thread for each long row and column.
extern "C" __global__ void __launch_bounds__(256)
    sparse_csr_sum_fwd(const unsigned *__restrict__ long_rows, const unsigned *__restrict__ long_first,
                       const float *__restrict__ partials, const float *__restrict__ keep,
                       const float *__restrict__ scale, const float *__restrict__ bias, float *__restrict__ out,
                       unsigned n_long, unsigned width, unsigned state_width, unsigned n_states, unsigned first_row,
                       unsigned flags) {
    const unsigned long long i = thread_of_grid();
    const unsigned item = unsigned(i / width);
    const unsigned column = unsigned(i % width);
    if (i / width >= n_long) {
        return;
    }
    float sum = 0.0f;
    for (unsigned chunk = long_first[item]; chunk < long_first[item + 1u]; ++chunk) {
        sum += partials[(unsigned long long)chunk * width + column];
    }
    const Finish finish = {keep, scale, bias, width, state_width, n_states, first_row, flags};
    const unsigned row = long_rows[item];
    out[(unsigned long long)row * width + column] = finished(finish, sum, row, column, state_of(finish, column));
}
