//! The crate's tests, one file per part, and the random graphs that they share.

mod adjacency;
mod bits;
mod block;
mod builder;
mod csr;
mod partition;
mod transpose;

use proptest::prelude::*;
use shardgraph_graph::Graph;

/// Node counts around the edges of words, blocks and pages of words.
pub(crate) const SIZES: [u32; 14] = [0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 129, 255, 256, 257];

/// A node count and edges over it: repeats and both orientations, no self-loops.
pub(crate) fn listed_edges() -> impl Strategy<Value = (u32, Vec<(u32, u32)>)> {
    (prop::sample::select(SIZES.to_vec()), 0..4usize).prop_flat_map(|(n, density)| {
        let n_most = [0, 40, 400, 8_000][density];
        let pair = (0..n.max(1), 0..n.max(1));
        let pairs = prop::collection::vec(pair, 0..=n_most);
        pairs.prop_map(move |pairs| (n, pairs.into_iter().filter(|(u, v)| u != v).collect()))
    })
}

/// The graph of the listed edges, with weights 1.5, 2.5, ... by position when asked.
pub(crate) fn graph_of(n: u32, edges: &[(u32, u32)], weighted: bool) -> Graph {
    if !weighted {
        return Graph::from_edges(n, edges).unwrap();
    }
    let weighted: Vec<_> = (0..)
        .zip(edges)
        .map(|(i, e)| (e.0, e.1, i as f32 + 1.5))
        .collect();
    Graph::from_weighted_edges(n, &weighted).unwrap()
}
