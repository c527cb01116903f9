//! Properties of every problem: answers against the best by trying every set, ranks, paths, training, policies of other problems.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_collectives::{Comm, tcp};
use shardgraph_device::Device;
use shardgraph_error::Class;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{EdgeSink, Graph, GraphBuilder};
use shardgraph_layers::Path;
use shardgraph_layers::autodiff::Eager;
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_shard::{Adjacency, CsrShard, Partition};

use crate::problem::{
    Baseline, Episode, MAXIMUM_CLIQUE, MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET,
    MINIMUM_DOMINATING_SET, MINIMUM_VERTEX_COVER, Objective, PROBLEMS, Problem, Sense,
    check_answer, problem_by_name,
};
use crate::rows::{StateRows, without_rows};
use crate::train::{RunOptions, TrainConfig, TrainOutcome, train, train_as_rank};
use crate::{
    AdjacencyScale, Communication, PolicyConfig, Select, Solution, SolveOptions, TrainedPolicy,
    score_nodes, solve, solve_problem, solve_problem_as_rank,
};

mod states;
mod training;

fn policy(problem: &Problem, seed: u64, n_layers: usize) -> TrainedPolicy {
    let scale = match seed % 2 {
        0 => AdjacencyScale::LargestDegree,
        _ => AdjacencyScale::One,
    };
    let config = PolicyConfig::of_problem(problem, 6, n_layers, scale);
    TrainedPolicy::random(config, seed, 0.4).unwrap()
}

fn answer(
    problem: &Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
) -> Solution {
    solve_problem(problem, graph, policy, options, &mut |_, _| ()).unwrap()
}

fn problem() -> impl Strategy<Value = &'static Problem> {
    prop::sample::select(PROBLEMS.to_vec())
}

/// Random graphs of so many nodes; weighted ones have weights from -1 to 2.
fn graph_of(n: u32, seed: u64, weighted: bool) -> Arc<Graph> {
    let density = ["0", "0.1", "0.3", "0.7"][seed as usize % 4];
    let spec: GeneratorSpec = format!("er:{n}:{density}").parse().unwrap();
    let graph = spec.graph(seed).unwrap();
    if !weighted {
        return graph.into();
    }
    let mut builder = GraphBuilder::new();
    for (i, (u, v)) in graph.edges().enumerate() {
        let weight = (seed.rotate_left(5 * i as u32) % 13) as f32 / 4.0 - 1.0;
        builder.edge(u, v, weight).unwrap();
    }
    builder.finish(n, true).unwrap().0.into()
}

/// The best of all sets of nodes by the problem's own check.
fn best_of_all(problem: &Problem, graph: &Graph) -> f64 {
    let n = graph.n_nodes();
    let worth = |set: u32| {
        let marks: Vec<bool> = (0..n).map(|v| set >> v & 1 == 1).collect();
        (problem.check)(graph, &marks).ok().map(Objective::value)
    };
    let all = (0..1u32 << n).filter_map(worth);
    match problem.sense {
        Sense::Minimise => all.fold(f64::INFINITY, f64::min),
        Sense::Maximise => all.fold(f64::NEG_INFINITY, f64::max),
    }
}

fn is_no_better(problem: &Problem, objective: Objective, best: f64) -> bool {
    match problem.sense {
        Sense::Minimise => objective.value() >= best,
        Sense::Maximise => objective.value() <= best,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_answer_is_better_than_the_best(problem in problem(), n in 0u32..10, seed in 0u64..1000, weighted: bool) {
        let graph = graph_of(n, seed, weighted && problem.reads_weights);
        let best = best_of_all(problem, &graph);
        let found = answer(problem, &graph, &policy(problem, seed, 2), &SolveOptions::default());
        prop_assert!(is_no_better(problem, found.objective, best), "{:?} {}", found, best);
        prop_assert_eq!(check_answer(problem, &graph, &found.nodes).unwrap(), found.objective);
        let baselines = problem.baselines;
        prop_assert!(!baselines.is_empty());
        for Baseline { name, find, .. } in baselines {
            let objective = check_answer(problem, &graph, &find(&graph)).unwrap();
            prop_assert!(is_no_better(problem, objective, best), "{} {:?} {}", name, objective, best);
        }
    }

    #[test]
    fn ranks_give_the_same_answer(
        problem in problem(),
        n in prop::sample::select(vec![1u32, 2, 31, 65, 130]),
        seed in 0u64..1000,
        weighted: bool,
        n_layers in 1usize..=4,
        select in prop_oneof![Just(Select::Adaptive), (1u32..5).prop_map(Select::Fixed)],
    ) {
        let graph = graph_of(n, seed, weighted && problem.reads_weights);
        let policy = policy(problem, seed, n_layers);
        let of_ranks = |n_ranks| {
            let options = SolveOptions { n_ranks, select, ..SolveOptions::default() };
            let found = answer(problem, &graph, &policy, &options);
            (found.nodes, found.n_steps)
        };
        let want = of_ranks(1);
        for n_ranks in 2..=6 {
            prop_assert_eq!(&of_ranks(n_ranks), &want, "{} ranks", n_ranks);
        }
    }

    /// One rank keeps the rows of its layers; with a way to share them it makes all anew at each step.
    #[test]
    fn kept_rows_give_the_picks_of_whole_passes(
        problem in prop::sample::select(vec![&MAXIMUM_INDEPENDENT_SET, &MAXIMUM_CLIQUE]),
        n in prop::sample::select(vec![3u32, 33, 150, 600]),
        seed in 0u64..1000,
        n_layers in 3usize..=5,
        embed_dim in prop::sample::select(vec![1usize, 7, 32]),
        n_picks in 1u32..4,
    ) {
        let kind = ["er:N:0.02", "ba:N:2", "er:N:0"][seed as usize % 3];
        let spec: GeneratorSpec = kind.replace('N', &n.to_string()).parse().unwrap();
        let graph = Arc::new(spec.graph(seed).unwrap());
        let config = PolicyConfig::of_problem(problem, embed_dim, n_layers, AdjacencyScale::LargestDegree);
        let policy = TrainedPolicy::random(config, seed, 0.4).unwrap();
        let with = |communication| {
            let select = Select::Fixed(n_picks);
            let options = SolveOptions { communication, select, ..SolveOptions::default() };
            answer(problem, &graph, &policy, &options)
        };
        let (kept, whole) = (with(None), with(Some(Communication::default())));
        prop_assert!(n == 3 || kept.exchange.is_none());
        prop_assert!(whole.exchange.is_some());
        prop_assert_eq!((kept.nodes, kept.n_steps), (whole.nodes, whole.n_steps));
    }

    /// The same for covers, whose candidates are the nodes with an edge.
    #[test]
    fn kept_rows_give_the_covers_of_whole_passes(
        n in prop::sample::select(vec![3u32, 33, 150, 600]),
        seed in 0u64..1000,
        n_layers in 3usize..=5,
        select in prop_oneof![Just(Select::Adaptive), (1u32..5).prop_map(Select::Fixed)],
        starts in 1u32..3,
    ) {
        let kind = ["er:N:0.02", "ba:N:2", "er:N:0"][seed as usize % 3];
        let spec: GeneratorSpec = kind.replace('N', &n.to_string()).parse().unwrap();
        let adjacency = Adjacency::Csr(spec.graph(seed).unwrap().into());
        let problem = &MINIMUM_VERTEX_COVER;
        let config = PolicyConfig::of_problem(problem, 7, n_layers, AdjacencyScale::LargestDegree);
        let policy = TrainedPolicy::random(config, seed, 0.4).unwrap();
        let with = |communication| {
            let options = SolveOptions { communication, select, starts, ..SolveOptions::default() };
            solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap()
        };
        let (kept, whole) = (with(None), with(Some(Communication::default())));
        prop_assert!(n == 3 || kept.exchange.is_none());
        prop_assert!(whole.exchange.is_some());
        prop_assert_eq!((kept.nodes, kept.n_steps), (whole.nodes, whole.n_steps));
    }

    /// The way of all problems finds the covers of the way that is made for covers, pick by pick.
    #[test]
    fn covers_are_those_of_the_incremental_solver(n in 1u32..70, seed in 0u64..1000, n_layers in 1usize..=3) {
        let graph = graph_of(n, seed, false);
        let policy = policy(&MINIMUM_VERTEX_COVER, seed, n_layers);
        let options = SolveOptions::default();
        let adjacency = Adjacency::Csr(Arc::clone(&graph));
        let want = solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap();
        let got = answer(&MINIMUM_VERTEX_COVER, &graph, &policy, &options);
        prop_assert_eq!(&got.nodes, &want.nodes);
        prop_assert_eq!(got.n_steps, want.n_steps);
    }
}

/// Nodes, edges, and the objectives of mvc, mis, clique, cut and dominating-set; none where plays differ.
type ExtremeCase<'a> = (u32, &'a [(u32, u32)], [Option<u64>; 5]);

/// Graphs at the edges of what there is, with what every play must find on them.
#[test]
fn extreme_graphs_have_their_only_answers() {
    let complete: Vec<_> = (0..9u32)
        .flat_map(|u| (0..u).map(move |v| (u, v)))
        .collect();
    let star: Vec<_> = (1..9).map(|v| (0, v)).collect();
    let two_triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)];
    let cases: [ExtremeCase<'_>; 6] = [
        (0, &[], [Some(0); 5]),
        (1, &[], [Some(0), Some(1), Some(1), Some(0), Some(1)]),
        (7, &[], [Some(0), Some(7), Some(1), Some(0), Some(7)]),
        (9, &complete, [Some(8), Some(1), Some(9), Some(20), Some(1)]),
        (9, &star, [None, None, Some(2), None, None]),
        (
            6,
            &two_triangles,
            [Some(4), Some(2), Some(3), Some(4), Some(2)],
        ),
    ];
    for (n, edges, expected) in cases {
        let graph = Arc::new(Graph::from_edges(n, edges).unwrap());
        assert_eq!(PROBLEMS.len(), expected.len(), "a problem without answers");
        for ((problem, expected), seed) in PROBLEMS.iter().zip(expected).zip(0..) {
            for n_ranks in [1, 3] {
                let options = SolveOptions {
                    n_ranks,
                    ..SolveOptions::default()
                };
                let found = answer(problem, &graph, &policy(problem, seed, 2), &options);
                if let Some(expected) = expected {
                    assert_eq!(
                        found.objective,
                        Objective::Count(expected),
                        "{problem:?} {n}"
                    );
                }
            }
        }
    }
}

#[test]
fn processes_find_the_answer_of_threads() {
    let graph = graph_of(40, 6, false);
    for problem in PROBLEMS {
        let policy = policy(problem, 4, 2);
        let options = SolveOptions::default();
        let want = answer(problem, &graph, &policy, &options).nodes;
        let found = tcp::run(3, |mut comm| {
            solve_problem_as_rank(
                &mut comm,
                problem,
                &graph,
                &policy,
                &options,
                &mut |_, _| (),
            )
        });
        for answer in found {
            assert_eq!(answer.unwrap().unwrap().nodes, want);
        }
        // Each process its own problem, or its own graph: told on all of them.
        let lists = [graph_of(40, 6, false), graph_of(40, 7, false)];
        let told = tcp::run(2, |mut comm| {
            let graph = &lists[comm.rank() as usize];
            solve_problem_as_rank(&mut comm, problem, graph, &policy, &options, &mut |_, _| ())
        });
        for error in told {
            let error = error.unwrap().unwrap_err().to_string();
            assert!(
                error.contains("rank 1 has another graph than rank 0"),
                "{error}"
            );
        }
    }
}

#[test]
fn devices_find_checked_answers_on_any_number_of_ranks() {
    let graph = graph_of(24, 2, false);
    for device in crate::on_device::tests::gpus() {
        for problem in PROBLEMS {
            let policy = policy(problem, 2, 2);
            let on = |n_ranks| SolveOptions {
                n_ranks,
                device: device.clone(),
                ..SolveOptions::default()
            };
            let want = answer(problem, &graph, &policy, &on(1));
            assert_eq!(answer(problem, &graph, &policy, &on(2)).nodes, want.nodes);
        }
    }
}

fn refused(
    problem: &Problem,
    graph: &Arc<Graph>,
    policy: &TrainedPolicy,
    options: &SolveOptions,
) -> String {
    let error = solve_problem(problem, graph, policy, options, &mut |_, _| ()).unwrap_err();
    assert_eq!(error.class(), Class::Input, "{error}");
    error.to_string()
}

#[test]
fn what_does_not_fit_is_named() {
    let graph = graph_of(12, 3, false);
    let options = SolveOptions::default();
    let mut wide = PolicyConfig::of_problem(&MAXIMUM_CUT, 6, 2, AdjacencyScale::One);
    wide.n_node_features = 3;
    let wide = TrainedPolicy::random(wide, 1, 0.1).unwrap();
    let text = refused(&MAXIMUM_CUT, &graph, &wide, &options);
    assert!(
        text.contains("reads 3 features of a node, and problem `cut` has 1"),
        "{text}"
    );
    let mis = policy(&MAXIMUM_INDEPENDENT_SET, 1, 2);
    let weighted = graph_of(12, 3, true);
    let text = refused(&MAXIMUM_INDEPENDENT_SET, &weighted, &mis, &options);
    assert!(
        text.contains("maximum independent set reads no edge weights"),
        "{text}"
    );
    let collapsed = SolveOptions {
        path: Some(Path::Collapsed),
        ..SolveOptions::default()
    };
    let cut = policy(&MAXIMUM_CUT, 1, 2);
    let text = refused(&MAXIMUM_CUT, &graph, &cut, &collapsed);
    assert!(text.contains("nodes without features"), "{text}");
    let text = problem_by_name("tsp").unwrap_err().to_string();
    let expected = "expected mvc, mis, clique, cut or dominating-set; found tsp";
    assert_eq!(text, expected);
}

#[test]
fn a_policy_serves_its_own_problem_alone() {
    let graph = graph_of(12, 3, false);
    let options = SolveOptions::default();
    let mis = policy(&MAXIMUM_INDEPENDENT_SET, 1, 2);
    let text = refused(&MAXIMUM_CUT, &graph, &mis, &options);
    assert!(
        text.contains("the policy is for problem `mis`, not `cut`"),
        "{text}"
    );
    let adjacency = Adjacency::Csr(Arc::clone(&graph));
    let cut = policy(&MAXIMUM_CUT, 1, 2);
    for (name, error) in [
        (
            "mis",
            solve(&adjacency, &mis, &options, &mut |_, _| ()).map(|_| ()),
        ),
        ("cut", score_nodes(&adjacency, &cut, &options).map(|_| ())),
    ] {
        let text = error.unwrap_err().to_string();
        let why = format!("the policy is for problem `{name}`, not `mvc`");
        assert!(text.contains(&why), "{text}");
    }
}

#[test]
fn policies_for_covers_and_for_sets_score_the_first_state_alike() {
    let adjacency = Adjacency::Csr(graph_of(40, 5, false));
    let scores = |problem: &Problem| {
        let policy = policy(problem, 1, 2);
        let scores = score_nodes(&adjacency, &policy, &SolveOptions::default());
        let bits = scores.unwrap().values.into_iter().map(f32::to_bits);
        bits.collect::<Vec<_>>()
    };
    let sets = scores(&MAXIMUM_INDEPENDENT_SET);
    assert_eq!(sets, scores(&MINIMUM_VERTEX_COVER));
    assert!(sets.iter().any(|bits| *bits != sets[0]));
}

#[test]
fn wrong_answers_are_told_by_the_nodes_that_are_wrong() {
    let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
    let cases: [(usize, &[u32], &str); 7] = [
        (
            0,
            &[0, 1],
            "minimum vertex cover: the edge between nodes 2 and 3 is not covered",
        ),
        (
            1,
            &[0, 2, 3],
            "maximum independent set: nodes 2 and 3 of the set are joined",
        ),
        (
            2,
            &[1, 3],
            "maximum clique: nodes 1 and 3 of the clique are not joined",
        ),
        (3, &[1, 4], "maximum cut: node 4 does not exist"),
        (3, &[1, 1], "maximum cut: node 1 is in the answer twice"),
        (4, &[0], "minimum dominating set: node 2 is not dominated"),
        (4, &[], "minimum dominating set: node 0 is not dominated"),
    ];
    for (at, nodes, why) in cases {
        let error = check_answer(PROBLEMS[at], &path, nodes).unwrap_err();
        assert_eq!(error.class(), Class::NoAnswer);
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// Scores that are no numbers are no ranking: an error, not a pick.
#[test]
fn scores_beyond_numbers_are_refused() {
    let graph = graph_of(12, 3, false);
    for problem in PROBLEMS {
        // Two layers have a closed form, but not with coefficients beyond numbers.
        for n_layers in [2, 3] {
            let mut policy = policy(problem, 2, n_layers);
            let huge = vec![1e30; policy.params.flat().len()];
            policy.params.set_flat(&huge).unwrap();
            for n_ranks in [1, 3] {
                let options = SolveOptions {
                    n_ranks,
                    ..SolveOptions::default()
                };
                let error = solve_problem(problem, &graph, &policy, &options, &mut |_, _| ());
                let error = error.unwrap_err();
                assert_eq!(error.class(), Class::NoAnswer, "{error}");
                assert!(error.to_string().contains("range of numbers"), "{error}");
            }
        }
    }
}

/// A file of a problem without features is what it was before there were others.
#[test]
fn shipped_files_are_written_as_they_were_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in TrainedPolicy::shipped_names() {
        let policy = TrainedPolicy::read(name.as_ref()).unwrap();
        let problem = problem_by_name(&policy.config.problem).unwrap();
        policy.check_problem(problem).unwrap();
        let path = folder.path().join(name);
        policy.write(&path).unwrap();
        let shipped = format!("{}/policies/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            std::fs::read(path).unwrap(),
            std::fs::read(shipped).unwrap(),
            "{name}"
        );
    }
    for problem in PROBLEMS {
        let policy = TrainedPolicy::shipped_for(problem).unwrap();
        assert_eq!(policy.config.problem, problem.name);
    }
}

/// Where learning shows: graphs five to ten times as large as those of training, none of which chose the policy.
#[test]
fn shipped_policies_beat_greedy_answers() {
    let graphs = [
        ("mis", "er:250:0.15"),
        ("clique", "er:200:0.5"),
        ("cut", "ba:250:4"),
        ("dominating-set", "er:100:0.15"),
    ];
    for (name, spec) in graphs {
        let problem = problem_by_name(name).unwrap();
        let policy = TrainedPolicy::shipped_for(problem).unwrap();
        let (mut ours, mut greedy) = (0.0, Vec::new());
        for seed in 1000..1010 {
            let graph = spec.parse::<GeneratorSpec>().unwrap().graph(seed).unwrap();
            let graph = Arc::new(graph);
            let found = answer(problem, &graph, &policy, &SolveOptions::default());
            ours += found.objective.value();
            let baselines = problem.baselines;
            greedy.resize(baselines.len(), 0.0);
            for (sum, Baseline { find, .. }) in greedy.iter_mut().zip(baselines) {
                let nodes = find(&graph);
                *sum += check_answer(problem, &graph, &nodes).unwrap().value();
            }
        }
        let beats = |greedy: &f64| match problem.sense {
            Sense::Minimise => ours < *greedy,
            Sense::Maximise => ours > *greedy,
        };
        assert!(
            greedy.iter().all(beats),
            "{name}: {ours} against {greedy:?}"
        );
    }
}
