//! A whole graph in the form that is smaller, and the one function that says which form that is.

use std::sync::Arc;

use shardgraph_graph::{EdgeSink, Graph, GraphBuilder};

use crate::bits::{BitShard, first_common};
use crate::error::Error;

/// Storage of a whole graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Sorted neighbour lists: 4 B per entry + 8 B per row.
    Csr,
    /// A bit matrix: N/8 B per row.
    Bits,
}

/// The form that takes fewer bytes: bits when edges have no weights and a bit row (N/8 B) is smaller than a mean list row
/// (4 B * 2 m / N), that is when the density 2 m / N^2 is above 1/32; lists otherwise.
///
/// `n_edges` is the number of undirected edges, counted or expected.
///
/// ```
/// use shardgraph_shard::{Storage, choose_storage};
/// assert_eq!(choose_storage(21_000, 33.1e6, false), Storage::Bits); // density 0.15
/// assert_eq!(choose_storage(8_069, 427_832.0, false), Storage::Csr); // density 0.013
/// assert_eq!(choose_storage(21_000, 33.1e6, true), Storage::Csr);
/// ```
pub fn choose_storage(n_nodes: u32, n_edges: f64, weighted: bool) -> Storage {
    let n = f64::from(n_nodes);
    let (bit_row_bytes_n, list_row_bytes_n) = (n * n / 8.0, 8.0 * n_edges);
    if !weighted && bit_row_bytes_n < list_row_bytes_n {
        Storage::Bits
    } else {
        Storage::Csr
    }
}

/// A whole undirected simple graph, as lists or as a bit matrix.
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_shard::{Adjacency, Storage};
///
/// let triangle = Adjacency::from_graph(Graph::from_edges(3, &[(0, 1), (1, 2), (2, 0)])?);
/// assert_eq!(triangle.storage(), Storage::Bits);
/// assert_eq!((triangle.n_nodes(), triangle.n_edges(), triangle.degree(1)), (3, 3, 2));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Adjacency {
    /// Neighbour lists, with weights when the graph has them.
    Csr(Arc<Graph>),
    /// All columns of the bit matrix.
    Bits(BitShard),
}

impl Adjacency {
    /// Stores `graph` in the form that [`choose_storage`] names.
    pub fn from_graph(graph: Graph) -> Adjacency {
        let weighted = graph.weights().is_some();
        match choose_storage(graph.n_nodes(), graph.n_edges() as f64, weighted) {
            Storage::Csr => Adjacency::Csr(graph.into()),
            Storage::Bits => Adjacency::Bits(BitShard::from_graph(&graph, 0..graph.n_nodes())),
        }
    }

    /// The graph as lists, whatever the form.
    ///
    /// # Errors
    /// When the graph crate refuses the edges of a bit matrix, which no bit matrix of this crate holds.
    ///
    /// # Complexity
    /// From bits: 8 B per edge beside the finished lists while it runs.
    pub fn into_graph(self) -> Result<Graph, Error> {
        match self {
            Adjacency::Csr(graph) => Ok(Arc::unwrap_or_clone(graph)),
            Adjacency::Bits(bits) => bits_to_graph(&bits, bits.n_rows(), false),
        }
    }

    /// As [`Adjacency::into_graph`], with this graph kept; lists are shared.
    ///
    /// # Errors
    /// As [`Adjacency::into_graph`].
    pub fn to_lists(&self) -> Result<Arc<Graph>, Error> {
        match self {
            Adjacency::Csr(graph) => Ok(Arc::clone(graph)),
            Adjacency::Bits(bits) => Ok(bits_to_graph(bits, bits.n_rows(), false)?.into()),
        }
    }

    /// The graph, where its edges have weights.
    pub fn weighted(&self) -> Option<&Graph> {
        match self {
            Adjacency::Csr(graph) if graph.weights().is_some() => Some(graph),
            _ => None,
        }
    }

    /// Storage of this graph.
    pub fn storage(&self) -> Storage {
        match self {
            Adjacency::Csr(_) => Storage::Csr,
            Adjacency::Bits(_) => Storage::Bits,
        }
    }

    /// The number of nodes.
    pub fn n_nodes(&self) -> u32 {
        match self {
            Adjacency::Csr(graph) => graph.n_nodes(),
            Adjacency::Bits(bits) => bits.n_rows(),
        }
    }

    /// The number of undirected edges.
    pub fn n_edges(&self) -> u64 {
        match self {
            Adjacency::Csr(graph) => graph.n_edges(),
            Adjacency::Bits(bits) => bits.n_entries() / 2,
        }
    }

    /// The number of neighbours of `v`.
    ///
    /// # Panics
    /// When `v` is not below [`Adjacency::n_nodes`].
    ///
    /// # Complexity
    /// O(1) on lists, N/64 popcounts on bits.
    pub fn degree(&self, v: u32) -> u32 {
        match self {
            Adjacency::Csr(graph) => graph.degree(v),
            Adjacency::Bits(bits) => bits.row_count(v),
        }
    }

    /// The degree of every node.
    pub fn degrees(&self) -> Vec<u32> {
        (0..self.n_nodes()).map(|v| self.degree(v)).collect()
    }

    /// True if `u` and `v` are joined.
    ///
    /// # Panics
    /// When `u` or `v` is not below [`Adjacency::n_nodes`].
    pub fn has_edge(&self, u: u32, v: u32) -> bool {
        match self {
            Adjacency::Csr(graph) => graph.has_edge(u, v),
            Adjacency::Bits(bits) => bits.contains(u, v),
        }
    }

    /// Calls `visit` with each neighbour of `v`, ascending.
    ///
    /// # Panics
    /// When `v` is not below [`Adjacency::n_nodes`].
    pub fn for_each_neighbor(&self, v: u32, visit: &mut dyn FnMut(u32)) {
        match self {
            Adjacency::Csr(graph) => graph.neighbors(v).iter().for_each(|&u| visit(u)),
            Adjacency::Bits(bits) => bits.for_each_in_row(v, visit),
        }
    }

    /// The bytes of the stored arrays.
    pub fn bytes(&self) -> u64 {
        match self {
            Adjacency::Csr(graph) => {
                let per_entry = if graph.weights().is_some() { 8 } else { 4 };
                8 * graph.offsets().len() as u64 + per_entry * graph.n_entries()
            }
            Adjacency::Bits(bits) => bits.bytes(),
        }
    }

    /// Some edge that a cover misses, the smallest first end and then the smallest second; `None` when it covers all edges.
    ///
    /// # Panics
    /// When `in_cover` does not have one element per node.
    pub fn uncovered_edge(&self, in_cover: &[bool]) -> Option<(u32, u32)> {
        match self {
            Adjacency::Csr(graph) => graph.uncovered_edge(in_cover),
            Adjacency::Bits(bits) => {
                assert_eq!(in_cover.len(), self.n_nodes() as usize, "one flag per node");
                bits.edge_within(&bit_set(in_cover.iter().map(|covered| !covered)))
            }
        }
    }

    /// The size of a maximal matching: every cover has at least one node of each of its edges, so it bounds every cover from
    /// below.
    ///
    /// # Determinism
    /// Each node in turn takes its first free neighbour; the same count for both forms.
    ///
    /// # Complexity
    /// O(n + m) on lists, N^2/64 words on bits.
    pub fn maximal_matching(&self) -> u64 {
        match self {
            Adjacency::Csr(graph) => graph.maximal_matching(),
            Adjacency::Bits(bits) => matching_in_bits(bits),
        }
    }
}

/// Flags as a bit set: flag i is bit `i % 64` of word `i / 64`.
fn bit_set(flags: impl ExactSizeIterator<Item = bool>) -> Vec<u64> {
    let mut words = vec![0; flags.len().div_ceil(64)];
    for (idx, flag) in flags.enumerate() {
        words[idx / 64] |= u64::from(flag) << (idx % 64);
    }
    words
}

/// The upper triangle as a graph of `n_nodes` nodes; with `weighted` every weight is 1.
pub(crate) fn bits_to_graph(bits: &BitShard, n_nodes: u32, weighted: bool) -> Result<Graph, Error> {
    let mut builder = GraphBuilder::with_capacity((bits.n_entries() / 2) as usize);
    for u in 0..bits.n_rows() {
        let mut taken = Ok(());
        bits.for_each_in_row(u, &mut |v| {
            if u < v && taken.is_ok() {
                taken = builder.edge(u, v, 1.0);
            }
        });
        taken?;
    }
    Ok(builder.finish(n_nodes, weighted)?.0)
}

fn matching_in_bits(bits: &BitShard) -> u64 {
    let mut free = bit_set((0..bits.n_rows() as usize).map(|_| true));
    let mut size = 0;
    for u in 0..bits.n_rows() {
        if free[u as usize / 64] >> (u % 64) & 1 == 0 {
            continue;
        }
        if let Some(v) = first_common(bits.row(u), &free) {
            free[u as usize / 64] &= !(1 << (u % 64));
            free[v as usize / 64] &= !(1 << (v % 64));
            size += 1;
        }
    }
    size
}
