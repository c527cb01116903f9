//! Cliques against all subsets, and graphs whose largest clique is known.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use proptest::prelude::*;
use shardgraph_graph::{Graph, builtin};

use crate::budget::{Budget, Stopwatch};
use crate::clique::bits::BitRows;
use crate::clique::degeneracy::DegeneracyOrder;
use crate::clique::exact::{BranchAndBound, WorkLimit};
use crate::clique::local_search::LocalSearch;
use crate::clique::{check_clique, naive, solve};
use crate::solution::{Options, Solution};
use crate::tests::{
    complete, cycle, many_complete, odd_graphs, random_graph, real_graph, small_graph, star,
};
use shardgraph_random::KeyedRng;

fn clique_of(graph: &Graph, options: &Options<'_>) -> Solution {
    let solution = solve(graph, options, &Budget::unlimited()).unwrap();
    check_clique(graph, &solution.nodes).unwrap();
    assert!(solution.nodes.is_sorted() && solution.bound >= Some(solution.objective));
    assert_eq!(solution.objective, solution.nodes.len() as f64);
    assert_eq!(
        solution.is_optimal,
        solution.bound == Some(solution.objective)
    );
    solution
}

fn bit_rows(graph: &Graph) -> BitRows {
    let mut rows = BitRows::new(graph.n_nodes() as usize);
    graph
        .edges()
        .for_each(|(u, v)| rows.join(u as usize, v as usize));
    rows
}

/// The largest clique by branch and bound over the whole graph, without cores and neighbourhoods.
fn exact_size(graph: &Graph) -> usize {
    let mut work = WorkLimit {
        words_left: u64::MAX,
        stopwatch: Stopwatch::begin(&Budget::unlimited()),
        is_over: false,
    };
    let found = BranchAndBound::run(&bit_rows(graph), 0, &mut work);
    found.map_or(0, |clique| clique.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_as_large_as_the_best_of_all_subsets(graph in small_graph(15)) {
        let size = naive::clique_size(&graph);
        let no_steps = Options { steps: Some(0), ..Options::default() };
        let solution = clique_of(&graph, &no_steps);
        prop_assert_eq!((solution.nodes.len(), solution.is_optimal), (size, true));
        prop_assert_eq!(exact_size(&graph), size);
    }

    #[test]
    fn neighbourhoods_and_the_whole_graph_agree(n in 60..70u32, p in 0.1..0.8f64, seed in any::<u64>()) {
        let graph = random_graph(n, p, seed);
        prop_assert_eq!(clique_of(&graph, &Options::default()).nodes.len(), exact_size(&graph));
    }

    #[test]
    fn local_search_finds_cliques_of_the_right_size(graph in small_graph(15), seed in any::<u64>()) {
        let rows = bit_rows(&graph);
        let stopwatch = Stopwatch::begin(&Budget::unlimited());
        let search = LocalSearch::new(&rows, KeyedRng::new(seed, "test", 0));
        let found: Vec<u32> = search.run(&[], 99, 20_000, &stopwatch).iter().map(|&v| v as u32).collect();
        check_clique(&graph, &found).unwrap();
        prop_assert_eq!(found.len(), naive::clique_size(&graph));
    }

    #[test]
    fn the_order_has_the_core_numbers(graph in small_graph(20)) {
        let order = DegeneracyOrder::new(&graph);
        let mut is_left = vec![true; graph.n_nodes() as usize];
        for (rank, &v) in order.nodes.iter().enumerate() {
            let n_later = graph.neighbors(v).iter().filter(|&&u| is_left[u as usize]).count();
            prop_assert_eq!(order.later(rank).len(), n_later);
            prop_assert_eq!(order.cores[rank] as usize, naive::core_number(&graph, v));
            prop_assert!(n_later <= order.cores[rank] as usize);
            is_left[v as usize] = false;
        }
    }
}

#[test]
fn known_cliques() {
    for (graph, size) in [
        (Graph::default(), 0),
        (complete(1), 1),
        (complete(200), 200),
        (cycle(5), 2),
        (star(100_000), 2),
        (many_complete(50_000, 3), 3),
        (builtin::by_name("karate").unwrap(), 5),
    ] {
        let solution = clique_of(&graph, &Options::default());
        assert_eq!((solution.nodes.len(), solution.is_optimal), (size, true));
    }
    for (name, graph) in odd_graphs() {
        assert_eq!(
            clique_of(&graph, &Options::default()).nodes.len(),
            naive::clique_size(&graph),
            "{name}"
        );
    }
}

#[test]
fn starts_threads_and_seeds() {
    let graph = random_graph(200, 0.9, 7);
    let options = |threads, steps, starts| Options {
        seed: 4,
        threads,
        steps: Some(steps),
        starts,
    };
    let found = clique_of(&graph, &options(2, 2000, &[]));
    assert_eq!(found.nodes, clique_of(&graph, &options(2, 2000, &[])).nodes);
    let starts: &[&[u32]] = &[&found.nodes];
    let again = clique_of(&graph, &options(1, 0, starts));
    assert!(again.nodes.len() >= found.nodes.len());
    let apart: &[&[u32]] = &[&[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    ]];
    assert!(check_clique(&graph, apart[0]).is_err());
    assert!(solve(&graph, &options(1, 0, apart), &Budget::unlimited()).is_err());
    assert!(solve(&graph, &options(0, 0, &[]), &Budget::unlimited()).is_err());
}

#[test]
fn a_budget_that_is_over_still_answers() {
    let over = Budget {
        time_limit: Some(0.0),
        ..Budget::unlimited()
    };
    let solution = solve(&random_graph(200, 0.9, 7), &Options::default(), &over).unwrap();
    assert!(solution.nodes.len() > 10 && !solution.is_optimal);
}

#[test]
fn real_graphs() {
    for (file, size) in [
        ("ca-GrQc.txt.gz", 44),
        ("wiki-Vote.txt.gz", 17),
        ("facebook_combined.txt.gz", 69),
    ] {
        let Some(graph) = real_graph(file) else {
            continue;
        };
        let solution = clique_of(&graph, &Options::default());
        assert_eq!(
            (solution.nodes.len(), solution.is_optimal),
            (size, true),
            "{file}"
        );
    }
}
