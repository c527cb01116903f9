//! Grids of ranks, environments side by side, prioritised draws, and the graphs that ranks share.

use std::sync::Arc;

use shardgraph_collectives::tcp;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{EdgeSink, GraphBuilder};
use shardgraph_random::KeyedRng;

use super::{bits, file, in_folder, run, scalars, small, why};
use crate::AdjacencyScale;
use crate::problem::{Episode, MAXIMUM_CUT, MINIMUM_VERTEX_COVER, PROBLEMS, Problem};
use crate::train::batch::{Batch, BatchRules, Plan};
use crate::train::dataset::Dataset;
use crate::train::grid::Grid;
use crate::train::memory::{Drawn, ReplayMemory};
use crate::train::{Preset, PrioritizedConfig, RunOptions, TargetRule, TrainConfig, train_as_rank};
use shardgraph_layers::Path;

/// (ranks, rows of the grid).
const GRIDS: [(u32, u32); 9] = [
    (2, 1),
    (2, 2),
    (3, 3),
    (4, 2),
    (5, 5),
    (6, 1),
    (6, 2),
    (6, 3),
    (6, 6),
];

fn on_grid(n_ranks: u32, n_batch_ranks: u32) -> RunOptions {
    RunOptions {
        n_ranks,
        n_batch_ranks,
        ..RunOptions::default()
    }
}

fn prioritized() -> Option<PrioritizedConfig> {
    Some(PrioritizedConfig {
        beta_steps: 30,
        ..PrioritizedConfig::default()
    })
}

/// One graph with many states of it in a batch, shared out three at a time.
fn one_graph(n_layers: usize) -> TrainConfig {
    TrainConfig {
        graphs: vec!["er:70:0.1".to_string()],
        graphs_per_generator: 1,
        batch_size: 18,
        states_per_product: Some(3),
        n_layers,
        ..small(30)
    }
}

fn side_by_side(steps: u64) -> TrainConfig {
    TrainConfig {
        environments: 3,
        prioritized: prioritized(),
        gradient_iterations: 2,
        ..small(steps)
    }
}

#[test]
fn every_grid_trains_the_same_bits() {
    let variants = [
        small(40),
        one_graph(2),
        one_graph(3),
        side_by_side(44),
        TrainConfig {
            n_layers: 3,
            states_per_product: Some(2),
            ..side_by_side(26)
        },
        TrainConfig {
            batch_size: 8,
            embed_dim: 8,
            steps: 30,
            environments: 2,
            ..TrainConfig::preset(Preset::Paper)
        },
        TrainConfig {
            problem: "cut".to_string(),
            environments: 2,
            huber_delta: Some(1.0),
            ..small(24)
        },
    ];
    for config in variants {
        let want = run(&config, &RunOptions::default());
        assert!(want.reports.iter().any(|report| report.loss.is_some()));
        for (n_ranks, n_rows) in GRIDS {
            let got = run(&config, &on_grid(n_ranks, n_rows));
            assert_eq!(bits(&got), bits(&want), "{n_ranks} ranks in {n_rows} rows");
            assert_eq!(got.reports, want.reports);
        }
    }
}

#[test]
fn processes_make_a_grid_too() {
    let config = side_by_side(24);
    let want = run(&config, &RunOptions::default());
    let outcomes = tcp::run(4, |mut comm| {
        train_as_rank(&mut comm, &config, &on_grid(1, 2), &mut |_| ()).unwrap()
    });
    for outcome in outcomes.into_iter().map(Result::unwrap) {
        assert_eq!(bits(&outcome), bits(&want));
    }
    let errors = tcp::run(2, |mut comm| {
        let options = on_grid(1, comm.rank() + 1);
        train_as_rank(&mut comm, &config, &options, &mut |_| ()).unwrap_err()
    });
    for error in errors.into_iter().map(Result::unwrap) {
        let text = "rank 1 has another number of batch ranks than rank 0";
        assert!(error.to_string().starts_with(text), "{error}");
    }
}

/// One graph is one part, unless its states are shared out.
#[test]
fn rows_without_work_are_refused() {
    let config = |states_per_product| TrainConfig {
        states_per_product,
        ..one_graph(2)
    };
    for (states_per_product, n_ranks) in [(None, 3), (Some(18), 3), (Some(9), 4)] {
        let options = on_grid(n_ranks, n_ranks);
        let error =
            crate::train::train(&config(states_per_product), &options, &mut |_| ()).unwrap_err();
        assert!(
            error.to_string().contains("set `states_per_product`"),
            "{error}"
        );
    }
    run(&config(Some(9)), &on_grid(2, 2));
}

#[test]
fn a_grid_that_does_not_fit_is_refused() {
    for (n_ranks, n_rows) in [(1, 2), (6, 4), (6, 0)] {
        let options = on_grid(n_ranks, n_rows);
        let error = crate::train::train(&small(3), &options, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("batch ranks of"), "{error}");
    }
}

/// The parts of a batch are other floating-point sums, and otherwise the same gradient.
#[test]
fn products_of_fewer_states_train_nearly_the_same() {
    let together = TrainConfig {
        states_per_product: None,
        ..one_graph(3)
    };
    let (a, b) = (
        run(&together, &RunOptions::default()),
        run(&one_graph(3), &RunOptions::default()),
    );
    let (a, b) = (a.policy.params.flat(), b.policy.params.flat());
    let far = a.iter().zip(b).find(|(a, b)| (**a - **b).abs() > 1e-3);
    assert!(far.is_none(), "{far:?}");
}

#[test]
fn a_resumed_run_with_everything_is_the_uninterrupted_one() {
    for target in [TargetRule::Recomputed, TargetRule::Stored] {
        let n_step = if target == TargetRule::Stored { 1 } else { 3 };
        let config = |steps| TrainConfig {
            target,
            n_step,
            replay_capacity: 61, // 20 for each environment: old transitions are overwritten
            ..side_by_side(steps)
        };
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let want = run(&config(60), &in_folder(whole.path(), false, 1));
        run(&config(29), &in_folder(parts.path(), false, 1));
        let resumed = RunOptions {
            n_batch_ranks: 2,
            ..in_folder(parts.path(), true, 4)
        };
        let got = run(&config(60), &resumed);
        assert_eq!(bits(&got), bits(&want));
        assert_eq!(got.reports, want.reports[29..]);
        for name in [
            "metrics.jsonl",
            "policy.safetensors",
            "checkpoint-0000000060/state.safetensors",
            "checkpoint-0000000060/run.json",
        ] {
            assert!(
                file(parts.path(), name) == file(whole.path(), name),
                "{name}"
            );
        }
        assert_eq!(scalars(parts.path()), scalars(whole.path()));
    }
}

#[test]
fn environments_are_reported_together() {
    let outcome = run(
        &TrainConfig {
            graphs: vec!["ba:5:1".to_string()],
            environments: 7,
            ..small(20)
        },
        &RunOptions::default(),
    );
    let ended: Vec<_> = outcome
        .reports
        .iter()
        .filter(|r| r.ended.is_some())
        .collect();
    assert!(ended.iter().any(|report| report.n_ended() > 1));
    for report in &outcome.reports {
        assert_eq!(report.cover, None);
        assert_eq!(report.objective.is_some(), report.ended.is_some());
        assert_eq!(report.n_ended() > 0, report.ended_episode());
        // A tree of five nodes has a cover of 1 or 2 nodes; no pick without an edge is possible, so of at most 4.
        assert!(
            report
                .objective
                .is_none_or(|mean| (1.0..=4.0).contains(&mean))
        );
    }
}

/// Each state of a batch has the rows that it has alone, whatever stands beside it.
#[test]
fn rows_of_a_batch_are_those_of_its_states() {
    let graphs = ["er:40:0.3", "ba:25:3"].map(|spec| {
        let spec: GeneratorSpec = spec.parse().unwrap();
        Arc::new(spec.graph(5).unwrap())
    });
    for problem in PROBLEMS {
        let mut random = KeyedRng::new(3, "test", 0);
        let state = |i: u64| {
            let graph_id = u64::from(i.is_multiple_of(7));
            let graph = &graphs[graph_id as usize];
            (graph_id, played(problem, graph, i / 2, &mut random))
        };
        let states: Vec<_> = (0..31).map(state).collect();
        for limit in [1, 2, 5, usize::MAX] {
            let rules = alone_in_products_of(limit, problem);
            let given = |(id, _): &(u64, _)| (*id, Arc::clone(&graphs[*id as usize]));
            let plan = Plan::new(&states.iter().map(given).collect::<Vec<_>>(), &rules);
            let episodes: Vec<_> = states.iter().map(|(_, e)| Some(e)).collect();
            let batch = Batch::new(&plan, &episodes, None, &rules).unwrap();
            let nodes: Vec<u32> = plan.nodes().collect();
            for (i, (id, episode)) in states.iter().enumerate() {
                let one = [given(&states[i])];
                let alone_plan = Plan::new(&one, &rules);
                let alone = Batch::new(&alone_plan, &[Some(episode)], None, &rules).unwrap();
                for node in 0..graphs[*id as usize].n_nodes() {
                    let row = plan.row(i, node).unwrap();
                    assert_eq!(nodes[row], node);
                    assert_eq!(batch.states.layout.states()[row] as usize, plan.state(i));
                    assert_eq!(batch.candidate[row], episode.is_candidate(node));
                    if let Some(found) = batch.states.neighbor_degree.get(row) {
                        let graph = &graphs[*id as usize];
                        let want = naive_d2(graph, episode, node);
                        assert_eq!(found.to_bits(), want.to_bits());
                    }
                    let alone_row = alone_plan.row(0, node).unwrap();
                    assert_eq!(read_row(&batch, row), read_row(&alone, alone_row));
                }
            }
        }
    }
}

/// Degrees of 16 bits are widened before they overflow, larger ones are added in 32.
#[test]
fn degrees_of_every_size_add_up() {
    let mut star = GraphBuilder::new();
    (1..70_000).for_each(|leaf| star.edge(0, leaf, 1.0).unwrap());
    let dense: GeneratorSpec = "er:600:0.6".parse().unwrap();
    let problem = PROBLEMS[0];
    let rules = alone_in_products_of(usize::MAX, problem);
    for graph in [
        star.finish(70_000, false).unwrap().0,
        dense.graph(5).unwrap(),
    ] {
        let (graph, mut random) = (Arc::new(graph), KeyedRng::new(3, "test", 0));
        let states: Vec<_> = (0..11)
            .map(|i| played(problem, &graph, i % 4, &mut random))
            .collect();
        let given: Vec<_> = states.iter().map(|_| (0, Arc::clone(&graph))).collect();
        let plan = Plan::new(&given, &rules);
        let episodes: Vec<_> = states.iter().map(Some).collect();
        let batch = Batch::new(&plan, &episodes, None, &rules).unwrap();
        for (i, episode) in states.iter().enumerate() {
            for node in 0..graph.n_nodes().min(700) {
                let found = batch.states.neighbor_degree[plan.row(i, node).unwrap()];
                let want = naive_d2(&graph, episode, node);
                assert_eq!(found.to_bits(), want.to_bits(), "state {i}, node {node}");
            }
        }
    }
}

pub(super) fn alone_in_products_of(states_per_product: usize, problem: &Problem) -> BatchRules {
    BatchRules {
        counts_on_device: false,
        scale: AdjacencyScale::LargestDegree,
        path: match problem.n_node_features {
            0 => Path::Collapsed,
            _ => Path::FreeFirstLayer,
        },
        n_layers: 2,
        grid: Grid::new(1, 1, 0).unwrap(),
        states_per_product,
    }
}

/// The scaled sum over present neighbours of their numbers of present neighbours.
fn naive_d2(graph: &shardgraph_graph::Graph, episode: &Episode, node: u32) -> f32 {
    let residual = episode.state().residual();
    let present = |v: u32| {
        let neighbors = graph.neighbors(v).iter().copied();
        neighbors.filter(move |&u| residual.is_present(v) && residual.is_present(u))
    };
    let d2: usize = present(node).map(|u| present(u).count()).sum();
    let scale = AdjacencyScale::LargestDegree.of_state(episode);
    d2 as f32 * (scale * scale)
}

/// What the network reads of a row.
fn read_row(batch: &Batch, row: usize) -> [Vec<f32>; 3] {
    let states = &batch.states;
    let n_rows = states.layout.n_rows();
    [&states.node, &states.edge, &states.neighbor_degree].map(|values| {
        let width = values.len() / n_rows;
        values[row * width..(row + 1) * width].to_vec()
    })
}

pub(super) fn played(
    problem: &Problem,
    graph: &Arc<shardgraph_graph::Graph>,
    n_picks: u64,
    random: &mut KeyedRng,
) -> Episode {
    let mut episode = problem.begin(Arc::clone(graph));
    for _ in 0..n_picks {
        let nodes = 0..graph.n_nodes();
        let candidates: Vec<u32> = nodes.filter(|&v| episode.is_candidate(v)).collect();
        let Some(&pick) = candidates.get(random.below(candidates.len().max(1) as u64) as usize)
        else {
            break;
        };
        episode.pick(pick).unwrap();
    }
    episode
}

/// Draws name transitions by environment and age; those with a large error come often and weigh little.
#[test]
fn draws_follow_the_errors() {
    let config = TrainConfig {
        prioritized: Some(PrioritizedConfig {
            alpha: 1.0,
            beta_start: 1.0,
            ..PrioritizedConfig::default()
        }),
        environments: 3,
        replay_capacity: 30,
        ..small(1)
    };
    let all = drawn_with_one_large_error(&config);
    for (drawn, pick) in &all {
        assert_eq!(*pick / 100, drawn.environment as u32);
        assert_eq!(u64::from(*pick / 100), drawn.transition.graph_id);
        assert!((4..14).contains(&(pick % 100)), "{pick} is overwritten");
        assert_eq!(drawn.transition.step, pick % 100);
        assert!(drawn.weight > 0.0 && drawn.weight <= 1.0);
    }
    let late: Vec<&(Drawn, u32)> = all[240..].iter().collect();
    let n_large = late.iter().filter(|(_, pick)| *pick == 207).count();
    assert!(
        2 * n_large > late.len(),
        "{n_large} of {} draws, expected about 50 of 79",
        late.len()
    );
    let weights = late.iter().filter(|(_, pick)| *pick == 207);
    assert!(weights.map(|(drawn, _)| drawn.weight).all(|w| w < 0.03));
    let others = late.iter().filter(|(_, pick)| *pick != 207);
    assert!(others.map(|(drawn, _)| drawn.weight).all(|w| w > 0.97));
}

/// Draws out of a memory of 14 steps of three environments, with what each picked: 207 has a large error.
fn drawn_with_one_large_error(config: &TrainConfig) -> Vec<(Drawn, u32)> {
    let mut memory = ReplayMemory::new(config).unwrap();
    for environment in 0..3 {
        memory.begin_episode(environment, environment as u64);
    }
    // The pick says which transition it is.
    for step in 0..14 {
        for environment in 0..3 {
            let pick = 100 * environment as u32 + step;
            memory.record(environment, pick, -1.0, None).unwrap();
        }
    }
    let mut stream = KeyedRng::new(1, "test", 0);
    let mut all = Vec::new();
    for step in 0..60 {
        let drawn = memory.draw(8, step, &mut stream).unwrap();
        let picks: Vec<u32> = drawn.iter().map(|d| memory.pick(d).unwrap()).collect();
        let error = |pick: &u32| if *pick == 207 { 50.0 } else { 1.0 };
        let errors: Vec<f32> = picks.iter().map(error).collect();
        memory.set_errors(&errors).unwrap();
        all.extend(drawn.into_iter().zip(picks));
    }
    all
}

/// Importance weights are part of the loss: without an exponent they are 1, and the run is that of uniform weights.
#[test]
fn priorities_and_weights_change_a_run() {
    let with = |alpha, beta| {
        let config = TrainConfig {
            prioritized: Some(PrioritizedConfig {
                alpha,
                beta_start: beta,
                beta_end: beta,
                ..PrioritizedConfig::default()
            }),
            ..small(40)
        };
        bits(&run(&config, &RunOptions::default()))
    };
    let base = with(0.6, 0.4);
    assert_eq!(with(0.6, 0.4), base);
    assert_ne!(with(0.6, 1.0), base);
    assert_ne!(with(0.9, 0.4), base);
    // All priorities are 1: the weights are too, whatever the exponent.
    assert_eq!(with(0.0, 0.0), with(0.0, 1.0));
}

#[test]
fn clones_share_the_graphs_that_were_made() {
    let dataset = Dataset::new(&MINIMUM_VERTEX_COVER, &small(1)).unwrap();
    let clone = dataset.clone();
    let (a, b) = (dataset.graph(3).unwrap(), clone.graph(3).unwrap());
    assert!(Arc::ptr_eq(&a, &b));
}

/// Most graphs of this model have no edge: a hundred draws would not always find one.
#[test]
fn a_generator_of_few_edges_goes_on() {
    let config = TrainConfig {
        graphs: vec!["er:3:0.003".into()],
        ..small(1)
    };
    let dataset = Dataset::new(&MINIMUM_VERTEX_COVER, &config).unwrap();
    assert!((0..5).all(|id| dataset.graph(id).unwrap().n_edges() > 0));
}

#[test]
fn weights_of_edge_lists_are_trained_on_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.el");
    std::fs::write(&path, "a b 3\nb c 1\nc a 5\nc d 1\nd a 2\nb d 7\n").unwrap();
    let config = |weighted| TrainConfig {
        problem: "cut".into(),
        graphs: vec![path.display().to_string()],
        weighted,
        ..small(40)
    };
    let (plain, weighted) = (
        run(&config(false), &RunOptions::default()),
        run(&config(true), &RunOptions::default()),
    );
    assert_ne!(bits(&plain), bits(&weighted));
    let best = |outcome: &crate::train::TrainOutcome| {
        let objectives = outcome.reports.iter().filter_map(|r| r.objective);
        objectives.fold(0.0, f64::max)
    };
    assert_eq!((best(&plain), best(&weighted)), (4.0, 16.0));
    let made = TrainConfig {
        graphs: vec!["er:20:0.4".into()],
        ..config(true)
    };
    assert!(why(made).contains("have no weights"));
    let matrix = folder.path().join("g.mtx");
    let text = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n";
    std::fs::write(&matrix, text).unwrap();
    let pattern = TrainConfig {
        graphs: vec![matrix.display().to_string()],
        ..config(true)
    };
    assert!(why(pattern).contains("g.mtx has no edge weights"));
    let cover = TrainConfig {
        problem: "mvc".into(),
        ..config(true)
    };
    assert!(why(cover).contains("reads no edge weights"));
    assert!(MAXIMUM_CUT.reads_weights);
}

/// `small` with settings that cannot be right.
fn wrong(change: impl FnOnce(&mut TrainConfig)) -> String {
    let mut config = small(5);
    change(&mut config);
    why(config)
}

#[test]
fn wrong_numbers_are_named() {
    for environments in [0, 4097] {
        let message = wrong(|config| config.environments = environments);
        assert!(
            message.contains("`environments`: expected 1 to 4096"),
            "{message}"
        );
    }
    let message = wrong(|config| (config.environments, config.replay_capacity) = (9, 8));
    assert!(message.contains("equal shares"), "{message}");
    let message = wrong(|config| config.states_per_product = Some(0));
    assert!(message.contains("states_per_product"), "{message}");
}

#[test]
fn wrong_priorities_are_named() {
    let message = wrong(|config| {
        (config.prioritized, config.replay_capacity) = (prioritized(), (1 << 27) + 1);
    });
    assert!(message.contains("at most 2^27"), "{message}");
    for (key, change) in [
        (
            "alpha",
            PrioritizedConfig {
                alpha: 1.5,
                ..PrioritizedConfig::default()
            },
        ),
        (
            "epsilon",
            PrioritizedConfig {
                epsilon: 0.0,
                ..PrioritizedConfig::default()
            },
        ),
        (
            "beta_end",
            PrioritizedConfig {
                beta_end: -1.0,
                ..PrioritizedConfig::default()
            },
        ),
    ] {
        let message = wrong(|config| config.prioritized = Some(change));
        assert!(
            message.contains(&format!("`prioritized.{key}`: ")),
            "{message}"
        );
    }
}
