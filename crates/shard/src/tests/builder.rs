//! The builder makes the graph that the list builder makes, in the chosen form, whatever order and form the edges pass through.

use proptest::prelude::*;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{EdgeSink, Graph};

use super::{graph_of, listed_edges};
use crate::{Adjacency, AdjacencyBuilder, Error, Storage, choose_storage};

fn feed(builder: &mut AdjacencyBuilder, edges: &[(u32, u32)]) {
    for &(u, v) in edges {
        builder.edge(u, v, 1.0).unwrap();
        // The promise of the type's docs, at every edge, beyond a first piece of pairs.
        let limit = 16 * builder.n_listed() + (1 << 20);
        assert!(builder.bytes() <= limit, "{} bytes", builder.bytes());
    }
}

/// Builds the same edges as given, and checks graph, form and count.
fn check(n: u32, edges: &[(u32, u32)]) -> Adjacency {
    let expected = Graph::from_edges(n, edges).unwrap();
    let mut builder = AdjacencyBuilder::new();
    feed(&mut builder, edges);
    let (adjacency, n_merged) = builder.finish(n, false).unwrap();
    assert_eq!(n_merged, edges.len() as u64 - expected.n_edges());
    let storage = choose_storage(n, expected.n_edges() as f64, false);
    assert_eq!(adjacency.storage(), storage);
    assert!(adjacency.clone().into_graph().unwrap() == expected);
    adjacency
}

fn clique(nodes: std::ops::Range<u32>) -> Vec<(u32, u32)> {
    let start = nodes.start;
    nodes
        .flat_map(|v| (start..v).map(move |u| (u, v)))
        .collect()
}

proptest! {
    #[test]
    fn the_graph_is_that_of_the_list_builder((n, edges) in listed_edges(), n_more in 0..70u32) {
        check(n, &edges);
        check(n + n_more, &edges);
    }

    #[test]
    fn weights_are_kept_in_lists((n, edges) in listed_edges()) {
        let mut builder = AdjacencyBuilder::new();
        for (i, &(u, v)) in edges.iter().enumerate() {
            builder.edge(u, v, i as f32 + 1.5).unwrap();
        }
        let (adjacency, n_merged) = builder.finish(n, true).unwrap();
        let expected = graph_of(n, &edges, true);
        prop_assert_eq!(n_merged, edges.len() as u64 - expected.n_edges());
        prop_assert_eq!(adjacency.storage(), Storage::Csr);
        prop_assert_eq!(adjacency.into_graph().unwrap(), expected);
    }
}

#[test]
fn a_clique_in_order_of_first_sight_grows_as_bits() {
    let edges = clique(0..400);
    let mut builder = AdjacencyBuilder::new();
    feed(&mut builder, &edges);
    assert_eq!(builder.storage(), Storage::Bits);
    assert_eq!(check(400, &edges).storage(), Storage::Bits);
    let backwards: Vec<_> = edges.iter().rev().map(|&(u, v)| (v, u)).collect();
    check(400, &backwards);
}

#[test]
fn a_dense_start_and_a_long_tail_go_back_to_lists() {
    let mut edges = clique(0..300);
    edges.extend((300..40_000).map(|v| (v - 1, v)));
    let mut builder = AdjacencyBuilder::new();
    feed(&mut builder, &edges);
    assert_eq!(builder.storage(), Storage::Csr);
    assert_eq!(check(40_000, &edges).storage(), Storage::Csr);
}

#[test]
fn a_node_count_far_beyond_the_edges_takes_no_matrix() {
    // 1e12 bits, if the count were believed before the edges.
    let (adjacency, _) = {
        let mut builder = AdjacencyBuilder::new();
        feed(&mut builder, &clique(0..300));
        assert_eq!(builder.storage(), Storage::Bits);
        builder.finish(1_000_000, false).unwrap()
    };
    assert_eq!(
        (adjacency.storage(), adjacency.n_edges()),
        (Storage::Csr, 300 * 299 / 2)
    );
}

#[test]
fn many_repeats_of_few_edges_end_in_lists() {
    let edges: Vec<_> = (0..60_000).map(|i| (i % 700, (i + 1) % 700)).collect();
    check(700, &edges);
}

#[test]
fn a_weight_after_the_move_to_bits_brings_the_lists_back() {
    let edges = clique(0..200);
    let mut builder = AdjacencyBuilder::new();
    feed(&mut builder, &edges);
    assert_eq!(builder.storage(), Storage::Bits);
    builder.edge(199, 200, 2.5).unwrap();
    builder.edge(200, 0, 0.5).unwrap();
    builder.edge(1, 0, 7.0).unwrap(); // a repeat: the first weight counts
    let mut weighted: Vec<_> = edges.iter().map(|&(u, v)| (u, v, 1.0)).collect();
    weighted.extend([(199, 200, 2.5), (200, 0, 0.5)]);
    let (adjacency, n_merged) = builder.finish(201, true).unwrap();
    assert_eq!(n_merged, 1);
    assert_eq!(
        adjacency.into_graph().unwrap(),
        Graph::from_weighted_edges(201, &weighted).unwrap()
    );
}

#[test]
fn weights_of_one_are_still_weights() {
    let edges = clique(0..200);
    let mut builder = AdjacencyBuilder::new();
    feed(&mut builder, &edges);
    let graph = builder.finish(200, true).unwrap().0.into_graph().unwrap();
    assert_eq!(graph.weights().map(<[f32]>::len), Some(200 * 199));
}

#[test]
fn a_generator_starts_in_its_final_form() {
    for (spec, storage) in [("er:300:0.2", Storage::Bits), ("er:300:0.01", Storage::Csr)] {
        let spec: GeneratorSpec = spec.parse().unwrap();
        let mut builder = AdjacencyBuilder::for_generator(&spec);
        assert_eq!(builder.storage(), storage);
        let bytes_before = builder.bytes();
        spec.stream(7, &mut builder).unwrap();
        if storage == Storage::Bits {
            assert_eq!(builder.bytes(), bytes_before);
        }
        let (adjacency, _) = builder.finish(spec.n_nodes(), false).unwrap();
        assert_eq!(adjacency.storage(), storage);
        assert_eq!(adjacency.into_graph().unwrap(), spec.graph(7).unwrap());
    }
}

#[test]
fn a_node_beyond_the_count_is_named() {
    for (last, n_nodes) in [(7, 99), (900, 900), (900, 50)] {
        let mut builder = AdjacencyBuilder::new();
        feed(&mut builder, &clique(0..100));
        builder.edge(3, last, 1.0).unwrap();
        let error = builder.finish(n_nodes, false).unwrap_err();
        let node = last.max(99);
        assert!(
            matches!(error, Error::NodeOutOfRange { node: seen, n_nodes: n } if (seen, n) == (node, n_nodes)),
            "{error}"
        );
    }
}

#[test]
fn a_weight_that_is_no_number_is_refused() {
    let mut builder = AdjacencyBuilder::new();
    let error = builder.edge(0, 1, f32::NAN).unwrap_err();
    assert!(
        error.to_string().contains("edge (0, 1) has weight NaN"),
        "{error}"
    );
    assert_eq!(builder.finish(2, false).unwrap().0.n_edges(), 0);
}
