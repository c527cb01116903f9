//! Graphs for the tests of all problems.

use std::path::Path;

use shardgraph_graph::{Graph, ReadOptions, read_graph};

pub(crate) use crate::vertex_cover::tests::{odd_graphs, random_graph, small_graph};

/// Every two nodes are joined.
pub(crate) fn complete(n_nodes: u32) -> Graph {
    random_graph(n_nodes, 2.0, 1)
}

/// A ring of nodes.
pub(crate) fn cycle(n_nodes: u32) -> Graph {
    let edges: Vec<(u32, u32)> = (0..n_nodes).map(|v| (v, (v + 1) % n_nodes)).collect();
    Graph::from_edges(n_nodes, &edges).unwrap()
}

/// Node 0 with so many leaves.
pub(crate) fn star(n_leaves: u32) -> Graph {
    let edges: Vec<(u32, u32)> = (1..=n_leaves).map(|leaf| (0, leaf)).collect();
    Graph::from_edges(n_leaves + 1, &edges).unwrap()
}

/// So many complete graphs of `size` nodes, side by side.
pub(crate) fn many_complete(count: u32, size: u32) -> Graph {
    let one = |i: u32| {
        let pair = move |u: u32| (0..u).map(move |v| (i * size + v, i * size + u));
        (0..size).flat_map(pair)
    };
    let edges: Vec<(u32, u32)> = (0..count).flat_map(one).collect();
    Graph::from_edges(count * size, &edges).unwrap()
}

/// A graph of `shared/data` beside the checkout, or a printed skip.
pub(crate) fn real_graph(file: &str) -> Option<Graph> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphs");
    let path = folder.join(file);
    if !path.is_file() {
        println!("skip: {} is absent", path.display());
        return None;
    }
    Some(read_graph(&path, &ReadOptions::default()).unwrap().graph)
}
