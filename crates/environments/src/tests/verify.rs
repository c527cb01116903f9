//! The verifiers find what a plain look at all edges finds, and the matching bound holds.

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::graphs;
use crate::{naive, verify};

proptest! {
    #[test]
    fn the_first_bad_edge_is_found(graph in graphs(&[0, 1, 2, 31, 32, 33, 65]), seed: u64) {
        let marks: Vec<bool> = (0..graph.n_nodes()).map(|v| seed.rotate_left(v) % 4 != 0).collect();
        let first = |wanted: bool| {
            let mut edges: Vec<_> = graph.edges().collect();
            edges.retain(|&(u, v)| marks[u as usize] == wanted && marks[v as usize] == wanted);
            edges.into_iter().min()
        };
        prop_assert_eq!(verify::uncovered_edge(&graph, &marks), first(false));
        prop_assert_eq!(verify::joined_pair(&graph, &marks), first(true));
    }

    #[test]
    fn pairs_cuts_and_domination_are_those_of_a_plain_look(graph in graphs(&[0, 1, 2, 5, 9, 12]), seed: u64) {
        for period in [1, 2, 4] {
            let marks: Vec<bool> = (0..graph.n_nodes()).map(|v| seed.rotate_left(v) % period != 0).collect();
            prop_assert_eq!(verify::unjoined_pair(&graph, &marks).is_none(), naive::is_clique(&graph, &marks));
            prop_assert_eq!(verify::joined_pair(&graph, &marks).is_none(), naive::is_independent(&graph, &marks));
            prop_assert_eq!(verify::undominated_node(&graph, &marks).is_none(), naive::is_dominating(&graph, &marks));
            prop_assert_eq!(verify::cut_weight(&graph, &marks), naive::cut(&graph, &marks));
        }
    }

    #[test]
    fn every_set_of_a_small_graph_is_judged_right(graph in graphs(&[0, 1, 2, 5])) {
        for set in 0..1u32 << graph.n_nodes() {
            let marks: Vec<bool> = (0..graph.n_nodes()).map(|v| set >> v & 1 == 1).collect();
            prop_assert_eq!(verify::unjoined_pair(&graph, &marks).is_none(), naive::is_clique(&graph, &marks));
            prop_assert_eq!(verify::undominated_node(&graph, &marks).is_none(), naive::is_dominating(&graph, &marks));
        }
    }

    #[test]
    fn the_matching_bounds_the_smallest_cover(graph in graphs(&[0, 1, 2, 5, 9, 12])) {
        let (bound, smallest) = (graph.maximal_matching(), u64::from(naive::smallest_cover(&graph)));
        prop_assert!(bound <= smallest && smallest <= 2 * bound, "{} and {}", bound, smallest);
    }
}

#[test]
fn matchings_of_known_graphs() {
    let cycle = |n: u32| (0..n).map(move |v| (v, (v + 1) % n)).collect::<Vec<_>>();
    for n in [3, 4, 5, 64, 65] {
        let graph = Graph::from_edges(n, &cycle(n)).unwrap();
        assert_eq!(graph.maximal_matching(), u64::from(n / 2), "cycle of {n}");
    }
    let star: Vec<_> = (1..50).map(|v| (0, v)).collect();
    assert_eq!(Graph::from_edges(50, &star).unwrap().maximal_matching(), 1);
}

#[test]
#[should_panic(expected = "one flag per node")]
fn a_cover_of_another_graph_is_refused() {
    let graph = Graph::from_edges(3, &[(0, 1)]).unwrap();
    verify::uncovered_edge(&graph, &[true]);
}
