//! Adamic and Adar's score by its definition, for tests.

use shardgraph_graph::Graph;

pub(super) fn adamic_adar(graph: &Graph, u: u32, v: u32) -> f64 {
    let common = (0..graph.n_nodes()).filter(|&w| graph.has_edge(u, w) && graph.has_edge(v, w));
    common.map(|w| 1.0 / f64::from(graph.degree(w)).ln()).sum()
}

pub(super) fn common_neighbors(graph: &Graph, u: u32, v: u32) -> u32 {
    let common = (0..graph.n_nodes()).filter(|&w| graph.has_edge(u, w) && graph.has_edge(v, w));
    common.count() as u32
}
