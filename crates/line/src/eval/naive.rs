//! The measures as their definitions say, for tests.

use shardgraph_graph::Graph;

/// All comparisons, one by one.
pub(super) fn auc(edges: &[f64], others: &[f64]) -> f64 {
    let mut wins = 0.0;
    for edge in edges {
        for other in others {
            if edge > other {
                wins += 1.0;
            } else if edge >= other {
                wins += 0.5;
            }
        }
    }
    wins / (edges.len() * others.len()) as f64
}

pub(super) fn adamic_adar(graph: &Graph, u: u32, v: u32) -> f64 {
    let common = (0..graph.n_nodes()).filter(|&w| graph.has_edge(u, w) && graph.has_edge(v, w));
    common.map(|w| 1.0 / f64::from(graph.degree(w)).ln()).sum()
}
