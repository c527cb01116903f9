//! What the algorithms are compared with: every subset is tried.

use shardgraph_graph::Graph;

/// The weight of a heaviest independent set.
pub(super) fn set_weight(graph: &Graph, weights: &[u32]) -> u64 {
    let n = graph.n_nodes();
    assert!(n < 32);
    let edges: Vec<(u32, u32)> = graph.edges().collect();
    let is_set = |set: &u32| edges.iter().all(|&(u, v)| set >> u & set >> v & 1 == 0);
    let weight = |set: u32| -> u64 {
        let chosen = (0..n).filter(|v| set >> v & 1 == 1);
        chosen.map(|v| u64::from(weights[v as usize])).sum()
    };
    (0..1u32 << n).filter(is_set).map(weight).max().unwrap_or(0)
}
