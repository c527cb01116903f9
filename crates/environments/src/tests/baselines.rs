//! The greedy baselines pick what a full scan at every step picks.

use proptest::prelude::*;

use super::cut::weighted_graphs;
use super::{graphs, marks_of};
use crate::baselines::{
    degree_one_greedy, largest_gain_cut, max_degree_clique, max_degree_greedy,
    max_degree_greedy_d2, min_degree_cover, min_degree_independent_set, most_new_dominating_set,
    one_flip_cut,
};
use crate::naive;

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
    fn the_rule_for_degree_1_is_that_of_a_full_scan(graph in graphs(&SIZES)) {
        let (mut taken, mut cover) = (vec![false; graph.n_nodes() as usize], Vec::new());
        loop {
            let degree = |v: u32| match taken[v as usize] {
                true => 0,
                false => naive::degree(&graph, &taken, v),
            };
            let leaf = (0..graph.n_nodes()).find(|&v| degree(v) == 1);
            let stem = leaf.and_then(|leaf| {
                let neighbors = graph.neighbors(leaf).iter();
                neighbors.copied().find(|&u| !taken[u as usize])
            });
            let largest = (0..graph.n_nodes()).rev().max_by_key(|&v| degree(v));
            let Some(v) = stem.or(largest.filter(|&v| degree(v) > 0)) else {
                break;
            };
            cover.push(v);
            taken[v as usize] = true;
        }
        prop_assert_eq!(degree_one_greedy(&graph), cover);
    }

    #[test]
    fn min_degree_is_that_of_a_full_scan(graph in graphs(&SIZES)) {
        prop_assert_eq!(min_degree_independent_set(&graph), naive::min_degree_independent_set(&graph));
    }

    #[test]
    fn every_baseline_covers_within_its_bounds(graph in graphs(&[0, 1, 2, 5, 9, 12])) {
        let smallest = naive::smallest_cover(&graph) as usize;
        let covers = [
            max_degree_greedy(&graph),
            max_degree_greedy_d2(&graph),
            degree_one_greedy(&graph),
            min_degree_cover(&graph),
        ];
        for cover in covers {
            prop_assert!(naive::is_cover(&graph, &cover));
            prop_assert!(cover.len() >= smallest);
        }
        let independent = min_degree_independent_set(&graph);
        prop_assert_eq!(independent.len() + min_degree_cover(&graph).len(), graph.n_nodes() as usize);
        prop_assert!(graph.maximal_matching() as usize <= smallest);
    }

    #[test]
    fn the_other_greedy_answers_are_those_of_a_full_scan(graph in graphs(&SIZES), weighted in weighted_graphs(&[0, 1, 2, 9, 33])) {
        let n_nodes = graph.n_nodes();
        let common = |taken: &[bool], v: u32| (0..n_nodes).all(|u| !taken[u as usize] || graph.has_edge(u, v));
        let clique = naive::most(n_nodes, |taken, v| {
            let degree = (0..n_nodes).filter(|&u| graph.has_edge(u, v) && common(taken, u)).count();
            if common(taken, v) { 1.0 + degree as f64 } else { 0.0 }
        });
        prop_assert_eq!(max_degree_clique(&graph), clique);
        let set = naive::most(n_nodes, |taken, v| {
            let is_new = |w: u32| !taken[w as usize] && !graph.neighbors(w).iter().any(|&u| taken[u as usize]);
            let n_new = graph.neighbors(v).iter().filter(|&&w| is_new(w)).count() + usize::from(is_new(v));
            n_new as f64
        });
        prop_assert_eq!(most_new_dominating_set(&graph), set);
        for graph in [&graph, &weighted] {
            let side = naive::most(graph.n_nodes(), |taken, v| {
                let mut with = taken.to_vec();
                with[v as usize] = true;
                naive::cut(graph, &with) - naive::cut(graph, taken)
            });
            prop_assert_eq!(largest_gain_cut(graph), side);
        }
    }

    #[test]
    fn no_greedy_answer_is_better_than_the_best(graph in graphs(&[0, 1, 2, 5, 9, 11]), weighted in weighted_graphs(&[0, 1, 2, 5, 9])) {
        let clique = max_degree_clique(&graph);
        prop_assert!(naive::is_clique(&graph, &marks_of(&graph, &clique)));
        prop_assert!(clique.len() as f64 <= naive::largest_clique(&graph));
        prop_assert_eq!(clique.is_empty(), graph.n_nodes() == 0);
        let set = most_new_dominating_set(&graph);
        prop_assert!(naive::is_dominating(&graph, &marks_of(&graph, &set)));
        let best = naive::smallest_dominating_set(&graph);
        let worst = best * (1.0 + f64::from(1 + graph.max_degree()).ln());
        prop_assert!(best <= set.len() as f64 && set.len() as f64 <= worst);
        let independent = min_degree_independent_set(&graph);
        prop_assert!(independent.len() as f64 <= naive::largest_independent_set(&graph));
        for graph in [&graph, &weighted] {
            let best = naive::largest_cut(graph);
            for side in [largest_gain_cut(graph), one_flip_cut(graph)] {
                prop_assert!(naive::cut(graph, &marks_of(graph, &side)) <= best);
            }
        }
        let half = graph.n_edges() as f64 / 2.0;
        prop_assert!(naive::cut(&graph, &marks_of(&graph, &one_flip_cut(&graph))) >= half);
    }
}
