//! Properties of the whole crate, and graphs whose optimum is known.

mod exact;
mod known;
mod reductions;
mod search;

use proptest::prelude::*;
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

/// Any simple graph of up to so many nodes.
pub(crate) fn small_graph(max_nodes: u32) -> impl Strategy<Value = Graph> {
    (0..=max_nodes, 0.0..1.0f64, any::<u64>()).prop_map(|(n, p, seed)| random_graph(n, p, seed))
}

/// Each pair is joined with probability `p`.
pub(crate) fn random_graph(n_nodes: u32, p: f64, seed: u64) -> Graph {
    let mut random = KeyedRng::new(seed, "test-graph", 0);
    let mut edges = Vec::new();
    for u in 0..n_nodes {
        edges.extend((0..u).filter(|_| random.chance(p)).map(|v| (v, u)));
    }
    Graph::from_edges(n_nodes, &edges).unwrap()
}

/// Graphs of every shape that is a border of something.
pub(crate) fn odd_graphs() -> Vec<(&'static str, Graph)> {
    let graph = |n, edges: &[(u32, u32)]| Graph::from_edges(n, edges).unwrap();
    let star: Vec<(u32, u32)> = (1..9).map(|v| (0, v)).collect();
    let path: Vec<(u32, u32)> = (1..9).map(|v| (v - 1, v)).collect();
    let complete: Vec<(u32, u32)> = (0..9).flat_map(|u| (0..u).map(move |v| (v, u))).collect();
    let two_parts: Vec<(u32, u32)> = (0..4).flat_map(|u| (4..9).map(move |v| (u, v))).collect();
    vec![
        ("empty", Graph::default()),
        ("one node", graph(1, &[])),
        ("no edge", graph(9, &[])),
        ("one edge", graph(2, &[(0, 1)])),
        ("star", graph(9, &star)),
        ("path", graph(9, &path)),
        ("complete", graph(9, &complete)),
        ("complete, two parts", graph(9, &two_parts)),
        (
            "two triangles",
            graph(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]),
        ),
    ]
}
