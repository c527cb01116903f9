//! Local search: covers, never worse, the same bytes, ends when told to.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{odd_graphs, random_graph, small_graph};
use crate::vertex_cover::{
    Budget, Rules, SearchOptions, check_cover, edge_greedy, improve, naive, reduce_and_peel,
};

fn options(seed: u64, steps: u64, compared: u32) -> SearchOptions {
    SearchOptions {
        seed,
        steps,
        compared,
        ..SearchOptions::default()
    }
}

proptest! {
    #[test]
    fn small_graphs_reach_their_optimum(graph in small_graph(14), compared in 1..200u32) {
        let everything: Vec<u32> = (0..graph.n_nodes()).collect();
        let found = improve(&graph, &everything, &options(1, 2000, compared), &Budget::unlimited()).unwrap();
        check_cover(&graph, &found.cover).unwrap();
        prop_assert_eq!(found.cover.len(), naive::cover_size(&graph));
    }

    #[test]
    fn covers_get_no_larger(n in 0..200u32, degree in 0.0..20.0f64, seed in any::<u64>(), steps in 0..500u64, compared in 1..200u32) {
        let graph = random_graph(n, degree / f64::from(n.max(1)), seed);
        let start = edge_greedy(&graph);
        check_cover(&graph, &start).unwrap();
        let peeled = reduce_and_peel(&graph, &Rules::all(), &Budget::unlimited());
        check_cover(&graph, &peeled).unwrap();
        let found = improve(&graph, &start, &options(seed, steps, compared), &Budget::unlimited()).unwrap();
        check_cover(&graph, &found.cover).unwrap();
        prop_assert!(found.cover.len() <= start.len() && found.cover.is_sorted());
        prop_assert!(found.best_step <= found.steps && found.steps <= steps);
        let again = improve(&graph, &start, &options(seed, steps, compared), &Budget::unlimited()).unwrap();
        prop_assert_eq!(again, found);
    }
}

#[test]
fn odd_shapes() {
    for (name, graph) in odd_graphs() {
        for compared in [16_384, 1, 50] {
            let start: Vec<u32> = (0..graph.n_nodes()).rev().collect();
            let found = improve(
                &graph,
                &start,
                &options(1, 1000, compared),
                &Budget::unlimited(),
            )
            .unwrap();
            assert_eq!(
                found.cover.len(),
                naive::cover_size(&graph),
                "{name}, {compared}"
            );
        }
    }
}

#[test]
fn more_steps_are_the_same_search_going_on() {
    let graph = random_graph(150, 0.1, 7);
    let start = edge_greedy(&graph);
    let mut last = start.len();
    for steps in [0, 10, 100, 1000, 10_000] {
        let found = improve(
            &graph,
            &start,
            &options(1, steps, 16_384),
            &Budget::unlimited(),
        )
        .unwrap();
        assert!(found.cover.len() <= last && found.steps == steps);
        last = found.cover.len();
    }
    assert!(last < start.len());
}

#[test]
fn a_deadline_ends_it_with_the_best_so_far() {
    let graph = random_graph(150, 0.1, 7);
    let start = edge_greedy(&graph);
    let n_looks = AtomicU32::new(0);
    let clock = || f64::from(n_looks.fetch_add(1, Relaxed));
    let budget = Budget {
        clock: &clock,
        time_limit: Some(20.0),
        ..Budget::unlimited()
    };
    let found = improve(&graph, &start, &options(1, u64::MAX, 16_384), &budget).unwrap();
    check_cover(&graph, &found.cover).unwrap();
    assert!(found.seconds >= 20.0 && found.best_seconds <= found.seconds);
    assert!(found.steps > 0 && found.steps_per_s() > 0.0);
    let over = Budget {
        clock: &clock,
        time_limit: Some(0.0),
        ..Budget::unlimited()
    };
    let found = improve(&graph, &start, &options(1, u64::MAX, 16_384), &over).unwrap();
    assert_eq!(found.steps, 0);
    check_cover(&graph, &found.cover).unwrap();
}

/// From a loose start a smaller cover is met every few steps: the time limit is looked at for each of them.
#[test]
fn a_deadline_is_kept_while_covers_get_smaller() {
    let graph = random_graph(1000, 0.004, 7);
    let start = edge_greedy(&graph);
    let n_looks = AtomicU32::new(0);
    let clock = || f64::from(n_looks.fetch_add(1, Relaxed));
    let budget = Budget {
        clock: &clock,
        time_limit: Some(10.0),
        ..Budget::unlimited()
    };
    let found = improve(&graph, &start, &options(1, u64::MAX, 16_384), &budget).unwrap();
    check_cover(&graph, &found.cover).unwrap();
    assert!(found.cover.len() < start.len());
    assert!(found.seconds <= 12.0, "{}", found.seconds);
}

#[test]
fn a_target_ends_it() {
    let graph = random_graph(100, 0.1, 3);
    let start: Vec<u32> = (0..100).collect();
    let goal = SearchOptions {
        target: 80,
        ..options(1, 100_000, 16_384)
    };
    let found = improve(&graph, &start, &goal, &Budget::unlimited()).unwrap();
    assert!(found.cover.len() <= 80 && found.steps < 100_000);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
    let message = |start: &[u32], options: SearchOptions| {
        let refused = improve(&path, start, &options, &Budget::unlimited());
        refused.unwrap_err().to_string()
    };
    assert!(message(&[0], options(1, 1, 16_384)).contains("nodes 1 and 2 is not covered"));
    assert!(message(&[1, 1], options(1, 1, 16_384)).contains("twice"));
    assert!(message(&[3], options(1, 1, 16_384)).contains("the graph has 3 nodes"));
    assert!(message(&[1], options(1, 1, 0)).contains("compared = 0"));
    assert!(message(&[1], options(1, u64::MAX, 16_384)).contains("fewer steps, or a time limit"));
}

#[test]
fn peeling_ends_at_its_deadline_with_a_cover() {
    let graph = random_graph(1000, 0.02, 1);
    for n_ticks in [0, 1, 5, 1_000_000] {
        let n_looks = AtomicU32::new(0);
        let clock = || f64::from(n_looks.fetch_add(1, Relaxed));
        let budget = Budget {
            clock: &clock,
            time_limit: Some(f64::from(n_ticks)),
            ..Budget::unlimited()
        };
        let cover = reduce_and_peel(&graph, &Rules::all(), &budget);
        check_cover(&graph, &cover).unwrap();
    }
}
