//! The greedy baselines pick what a full scan at every step picks.

use proptest::prelude::*;

use super::graphs;
use crate::baselines::{
    max_degree_greedy, max_degree_greedy_d2, min_degree_cover, min_degree_independent_set,
};
use crate::{naive, verify};

const SIZES: [u32; 9] = [0, 1, 2, 31, 32, 33, 63, 64, 65];

proptest! {
    #[test]
    fn max_degree_is_that_of_a_full_scan(graph in graphs(&SIZES)) {
        let largest_first = |removed: &[bool], v| (u64::from(u32::MAX - naive::degree(&graph, removed, v)), 0);
        prop_assert_eq!(max_degree_greedy(&graph), naive::greedy(&graph, largest_first));
    }

    #[test]
    fn ties_broken_by_d2_are_those_of_a_full_scan(graph in graphs(&SIZES)) {
        let key = |removed: &[bool], v| {
            (u64::from(u32::MAX - naive::degree(&graph, removed, v)), naive::d2(&graph, removed, v))
        };
        prop_assert_eq!(max_degree_greedy_d2(&graph), naive::greedy(&graph, key));
    }

    #[test]
    fn min_degree_is_that_of_a_full_scan(graph in graphs(&SIZES)) {
        prop_assert_eq!(min_degree_independent_set(&graph), naive::min_degree_independent_set(&graph));
    }

    #[test]
    fn every_baseline_covers_within_its_bounds(graph in graphs(&[0, 1, 2, 5, 9, 12])) {
        let smallest = naive::smallest_cover(&graph) as usize;
        for cover in [max_degree_greedy(&graph), max_degree_greedy_d2(&graph), min_degree_cover(&graph)] {
            prop_assert!(naive::is_cover(&graph, &cover));
            prop_assert!(cover.len() >= smallest);
        }
        let independent = min_degree_independent_set(&graph);
        prop_assert_eq!(independent.len() + min_degree_cover(&graph).len(), graph.n_nodes() as usize);
        prop_assert!(verify::maximal_matching(&graph) as usize <= smallest);
    }
}
