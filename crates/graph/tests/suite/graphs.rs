//! Graphs and their builder against an adjacency set that is plainly right.

use proptest::prelude::*;
use shardgraph_graph::{EdgeSink, ErrorKind, Graph, GraphBuilder, MAX_NODES};
use std::collections::BTreeMap;

/// The naive graph: every pair once, as (smaller, larger), with the weight listed first.
fn naive(edges: &[(u32, u32, f32)]) -> BTreeMap<(u32, u32), f32> {
    let mut pairs = BTreeMap::new();
    for &(u, v, weight) in edges.iter().filter(|(u, v, _)| u != v) {
        pairs.entry((u.min(v), u.max(v))).or_insert(weight);
    }
    pairs
}

/// Sizes around the machine's words and blocks, and edge lists full of repeats and self-loops.
pub(crate) fn edge_lists() -> impl Strategy<Value = (u32, Vec<(u32, u32, f32)>)> {
    let sizes = prop::sample::select(vec![1u32, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 257]);
    sizes.prop_flat_map(|n| {
        let edge = (0..n, 0..n, 1u8..4).prop_map(|(u, v, w)| (u, v, f32::from(w)));
        (Just(n), prop::collection::vec(edge, 0..200))
    })
}

fn unweighted(edges: &[(u32, u32, f32)]) -> Vec<(u32, u32)> {
    edges.iter().map(|&(u, v, _)| (u, v)).collect()
}

proptest! {
    #[test]
    fn from_edges_is_the_set_of_pairs((n, edges) in edge_lists()) {
        let graph = Graph::from_edges(n, &unweighted(&edges)).unwrap();
        let pairs: Vec<_> = naive(&edges).into_keys().collect();
        prop_assert_eq!(graph.edges().collect::<Vec<_>>(), pairs.clone());
        prop_assert_eq!(graph.n_nodes(), n);
        prop_assert_eq!(graph.n_edges(), pairs.len() as u64);
        prop_assert_eq!(graph.offsets().len(), n as usize + 1);
        prop_assert_eq!(graph.columns().len() as u64, graph.n_entries());
        prop_assert!(graph.weights().is_none());
        let possible = f64::from(n) * (f64::from(n) - 1.0) / 2.0;
        let density = if n < 2 { 0.0 } else { pairs.len() as f64 / possible };
        prop_assert!((graph.density() - density).abs() < 1e-12);
    }

    #[test]
    fn rows_are_ascending_symmetric_and_found((n, edges) in edge_lists()) {
        let graph = Graph::from_edges(n, &unweighted(&edges)).unwrap();
        let pairs = naive(&edges);
        for u in 0..n {
            prop_assert!(graph.neighbors(u).windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(graph.degree(u) as usize, graph.neighbors(u).len());
            for v in 0..n {
                prop_assert_eq!(graph.has_edge(u, v), pairs.contains_key(&(u.min(v), u.max(v))));
            }
        }
    }

    #[test]
    fn the_first_weight_is_kept((n, edges) in edge_lists()) {
        let graph = Graph::from_weighted_edges(n, &edges).unwrap();
        let expected: Vec<_> = naive(&edges).into_iter().map(|((u, v), w)| (u, v, w)).collect();
        prop_assert_eq!(graph.weighted_edges().collect::<Vec<_>>(), expected);
        for u in 0..n {
            for (&v, &weight) in graph.neighbors(u).iter().zip(graph.weights_of(u).unwrap()) {
                let back = graph.neighbors(v).binary_search(&u).unwrap();
                prop_assert_eq!(weight.to_bits(), graph.weights_of(v).unwrap()[back].to_bits());
            }
        }
    }

    #[test]
    fn duplicates_and_conflicts_are_counted((n, edges) in edge_lists()) {
        let mut builder = GraphBuilder::new();
        let mut first = BTreeMap::new();
        let (mut n_listed, mut n_conflicts) = (0, 0);
        for &(u, v, weight) in edges.iter().filter(|(u, v, _)| u != v) {
            builder.edge(u, v, weight).unwrap();
            n_listed += 1;
            let kept: &mut f32 = first.entry((u.min(v), u.max(v))).or_insert(weight);
            n_conflicts += u64::from(kept.to_bits() != weight.to_bits());
        }
        let built = builder.clone().finish_counted(n, true).unwrap();
        prop_assert_eq!(built.duplicates_merged, n_listed - first.len() as u64);
        prop_assert_eq!(built.weight_conflicts, n_conflicts);
        let (graph, n_merged) = builder.finish(n, false).unwrap();
        prop_assert_eq!(n_merged, built.duplicates_merged);
        prop_assert_eq!(graph, Graph::from_edges(n, &unweighted(&edges)).unwrap());
    }

    #[test]
    fn the_order_of_edges_does_not_matter((n, edges) in edge_lists()) {
        let mut edges = unweighted(&edges);
        let graph = Graph::from_edges(n, &edges).unwrap();
        edges.reverse();
        let turned: Vec<_> = edges.iter().map(|&(u, v)| (v, u)).collect();
        prop_assert_eq!(Graph::from_edges(n, &turned).unwrap(), graph);
    }

    #[test]
    fn complement_has_exactly_the_other_pairs((n, edges) in edge_lists()) {
        let graph = Graph::from_edges(n, &unweighted(&edges)).unwrap();
        let complement = graph.complement().unwrap();
        for u in 0..n {
            for v in 0..n {
                prop_assert_eq!(complement.has_edge(u, v), u != v && !graph.has_edge(u, v));
            }
        }
        prop_assert_eq!(complement.complement().unwrap(), graph);
    }
}

#[test]
fn graphs_without_edges_or_nodes() {
    assert_eq!(Graph::default(), Graph::from_edges(0, &[]).unwrap());
    let empty = Graph::default();
    assert_eq!(
        (empty.n_nodes(), empty.n_edges(), empty.max_degree()),
        (0, 0, 0)
    );
    assert_eq!(empty.edges().count(), 0);
    assert_eq!(empty.complement().unwrap(), empty);
    let lonely = Graph::from_edges(3, &[(1, 1)]).unwrap();
    assert_eq!((lonely.n_nodes(), lonely.n_edges()), (3, 0));
    assert_eq!(lonely.complement().unwrap().n_edges(), 3);
}

#[test]
fn ids_and_weights_out_of_range_are_refused() {
    let error = Graph::from_edges(3, &[(0, 3)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert!(
        error
            .to_string()
            .contains("node 3, but the graph has 3 nodes"),
        "{error}"
    );
    let error = GraphBuilder::new().finish(u32::MAX, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(
        error.to_string().contains(&MAX_NODES.to_string()),
        "{error}"
    );
    for weight in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = Graph::from_weighted_edges(2, &[(0, 1, weight)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
    }
}
