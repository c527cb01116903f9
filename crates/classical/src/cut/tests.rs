//! Cuts against all pairs of sides, and graphs whose largest cut is known.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use proptest::prelude::*;
use shardgraph_graph::{Graph, builtin};
use shardgraph_random::KeyedRng;

use crate::budget::{Budget, Stopwatch};
use crate::cut::instance::Instance;
use crate::cut::reduction::Reduction;
use crate::cut::search::Search;
use crate::cut::{bound, cut_weight, naive, solve};
use crate::searches::indicator;
use crate::solution::{Options, Solution};
use crate::tests::{complete, cycle, many_complete, odd_graphs, small_graph, star};

/// Weights of both signs, in quarters.
fn weighted(graph: &Graph, seed: u64) -> Graph {
    let mut random = KeyedRng::new(seed, "test-weights", 0);
    let mut weigh = || (random.below(33) as f32 - 16.0) / 4.0;
    let edges: Vec<_> = graph.edges().map(|(u, v)| (u, v, weigh())).collect();
    Graph::from_weighted_edges(graph.n_nodes(), &edges).unwrap()
}

fn cut_of(graph: &Graph, options: &Options<'_>) -> Solution {
    let solution = solve(graph, options, &Budget::unlimited()).unwrap();
    let sides = indicator(graph.n_nodes(), &solution.nodes).unwrap();
    assert_eq!(cut_weight(graph, &sides), solution.objective);
    assert!(solution.nodes.is_sorted() && solution.bound >= Some(solution.objective));
    assert!(!solution.is_optimal || solution.bound == Some(solution.objective));
    solution
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn it_is_as_heavy_as_the_best_of_all_cuts(
        graph in small_graph(13),
        seed in any::<u64>(),
        is_weighted in any::<bool>(),
    ) {
        let graph = if is_weighted { weighted(&graph, seed) } else { graph };
        let instance = Instance::from_graph(&graph);
        let best = naive::largest_cut(&instance) as f64 / instance.scale;
        let options = Options { seed, steps: Some(300), ..Options::default() };
        let solution = cut_of(&graph, &options);
        prop_assert_eq!(solution.objective, best);
        prop_assert!(solution.bound.unwrap() >= best);
    }

    #[test]
    fn a_best_cut_of_the_kernel_lifts_to_a_best_cut(graph in small_graph(13), seed in any::<u64>()) {
        let instance = Instance::from_graph(&weighted(&graph, seed));
        let reduction = Reduction::new(&instance);
        let kernel = &reduction.kernel;
        let best = naive::largest_cut(&instance);
        let units = (kernel.scale / instance.scale) as i64;
        prop_assert_eq!(naive::largest_cut(kernel) + reduction.offset, best * units);
        let n = kernel.n_nodes();
        let lifted = (0..1u32 << n).map(|code| {
            let sides: Vec<bool> = (0..n).map(|v| code >> v & 1 == 1).collect();
            instance.cut(&reduction.lift(&sides))
        });
        prop_assert_eq!(lifted.max(), Some(best));
    }

    #[test]
    fn annealing_finds_a_best_cut(graph in small_graph(13), seed in any::<u64>()) {
        let instance = Instance::from_graph(&weighted(&graph, seed));
        let stopwatch = Stopwatch::begin(&Budget::unlimited());
        let start = vec![false; instance.n_nodes()];
        let search = |index| {
            let random = KeyedRng::new(seed, "test", index);
            let search = Search::new(&instance, &start, random, stopwatch);
            instance.cut(&search.run(500))
        };
        prop_assert_eq!((0..12).map(search).max(), Some(naive::largest_cut(&instance)));
    }

    #[test]
    fn no_cut_exceeds_the_bound(graph in small_graph(13), seed in any::<u64>()) {
        let instance = Instance::from_graph(&weighted(&graph, seed));
        let stopwatch = Stopwatch::begin(&Budget::unlimited());
        let bound = bound::upper_bound(&instance, &stopwatch);
        prop_assert!(naive::largest_cut(&instance) <= bound);
        prop_assert!(bound <= instance.positive_weight());
    }
}

#[test]
fn half_of_a_complete_graph_is_its_largest_cut() {
    for n in [1, 2, 9, 40_u32] {
        let pairs = (0..n).flat_map(|v| (0..v).map(move |u| (u, v)));
        // Beside it a second, smaller one: each component counts alone.
        let others = (0..7).flat_map(|v| (0..v).map(move |u| (n + u, n + v)));
        let edges: Vec<_> = pairs.chain(others).collect();
        let solution = cut_of(
            &Graph::from_edges(n + 7, &edges).unwrap(),
            &Options::default(),
        );
        let half = (n / 2) * (n - n / 2) + 3 * 4;
        assert_eq!(
            (solution.objective, solution.is_optimal),
            (f64::from(half), true)
        );
    }
}

#[test]
fn known_cuts() {
    let no_steps = Options {
        steps: Some(0),
        ..Options::default()
    };
    // A ring of odd length loses one edge; a complete graph is cut in halves.
    let rings = (3..9).map(|n| (cycle(n), f64::from(n - n % 2)));
    let halves = (1..9).map(|n| (complete(n), f64::from((n / 2) * n.div_ceil(2))));
    let others = [
        (star(1000), 1000.0),
        (many_complete(500, 3), 1000.0),
        (Graph::default(), 0.0),
    ];
    for (graph, cut) in rings.chain(halves).chain(others) {
        assert_eq!(cut_of(&graph, &no_steps).objective, cut);
    }
    for (name, cut) in [("petersen", 12.0), ("karate", 61.0)] {
        let graph = builtin::by_name(name).unwrap();
        assert_eq!(cut_of(&graph, &Options::default()).objective, cut, "{name}");
    }
}

#[test]
fn graphs_without_a_frustrated_cycle_are_proved_at_once() {
    for (name, graph) in odd_graphs() {
        let negative: Vec<_> = graph.edges().map(|(u, v)| (u, v, -0.3)).collect();
        let graph = Graph::from_weighted_edges(graph.n_nodes(), &negative).unwrap();
        let solution = cut_of(&graph, &Options::default());
        assert_eq!(
            (solution.objective, solution.is_optimal),
            (0.0, true),
            "{name}"
        );
    }
}

#[test]
fn weights_of_any_size_are_counted() {
    let graph = Graph::from_weighted_edges(
        4,
        &[(0, 1, 1e-38), (1, 2, 3e38), (2, 0, 3e38), (2, 3, -1e-3)],
    );
    let solution = cut_of(&graph.unwrap(), &Options::default());
    assert!(solution.objective >= 6e38 * 0.999);
}

#[test]
fn starts_are_no_worse_and_threads_and_seeds_repeat() {
    let graph = crate::tests::random_graph(60, 0.3, 5);
    let few = |seed, threads, starts| Options {
        seed,
        threads,
        steps: Some(20),
        starts,
    };
    let one = cut_of(&graph, &few(3, 1, &[]));
    assert_eq!(one.nodes, cut_of(&graph, &few(3, 1, &[])).nodes);
    let three = cut_of(&graph, &few(3, 3, &[]));
    assert_eq!(three.nodes, cut_of(&graph, &few(3, 3, &[])).nodes);
    assert!(three.objective >= one.objective);
    let best = cut_of(&graph, &Options::default());
    let none = Options {
        steps: Some(0),
        starts: &[&best.nodes],
        ..Options::default()
    };
    assert_eq!(cut_of(&graph, &none).objective, best.objective);
    let wrong: &[&[u32]] = &[&[60]];
    assert!(solve(&graph, &few(1, 1, wrong), &Budget::unlimited()).is_err());
    assert!(solve(&graph, &few(1, 0, &[]), &Budget::unlimited()).is_err());
}

#[test]
fn a_budget_that_is_over_still_answers() {
    let over = Budget {
        time_limit: Some(0.0),
        ..Budget::unlimited()
    };
    let solution = solve(&complete(30), &Options::default(), &over).unwrap();
    assert!(solution.objective > 0.0 && !solution.is_optimal);
}
