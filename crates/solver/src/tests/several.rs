//! Several graphs in one batch: each answer is that of its graph alone.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_collectives::tcp;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{EdgeSink, Graph, GraphBuilder};

use crate::problem::{MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET, PROBLEMS, Problem};
use crate::{
    AdjacencyScale, PolicyConfig, Select, Solution, SolveOptions, TrainedPolicy, solve_problem,
    solve_problems, solve_problems_as_rank,
};

fn policy(problem: &Problem, seed: u64, n_layers: usize) -> TrainedPolicy {
    let scale = AdjacencyScale::LargestDegree;
    let config = PolicyConfig::of_problem(problem, 6, n_layers, scale);
    TrainedPolicy::random(config, seed, 0.4).unwrap()
}

fn graph_of(n: u32, seed: u64) -> Arc<Graph> {
    let density = ["0", "0.1", "0.3", "0.7"][seed as usize % 4];
    let spec: GeneratorSpec = format!("er:{n}:{density}").parse().unwrap();
    Arc::new(spec.graph(seed).unwrap())
}

fn weighted(graph: &Graph) -> Arc<Graph> {
    let mut builder = GraphBuilder::new();
    for (i, (u, v)) in graph.edges().enumerate() {
        builder.edge(u, v, 0.25 * (i % 7) as f32 - 0.5).unwrap();
    }
    Arc::new(builder.finish(graph.n_nodes(), true).unwrap().0)
}

fn parts(answer: &Solution) -> (&[u32], String, u64, String) {
    let objective = answer.objective.to_string();
    (
        &answer.nodes,
        objective,
        answer.n_steps,
        answer.path.to_string(),
    )
}

fn assert_as_alone(
    problem: &Problem,
    graphs: &[Arc<Graph>],
    policy: &TrainedPolicy,
    options: &SolveOptions,
) {
    let together = solve_problems(problem, graphs, policy, options, &mut |_, _| ()).unwrap();
    assert_eq!(together.len(), graphs.len());
    for (graph, answer) in graphs.iter().zip(&together) {
        let alone = solve_problem(problem, graph, policy, options, &mut |_, _| ()).unwrap();
        assert_eq!(parts(answer), parts(&alone), "{problem:?} {graph:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn answers_are_those_of_single_graphs(
        problem in prop::sample::select(PROBLEMS.to_vec()),
        sizes in prop::collection::vec(prop::sample::select(vec![0u32, 1, 2, 9, 31, 33, 66]), 0..5),
        seed in 0u64..1000,
        n_layers in 1usize..=3,
        n_ranks in 1u32..=4,
        select in prop_oneof![Just(Select::Adaptive), (1u32..4).prop_map(Select::Fixed)],
    ) {
        let graphs: Vec<_> = sizes.iter().zip(seed..).map(|(&n, seed)| graph_of(n, seed)).collect();
        let options = SolveOptions { n_ranks, select, ..SolveOptions::default() };
        assert_as_alone(problem, &graphs, &policy(problem, seed, n_layers), &options);
    }
}

/// Graphs with and without weights take different paths, and each path has a batch of its own.
#[test]
fn weights_and_none_side_by_side() {
    let plain = graph_of(20, 6);
    let graphs = [
        weighted(&plain),
        plain,
        weighted(&graph_of(31, 3)),
        graph_of(1, 0),
    ];
    for n_layers in 1..=3 {
        for n_ranks in [1, 3] {
            let options = SolveOptions {
                n_ranks,
                ..SolveOptions::default()
            };
            let policy = policy(&MAXIMUM_CUT, 5, n_layers);
            assert_as_alone(&MAXIMUM_CUT, &graphs, &policy, &options);
        }
    }
}

#[test]
fn processes_solve_several_graphs() {
    let graphs = [graph_of(20, 6), graph_of(33, 3), graph_of(2, 1)];
    let problem = &MAXIMUM_INDEPENDENT_SET;
    let (policy, options) = (policy(problem, 2, 3), SolveOptions::default());
    let want = solve_problems(problem, &graphs, &policy, &options, &mut |_, _| ()).unwrap();
    let results = tcp::run(3, |mut comm| {
        let mut sums = Vec::new();
        let answers = solve_problems_as_rank(
            &mut comm,
            problem,
            &graphs,
            &policy,
            &options,
            &mut |_, n| {
                sums.push(n);
            },
        );
        (answers.unwrap(), sums.last().copied())
    });
    let n_picks = want.iter().map(|answer| answer.nodes.len()).sum();
    for (rank, result) in results.into_iter().enumerate() {
        let (answers, last) = result.unwrap();
        let equal = answers.iter().zip(&want).all(|(a, b)| parts(a) == parts(b));
        assert!(equal && answers.len() == 3);
        assert_eq!(last, (rank == 0).then_some(n_picks));
    }
    let results = tcp::run(2, |mut comm| {
        let n = 3 - comm.rank() as usize;
        let none = &mut |_, _| ();
        solve_problems_as_rank(&mut comm, problem, &graphs[..n], &policy, &options, none)
            .unwrap_err()
    });
    for error in results {
        let text = error.unwrap().to_string();
        assert!(
            text.starts_with("rank 1 has another graph than rank 0"),
            "{text}"
        );
    }
}
