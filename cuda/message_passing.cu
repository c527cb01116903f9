// Message passing over a directed multigraph: gather, add, relu and reduce in one pass, without a row for each edge.
//
// The first linear map of a message network acts on [h_neighbour, h_own, h_edge], so it is a sum of three products, two of
// which are made once a node. What is left for the edge e between v and its neighbour u is
//     z_e = neighbour[u, :] + own[v, :] + edge[e, :],   m_e = relu(z_e) or z_e,
// reduced over the edges of v by sum, mean or maximum; a linear map that follows is applied to the sum. Absent parts count 0:
// `edge` alone reduces messages that were made elsewhere.
//
// Shapes: lists of node v: items offsets[v]..offsets[v + 1], each with the other end `others[i]` and its edge `edges[i]`;
// neighbour and own [n_nodes, width], edge [n_edges, width], results [n_nodes, width]. `parts` is a sum of 1 (neighbour),
// 2 (own), 4 (edge), 8 (relu). A node without edges gets 0, for the maximum too, whose `winner` is then 2^32 - 1.
// The lists of the incoming edges of all nodes have the sources as others, those of the outgoing edges the targets.
//
//   message_sum_fwd    sum, or mean where `mean` is not 0          message_max_fwd    maximum; winner = the edge it came from
//   message_node_bwd   gradient by own (over a node's own lists) or by neighbour (over the lists of the other direction)
//   message_edge_bwd   gradient by edge
//   edge_inputs_fwd    rows [h_source, h_target, h_edge], for message networks that need them
//   edge_inputs_bwd    gradient of those rows by h
// Determinism: no atomics; every sum runs in a fixed tree over the order of the list. Among equal values the maximum takes
// the first edge. Source: Paliwal et al., "Reinforced genetic algorithm learning for optimizing computation graphs" (ICLR
// 2020), equation 1.
#include "kernel.cuh"
#include "segment_sum.cuh"

namespace messages {

using segments::add_groups;
using segments::group_lanes;
using segments::load;
using segments::store;
using segments::Vector;
using segments::zero_vector;

constexpr unsigned NEIGHBOUR = 1, OWN = 2, EDGE = 4, RELU = 8;
enum Reduce : unsigned { SUM = 0, MEAN = 1, MAX = 2 };
constexpr unsigned NOBODY = 0xffffffffu;

struct Message {
    const float *neighbour, *own, *edge;
    unsigned parts, width;

    // z of columns W * column ... for an edge between `centre`, which collects, and `other`.
    template <int W>
    __device__ Vector<W> z(unsigned long long centre, unsigned long long other, unsigned long long e, unsigned column) const {
        Vector<W> sum = zero_vector<W>();
        const unsigned at = column * W;
        if (parts & NEIGHBOUR) segments::add_scaled<W>(sum, 1.0f, load<W>(neighbour + other * width + at));
        if (parts & OWN) segments::add_scaled<W>(sum, 1.0f, load<W>(own + centre * width + at));
        if (parts & EDGE) segments::add_scaled<W>(sum, 1.0f, load<W>(edge + e * width + at));
        return sum;
    }

    template <int W> __device__ void activate(Vector<W> &z) const {
        if (parts & RELU)
            for (int i = 0; i < W; ++i) z.at[i] = z.at[i] <= 0.0f ? 0.0f : z.at[i]; // NaN stays
    }
};

struct Lists {
    const unsigned long long *offsets;
    const unsigned *others, *edges;
};

// The warp's node, and how its lanes share the columns.
struct Team {
    unsigned long long node;
    unsigned lanes, group, n_groups, lane;

    __device__ explicit Team(unsigned n_vectors)
        : node((static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5),
          lanes(group_lanes(n_vectors)), group((threadIdx.x & 31) / lanes), n_groups(32 / lanes),
          lane((threadIdx.x & 31) % lanes) {}
};

template <int W>
__device__ void sum(const Lists &lists, const Message &message, unsigned mean, unsigned n_nodes, float *out) {
    const unsigned n_vectors = message.width / W;
    const Team team(n_vectors);
    if (team.node >= n_nodes) return;
    const unsigned long long first = lists.offsets[team.node], end = lists.offsets[team.node + 1];
    const float factor = mean && end > first ? 1.0f / static_cast<float>(end - first) : 1.0f;
    for (unsigned tile = 0; tile < n_vectors; tile += team.lanes) {
        const unsigned column = tile + team.lane;
        Vector<W> total = zero_vector<W>();
        if (column < n_vectors)
            for (unsigned long long i = first + team.group; i < end; i += team.n_groups) {
                Vector<W> z = message.z<W>(team.node, lists.others[i], lists.edges[i], column);
                message.activate<W>(z);
                segments::add_scaled<W>(total, 1.0f, z);
            }
        add_groups<W>(total, team.lanes);
        for (int k = 0; k < W; ++k) total.at[k] *= factor;
        if (team.group == 0 && column < n_vectors)
            store<W>(out + team.node * message.width + static_cast<unsigned long long>(column) * W, total);
    }
}

// Whether `value` from edge `e` beats `best` from `winner`: larger, or NaN, or equal and earlier; nobody loses to all.
__device__ inline bool beats(float value, unsigned e, float best, unsigned winner) {
    if (e == NOBODY || winner == NOBODY) return winner == NOBODY && e != NOBODY;
    const bool value_nan = value != value, best_nan = best != best;
    if (value_nan || best_nan) return value_nan && (!best_nan || e < winner);
    return value > best || (value == best && e < winner);
}

template <int W>
__device__ void maximum(const Lists &lists, const Message &message, unsigned n_nodes, float *out, unsigned *winners) {
    const unsigned n_vectors = message.width / W;
    const Team team(n_vectors);
    if (team.node >= n_nodes) return;
    const unsigned long long first = lists.offsets[team.node], end = lists.offsets[team.node + 1];
    for (unsigned tile = 0; tile < n_vectors; tile += team.lanes) {
        const unsigned column = tile + team.lane;
        Vector<W> best = zero_vector<W>();
        unsigned winner[W];
        for (int k = 0; k < W; ++k) winner[k] = NOBODY;
        if (column < n_vectors)
            for (unsigned long long i = first + team.group; i < end; i += team.n_groups) {
                const unsigned e = lists.edges[i];
                Vector<W> z = message.z<W>(team.node, lists.others[i], e, column);
                message.activate<W>(z);
                for (int k = 0; k < W; ++k)
                    if (beats(z.at[k], e, best.at[k], winner[k])) {
                        best.at[k] = z.at[k];
                        winner[k] = e;
                    }
            }
        for (unsigned step = team.lanes; step < 32; step <<= 1)
            for (int k = 0; k < W; ++k) {
                const float value = __shfl_xor_sync(0xffffffffu, best.at[k], step);
                const unsigned e = __shfl_xor_sync(0xffffffffu, winner[k], step);
                if (beats(value, e, best.at[k], winner[k])) {
                    best.at[k] = value;
                    winner[k] = e;
                }
            }
        if (team.group == 0 && column < n_vectors) {
            const unsigned long long at = team.node * message.width + static_cast<unsigned long long>(column) * W;
            store<W>(out + at, best);
            for (int k = 0; k < W; ++k) winners[at + k] = winner[k];
        }
    }
}

struct Upstream {
    const float *gradient;   // of the result, [n_nodes, width]
    const unsigned *winners; // of the maximum
    const unsigned long long *offsets; // of the lists that were reduced
    unsigned reduce;

    // The gradient by z of the edge e.
    template <int W>
    __device__ Vector<W> by_z(const Message &message, unsigned long long centre, unsigned long long other, unsigned e,
                              unsigned column) const {
        const unsigned long long at = centre * message.width + static_cast<unsigned long long>(column) * W;
        Vector<W> g = load<W>(gradient + at);
        if (reduce == MEAN) {
            const float factor = 1.0f / static_cast<float>(offsets[centre + 1] - offsets[centre]); // e is in the list
            for (int k = 0; k < W; ++k) g.at[k] *= factor;
        }
        if (reduce == MAX)
            for (int k = 0; k < W; ++k)
                if (winners[at + k] != e) g.at[k] = 0.0f;
        if (message.parts & RELU) {
            const Vector<W> z = message.z<W>(centre, other, e, column);
            for (int k = 0; k < W; ++k)
                if (z.at[k] <= 0.0f) g.at[k] = 0.0f;
        }
        return g;
    }
};

template <int W>
__device__ void node_gradient(const Lists &lists, const Message &message, const Upstream &upstream, unsigned of_own,
                              unsigned n_nodes, float *out) {
    const unsigned n_vectors = message.width / W;
    const Team team(n_vectors);
    if (team.node >= n_nodes) return;
    const unsigned long long first = lists.offsets[team.node], end = lists.offsets[team.node + 1];
    for (unsigned tile = 0; tile < n_vectors; tile += team.lanes) {
        const unsigned column = tile + team.lane;
        Vector<W> total = zero_vector<W>();
        if (column < n_vectors)
            for (unsigned long long i = first + team.group; i < end; i += team.n_groups) {
                const unsigned long long other = lists.others[i];
                const Vector<W> g = upstream.by_z<W>(message, of_own ? team.node : other, of_own ? other : team.node,
                                                     lists.edges[i], column);
                segments::add_scaled<W>(total, 1.0f, g);
            }
        add_groups<W>(total, team.lanes);
        if (team.group == 0 && column < n_vectors)
            store<W>(out + team.node * message.width + static_cast<unsigned long long>(column) * W, total);
    }
}

__device__ inline bool by_fours(unsigned width) { return width % 4 == 0; }

} // namespace messages

extern "C" __global__ void __launch_bounds__(256)
    message_sum_fwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ others,
                    const unsigned *__restrict__ edges, const float *__restrict__ neighbour,
                    const float *__restrict__ own, const float *__restrict__ edge, unsigned parts, unsigned mean,
                    unsigned n_nodes, unsigned width, float *__restrict__ out) {
    const messages::Lists lists{offsets, others, edges};
    const messages::Message message{neighbour, own, edge, parts, width};
    if (messages::by_fours(width))
        messages::sum<4>(lists, message, mean, n_nodes, out);
    else
        messages::sum<1>(lists, message, mean, n_nodes, out);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    message_max_fwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ others,
                    const unsigned *__restrict__ edges, const float *__restrict__ neighbour,
                    const float *__restrict__ own, const float *__restrict__ edge, unsigned parts, unsigned n_nodes,
                    unsigned width, float *__restrict__ out, unsigned *__restrict__ winners) {
    const messages::Lists lists{offsets, others, edges};
    const messages::Message message{neighbour, own, edge, parts, width};
    if (messages::by_fours(width))
        messages::maximum<4>(lists, message, n_nodes, out, winners);
    else
        messages::maximum<1>(lists, message, n_nodes, out, winners);
}

// `of_own` not 0: the lists are those that were reduced, and the gradient is by `own`; else the lists are those of the other
// direction, and the gradient is by `neighbour`. `reduced_offsets` belongs to the lists that were reduced.
extern "C" __global__ void __launch_bounds__(256)
    message_node_bwd(const unsigned long long *__restrict__ offsets, const unsigned *__restrict__ others,
                     const unsigned *__restrict__ edges, const unsigned long long *__restrict__ reduced_offsets,
                     const float *__restrict__ neighbour, const float *__restrict__ own, const float *__restrict__ edge,
                     unsigned parts, unsigned reduce, const unsigned *__restrict__ winners,
                     const float *__restrict__ gradient, unsigned of_own, unsigned n_nodes, unsigned width,
                     float *__restrict__ out) {
    const messages::Lists lists{offsets, others, edges};
    const messages::Message message{neighbour, own, edge, parts, width};
    const messages::Upstream upstream{gradient, winners, reduced_offsets, reduce};
    if (messages::by_fours(width))
        messages::node_gradient<4>(lists, message, upstream, of_own, n_nodes, out);
    else
        messages::node_gradient<1>(lists, message, upstream, of_own, n_nodes, out);
}

// One thread an element; centres [n_edges] are the nodes that reduced the edge, others [n_edges] its other ends.
extern "C" __global__ void __launch_bounds__(256)
    message_edge_bwd(const unsigned *__restrict__ centres, const unsigned *__restrict__ others,
                     const unsigned long long *__restrict__ reduced_offsets, const float *__restrict__ neighbour,
                     const float *__restrict__ own, const float *__restrict__ edge, unsigned parts, unsigned reduce,
                     const unsigned *__restrict__ winners, const float *__restrict__ gradient, unsigned n_edges,
                     unsigned width, unsigned accumulate, float *__restrict__ out) {
    const unsigned long long element = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (element >= static_cast<unsigned long long>(n_edges) * width) return;
    const unsigned e = static_cast<unsigned>(element / width), column = static_cast<unsigned>(element % width);
    const messages::Message message{neighbour, own, edge, parts, width};
    const messages::Upstream upstream{gradient, winners, reduced_offsets, reduce};
    const float g = upstream.by_z<1>(message, centres[e], others[e], e, column).at[0];
    out[element] = accumulate ? out[element] + g : g;
}

// out [n_edges, 2 * node_width + edge_width].
extern "C" __global__ void __launch_bounds__(256)
    edge_inputs_fwd(const unsigned *__restrict__ sources, const unsigned *__restrict__ targets,
                    const float *__restrict__ nodes, const float *__restrict__ edges, unsigned n_edges,
                    unsigned node_width, unsigned edge_width, float *__restrict__ out) {
    const unsigned long long element = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const unsigned width = 2 * node_width + edge_width;
    if (element >= static_cast<unsigned long long>(n_edges) * width) return;
    const unsigned long long e = element / width;
    const unsigned column = static_cast<unsigned>(element % width);
    if (column >= 2 * node_width)
        out[element] = edges[e * edge_width + column - 2 * node_width];
    else if (column >= node_width)
        out[element] = nodes[static_cast<unsigned long long>(targets[e]) * node_width + column - node_width];
    else
        out[element] = nodes[static_cast<unsigned long long>(sources[e]) * node_width + column];
}

// One thread an element of out [n_nodes, node_width]: first the edges that leave the node, then those that enter it.
extern "C" __global__ void __launch_bounds__(256)
    edge_inputs_bwd(const unsigned long long *__restrict__ out_offsets, const unsigned *__restrict__ out_edges,
                    const unsigned long long *__restrict__ in_offsets, const unsigned *__restrict__ in_edges,
                    const float *__restrict__ gradient, unsigned n_nodes, unsigned node_width, unsigned edge_width,
                    float *__restrict__ out) {
    const unsigned long long element = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (element >= static_cast<unsigned long long>(n_nodes) * node_width) return;
    const unsigned long long node = element / node_width, width = 2ull * node_width + edge_width;
    const unsigned column = static_cast<unsigned>(element % node_width);
    float sum = 0.0f;
    for (unsigned long long i = out_offsets[node]; i < out_offsets[node + 1]; ++i)
        sum += gradient[out_edges[i] * width + column];
    for (unsigned long long i = in_offsets[node]; i < in_offsets[node + 1]; ++i)
        sum += gradient[in_edges[i] * width + node_width + column];
    out[element] = sum;
}
