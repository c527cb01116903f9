//! Several starts: the best of the episodes that begin with the best candidate, the second best, and so on.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::Adjacency;

use crate::best::is_better;
use crate::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, PROBLEMS, Problem};
use crate::{
    AdjacencyScale, PolicyConfig, SolveOptions, TrainedPolicy, score_nodes, solve, solve_problem,
};

fn policy(problem: &Problem, seed: u64, n_layers: usize) -> TrainedPolicy {
    let scale = AdjacencyScale::LargestDegree;
    let config = PolicyConfig::of_problem(problem, 6, n_layers, scale);
    TrainedPolicy::random(config, seed, 0.4).unwrap()
}

fn graph_of(n: u32, density: f64, seed: u64) -> Graph {
    let spec: GeneratorSpec = format!("er:{n}:{density}").parse().unwrap();
    spec.graph(seed).unwrap()
}

/// The graph without some nodes, and the old number of each node.
fn without(graph: &Graph, gone: &[u32]) -> (Graph, Vec<u32>) {
    let left: Vec<u32> = (0..graph.n_nodes()).filter(|v| !gone.contains(v)).collect();
    let new = |v: u32| left.binary_search(&v).ok().map(|i| i as u32);
    let edges = graph.edges().filter_map(|(u, v)| Some((new(u)?, new(v)?)));
    let edges: Vec<_> = edges.collect();
    (Graph::from_edges(left.len() as u32, &edges).unwrap(), left)
}

fn one_start(graph: &Graph, policy: &TrainedPolicy) -> Vec<u32> {
    let options = SolveOptions::default();
    match policy.config.problem == MINIMUM_VERTEX_COVER.name {
        true => {
            let adjacency = Adjacency::from_graph(graph.clone());
            let found = solve(&adjacency, policy, &options, &mut |_, _| ());
            found.unwrap().nodes
        }
        false => {
            let (problem, graph) = (&MAXIMUM_INDEPENDENT_SET, Arc::new(graph.clone()));
            let found = solve_problem(problem, &graph, policy, &options, &mut |_, _| ());
            found.unwrap().nodes
        }
    }
}

/// One episode after the other: the first pick by hand, the rest as one start on what it leaves.
fn naive(graph: &Graph, policy: &TrainedPolicy, starts: usize) -> Vec<u32> {
    let is_cover = policy.config.problem == MINIMUM_VERTEX_COVER.name;
    let adjacency = Adjacency::from_graph(graph.clone());
    let scores = score_nodes(&adjacency, policy, &SolveOptions::default()).unwrap();
    let mut order: Vec<u32> = (0..graph.n_nodes()).collect();
    order.sort_by(|&u, &v| {
        let (a, b) = (scores.values[v as usize], scores.values[u as usize]);
        a.total_cmp(&b).then(u.cmp(&v))
    });
    let episodes = order.iter().take(starts).map(|&first| {
        let mut gone = vec![first];
        if !is_cover {
            gone.extend(graph.neighbors(first));
        }
        let (rest, names) = without(graph, &gone);
        let rest = one_start(&rest, policy);
        let rest = rest.iter().map(|&v| names[v as usize]);
        std::iter::once(first).chain(rest).collect::<Vec<u32>>()
    });
    let better = |best: Vec<u32>, new: Vec<u32>| {
        let is_better = match is_cover {
            true => new.len() < best.len(),
            false => new.len() > best.len(),
        };
        if is_better { new } else { best }
    };
    episodes.reduce(better).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_best_of_the_first_picks_is_given(
        n in 6u32..40,
        seed in 0u64..1000,
        n_layers in 1usize..=2,
        starts in 1u32..12,
        n_ranks in 1u32..=3,
        is_cover: bool,
    ) {
        let graph = graph_of(n, 0.6, seed);
        prop_assume!((0..n).all(|v| graph.degree(v) > 0));
        let problem = [&MAXIMUM_INDEPENDENT_SET, &MINIMUM_VERTEX_COVER][usize::from(is_cover)];
        let policy = policy(problem, seed, n_layers);
        let options = SolveOptions { n_ranks, starts, ..SolveOptions::default() };
        let found = match is_cover {
            true => {
                let adjacency = Adjacency::from_graph(graph.clone());
                solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap().nodes
            }
            false => {
                let graph = Arc::new(graph.clone());
                solve_problem(problem, &graph, &policy, &options, &mut |_, _| ()).unwrap().nodes
            }
        };
        prop_assert_eq!(found, naive(&graph, &policy, starts as usize));
    }
}

/// More starts than candidates repeat the last one, on every path of the model.
#[test]
fn more_starts_are_never_worse() {
    let graph = Arc::new(graph_of(24, 0.2, 7));
    for problem in PROBLEMS {
        for n_layers in [1, 3] {
            let policy = policy(problem, 3, n_layers);
            let of = |starts| {
                let options = SolveOptions {
                    starts,
                    ..SolveOptions::default()
                };
                solve_problem(problem, &graph, &policy, &options, &mut |_, _| ()).unwrap()
            };
            let all = [1, 2, 5, 30].map(of);
            for pair in all.windows(2) {
                let (few, many) = (&pair[0], &pair[1]);
                assert!(!is_better(problem.sense, few.objective, many.objective));
                assert!(few.n_steps < many.n_steps);
            }
        }
    }
}

#[test]
fn numbers_of_starts_that_cannot_be_right_are_refused() {
    let graph = Arc::new(graph_of(9, 0.5, 1));
    let problem = &MAXIMUM_INDEPENDENT_SET;
    for starts in [0, u32::MAX] {
        let options = SolveOptions {
            starts,
            ..SolveOptions::default()
        };
        let policy = policy(problem, 3, 2);
        let found = solve_problem(problem, &graph, &policy, &options, &mut |_, _| ());
        let message = found.unwrap_err().to_string();
        assert!(message.contains("expected 1 to 65536"), "{message}");
    }
}
