//! Dominating sets against all subsets, and graphs whose smallest one is known.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use proptest::prelude::*;
use shardgraph_graph::{Graph, builtin};
use shardgraph_random::KeyedRng;

use crate::budget::{Budget, Stopwatch};
use crate::dominating_set::dual::DualBound;
use crate::dominating_set::exact::BranchAndBound;
use crate::dominating_set::greedy::greedy;
use crate::dominating_set::local_search::LocalSearch;
use crate::dominating_set::reduction::{Decisions, Reduction};
use crate::dominating_set::rows::{Rows, SetCover};
use crate::dominating_set::{check_dominating_set, naive, neighborhoods, solve};
use crate::solution::{Options, Solution};
use crate::tests::{complete, cycle, many_complete, odd_graphs, random_graph, small_graph, star};

fn dominating(graph: &Graph, options: &Options<'_>) -> Solution {
    let solution = solve(graph, options, &Budget::unlimited()).unwrap();
    check_dominating_set(graph, &solution.nodes).unwrap();
    assert!(solution.nodes.is_sorted() && solution.bound <= Some(solution.objective));
    assert_eq!(solution.objective, solution.nodes.len() as f64);
    assert_eq!(
        solution.is_optimal,
        solution.bound == Some(solution.objective)
    );
    solution
}

/// Any cover of up to so many sets and elements in which each element has a set.
fn small_cover(most: u32) -> impl Strategy<Value = SetCover> {
    (1..=most, 0..=most, 0.05..0.6f64, any::<u64>()).prop_map(|(n, m, p, seed)| {
        let mut random = KeyedRng::new(seed, "test-cover", 0);
        let mut rows = Rows::new();
        for s in 0..n {
            let holds = |e: &u32| random.chance(p) || e % n == s;
            let row: Vec<u32> = (0..m).filter(holds).collect();
            rows.push(row.into_iter());
        }
        SetCover::new(rows, m as usize)
    })
}

fn covers(cover: &SetCover, sets: &[u32]) -> bool {
    (0..cover.n_elements()).all(|e| cover.elements.row(e).iter().any(|s| sets.contains(s)))
}

fn search() -> BranchAndBound<'static> {
    BranchAndBound {
        entries_left: u64::MAX,
        stopwatch: stopwatch(),
        is_over: false,
    }
}

fn stopwatch() -> Stopwatch<'static> {
    Stopwatch::begin(&Budget::unlimited())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_as_small_as_the_best_of_all_subsets(graph in small_graph(14)) {
        let size = naive::cover_size(&neighborhoods(&graph));
        let solution = dominating(&graph, &Options { steps: Some(200), ..Options::default() });
        prop_assert_eq!((solution.nodes.len(), solution.is_optimal), (size, true));
    }

    #[test]
    fn a_smallest_cover_of_the_kernel_lifts_to_a_smallest_cover(cover in small_cover(14)) {
        let reduction = Reduction::new(&cover, Decisions::default(), &stopwatch());
        let size = naive::cover_size(&cover);
        prop_assert!(reduction.is_feasible);
        prop_assert_eq!(naive::cover_size(&reduction.kernel) + reduction.chosen.len(), size);
        let all: Vec<u32> = (0..reduction.kernel.n_sets() as u32).collect();
        prop_assert!(covers(&cover, &reduction.lift(&all)));
    }

    #[test]
    fn branch_and_bound_is_exact(cover in small_cover(15)) {
        let size = naive::cover_size(&cover);
        let multipliers = vec![0.0; cover.n_elements()];
        let found = search().smallest(&cover, usize::MAX >> 1, &multipliers, 0).unwrap();
        prop_assert!(covers(&cover, &found));
        prop_assert_eq!(found.len(), size);
        prop_assert_eq!(search().smallest(&cover, size, &multipliers, 0), None);
    }

    #[test]
    fn no_cover_is_below_the_dual_bound(cover in small_cover(14), n_steps in 0..60u32) {
        let size = naive::cover_size(&cover);
        let dual = DualBound::shares(&cover).improved(&cover, size + 1, n_steps, &stopwatch());
        prop_assert!(dual.least() <= size);
        // What is settled towards `size + 1` holds for every smallest cover that is left.
        let (included, excluded) = dual.settled(size + 1);
        let decisions = Decisions { included: &included, excluded: &excluded };
        let reduction = Reduction::new(&cover, decisions, &stopwatch());
        prop_assert!(reduction.is_feasible);
        prop_assert_eq!(naive::cover_size(&reduction.kernel) + reduction.chosen.len(), size);
    }

    #[test]
    fn greedy_and_local_search_give_covers(cover in small_cover(15), seed in any::<u64>()) {
        let size = naive::cover_size(&cover);
        let start = greedy(&cover, &[]);
        prop_assert!(covers(&cover, &start));
        let random = KeyedRng::new(seed, "test", 0);
        let found = LocalSearch::new(&cover, &start, random).run(0, 2000, &stopwatch());
        prop_assert!(covers(&cover, &found));
        prop_assert_eq!(found.len(), size);
    }
}

#[test]
fn components_are_solved_apart() {
    // The fractional covers of rings sum to less than the covers do.
    let mut edges = Vec::new();
    let mut n_nodes = 0;
    for size in [4, 5, 7, 4, 8, 10] {
        edges.extend((0..size).map(|v| (n_nodes + v, n_nodes + (v + 1) % size)));
        n_nodes += size;
    }
    let cover = neighborhoods(&Graph::from_edges(n_nodes, &edges).unwrap());
    let multipliers = vec![0.0; cover.n_elements()];
    for upper in [16, 17, 100] {
        let found = search().smallest(&cover, upper, &multipliers, 0);
        let size = found.as_ref().map(Vec::len);
        assert_eq!(size, (upper > 16).then_some(2 + 2 + 3 + 2 + 3 + 4));
        assert!(found.is_none_or(|sets| covers(&cover, &sets)));
    }
}

#[test]
fn known_dominating_sets() {
    let rings = (3..12).map(|n| (cycle(n), n.div_ceil(3) as usize));
    let others = [
        (Graph::default(), 0),
        (complete(1), 1),
        (complete(200), 1),
        (star(100_000), 1),
        (many_complete(50_000, 3), 50_000),
        (builtin::by_name("karate").unwrap(), 4),
    ];
    for (graph, size) in rings.chain(others) {
        let solution = dominating(&graph, &Options::default());
        assert_eq!((solution.nodes.len(), solution.is_optimal), (size, true));
    }
    for (name, graph) in odd_graphs() {
        let size = naive::cover_size(&neighborhoods(&graph));
        assert_eq!(
            dominating(&graph, &Options::default()).nodes.len(),
            size,
            "{name}"
        );
    }
}

#[test]
fn starts_threads_and_seeds() {
    let graph = random_graph(300, 0.03, 7);
    let options = |threads, steps, starts| Options {
        seed: 4,
        threads,
        steps: Some(steps),
        starts,
    };
    let found = dominating(&graph, &options(2, 2000, &[]));
    assert_eq!(
        found.nodes,
        dominating(&graph, &options(2, 2000, &[])).nodes
    );
    let starts: &[&[u32]] = &[&found.nodes];
    let again = dominating(&graph, &options(1, 0, starts));
    assert!(again.nodes.len() <= found.nodes.len());
    let wrong: &[&[u32]] = &[&[0]];
    assert!(solve(&graph, &options(1, 0, wrong), &Budget::unlimited()).is_err());
    assert!(solve(&graph, &options(0, 0, &[]), &Budget::unlimited()).is_err());
}

#[test]
fn a_budget_that_is_over_still_answers() {
    let over = Budget {
        time_limit: Some(0.0),
        ..Budget::unlimited()
    };
    let solution = solve(&random_graph(300, 0.03, 7), &Options::default(), &over).unwrap();
    assert!(solution.nodes.len() < 100 && !solution.is_optimal);
}
