//! Training in every way of sharing neighbour sums and with every pair of layers, and whose error becomes whose priority.

use std::path::Path;

use shardgraph_collectives::Comm;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::Communication;

use super::{bits, in_folder, run, small};
use crate::problem::problem_by_name;
use crate::residual::Ranks;
use crate::tests::communication::LAYERS;
use crate::train::trainer::Trainer;
use crate::train::{PrioritizedConfig, RunOptions, TrainConfig, train};
use shardgraph_error::Class;

/// Three layers over several graphs of different sizes, two environments; all picks are drawn, so that rounding decides none.
fn three_layers() -> TrainConfig {
    TrainConfig {
        graphs: ["er:20:0.2", "ba:33:2", "er:70:0.06"]
            .map(String::from)
            .to_vec(),
        n_layers: 3,
        environments: 2,
        epsilon_start: 1.0,
        epsilon_end: 1.0,
        ..small(14)
    }
}

const GRIDS: [(u32, u32); 9] = [
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 1),
    (5, 1),
    (6, 1),
    (4, 2),
    (6, 2),
    (6, 3),
];

/// The largest difference of two runs' parameters.
fn largest_difference(one: &[f32], other: &[f32]) -> f32 {
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn sharing(n_ranks: u32, n_batch_ranks: u32, communication: Communication) -> RunOptions {
    RunOptions {
        n_ranks,
        n_batch_ranks,
        communication: Some(communication),
        ..RunOptions::default()
    }
}

/// Edge lists with weights of both signs, in a folder.
fn weighted_files(folder: &Path) -> Vec<String> {
    let write = |(i, spec): (usize, &str)| {
        let spec: GeneratorSpec = spec.parse().unwrap();
        let graph = spec.graph(i as u64).unwrap();
        let line = |(u, v): (u32, u32)| {
            let weight = f64::from((3 * u + 5 * v) % 11) - 2.5;
            format!("{u} {v} {weight}\n")
        };
        let path = folder.join(format!("{i}.el"));
        std::fs::write(&path, graph.edges().map(line).collect::<String>()).unwrap();
        path.display().to_string()
    };
    let specs = ["er:20:0.2", "ba:33:2", "er:70:0.06"];
    specs.into_iter().enumerate().map(write).collect()
}

#[test]
fn ways_of_sharing_sums_train_alike() {
    let folder = tempfile::tempdir().unwrap();
    let weighted_cut = TrainConfig {
        problem: "cut".to_string(),
        graphs: weighted_files(folder.path()),
        weighted: true,
        ..three_layers()
    };
    for config in [three_layers(), weighted_cut] {
        let want = run(&config, &RunOptions::default());
        assert!(want.reports.iter().any(|report| report.loss.is_some()));
        assert!(want.exchange.is_some());
        let start =
            Trainer::new(problem_by_name(&config.problem).unwrap(), config.clone()).unwrap();
        let trained = want.policy.params.flat();
        let moved = largest_difference(start.policy.params.flat(), trained);
        for communication in Communication::ALL {
            for (n_ranks, n_rows) in GRIDS {
                let got = run(&config, &sharing(n_ranks, n_rows, communication));
                let name = format!("{communication} on {n_ranks} ranks in {n_rows} rows");
                if communication.is_exact() {
                    assert_eq!(bits(&got), bits(&want), "{name}");
                    continue;
                }
                // Rounding moves the parameters a hundredth of what learning does, and less.
                let far = largest_difference(got.policy.params.flat(), trained);
                assert!(far <= 0.01 * moved, "{name}: {far} of {moved}");
            }
        }
    }
}

#[test]
fn every_pair_of_layers_trains_the_same_bits_on_ranks() {
    for (embedding, head) in LAYERS {
        let config = TrainConfig {
            embedding,
            head,
            n_layers: 2,
            ..small(24)
        };
        let want = run(&config, &RunOptions::default());
        assert_eq!(
            (want.policy.config.embedding, want.policy.config.head),
            (embedding, head)
        );
        let losses: Vec<f32> = want
            .reports
            .iter()
            .filter_map(|report| report.loss)
            .collect();
        assert!(
            losses
                .iter()
                .any(|loss| loss.to_bits() != losses[0].to_bits()),
            "it learns"
        );
        for (n_ranks, n_batch_ranks) in [(2, 1), (3, 1), (4, 2), (5, 1), (6, 3)] {
            let options = RunOptions {
                n_ranks,
                n_batch_ranks,
                ..RunOptions::default()
            };
            let got = run(&config, &options);
            assert_eq!(
                bits(&got),
                bits(&want),
                "{embedding} {head}, {n_ranks} ranks"
            );
            assert_eq!(got.reports, want.reports);
        }
    }
}

#[test]
fn a_way_without_use_is_refused() {
    let options = sharing(2, 1, Communication::ColumnAllReduce);
    let error = train(&small(4), &options, &mut |_| ()).unwrap_err();
    assert_eq!(error.class(), Class::Input);
    assert!(
        error.to_string().contains("communication `paper`"),
        "{error}"
    );
}

/// A run's options in a folder, on so many ranks in so many rows, with a way of sharing sums.
fn in_way(
    folder: &Path,
    resume: bool,
    n_ranks: u32,
    n_batch_ranks: u32,
    communication: Option<Communication>,
) -> RunOptions {
    RunOptions {
        n_batch_ranks,
        communication,
        ..in_folder(folder, resume, n_ranks)
    }
}

/// Floats that are added over ranks are added in the same way after a resume, or not at all.
#[test]
fn a_run_goes_on_only_as_its_ranks_added_floats() {
    let (whole, half) = (
        three_layers(),
        TrainConfig {
            steps: 9,
            ..three_layers()
        },
    );
    let (paper, halo) = (
        Some(Communication::ColumnAllReduce),
        Some(Communication::Halo),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    run(&half, &in_way(path, false, 4, 1, paper));
    for ((n_ranks, n_batch_ranks), communication) in [
        ((1, 1), None),
        ((4, 1), None),
        ((4, 1), halo),
        ((2, 1), paper),
        ((4, 2), paper),
        ((4, 1), Some(Communication::Grid)),
    ] {
        let error = train(
            &whole,
            &in_way(path, true, n_ranks, n_batch_ranks, communication),
            &mut |_| (),
        );
        let error = error.unwrap_err();
        assert_eq!(error.class(), Class::Input);
        let text = error.to_string();
        assert!(
            text.contains("communication paper on 4 ranks in 1 rows"),
            "{text}"
        );
    }
    let resumed = run(&whole, &in_way(path, true, 4, 1, paper));
    assert_eq!(
        bits(&resumed),
        bits(&run(&whole, &sharing(4, 1, Communication::ColumnAllReduce)))
    );
}

#[test]
fn a_run_without_such_sums_goes_on_with_any_ranks() {
    let (whole, half) = (
        three_layers(),
        TrainConfig {
            steps: 9,
            ..three_layers()
        },
    );
    let (paper, halo) = (
        Some(Communication::ColumnAllReduce),
        Some(Communication::Halo),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    run(&half, &in_way(path, false, 4, 2, halo));
    let error = train(&whole, &in_way(path, true, 4, 1, paper), &mut |_| ());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("depend on no ranks")
    );
    let resumed = run(&whole, &in_way(path, true, 3, 1, None));
    assert_eq!(bits(&resumed), bits(&run(&whole, &RunOptions::default())));
}

/// A resumed call that begins no episode still has the graph of the running one.
#[test]
fn a_resumed_call_knows_its_largest_graph() {
    let config = |steps| TrainConfig {
        graphs: vec!["er:70:0.3".to_string()],
        environments: 1,
        steps,
        ..three_layers()
    };
    let folder = tempfile::tempdir().unwrap();
    let first = run(&config(9), &in_folder(folder.path(), false, 1));
    assert_eq!(first.largest_graph.0, 70);
    let second = run(&config(11), &in_folder(folder.path(), true, 1));
    assert_eq!(second.largest_graph, first.largest_graph);
}

/// The priorities after some steps, as the memory keeps them.
fn priorities(states_per_product: Option<usize>) -> Vec<f32> {
    let config = TrainConfig {
        prioritized: Some(PrioritizedConfig::default()),
        states_per_product,
        n_layers: 2,
        ..three_layers()
    };
    let mut trainer = Trainer::new(problem_by_name("mvc").unwrap(), config).unwrap();
    let mut comm = Comm::solo();
    let mut ranks = Ranks::new(&mut comm, shardgraph_collectives::Timeout::default());
    // Up to the first step that learns: later draws depend on the priorities.
    while trainer.advance(&mut ranks).unwrap().loss.is_none() {}
    trainer.memory.priorities()
}

/// A batch has its states graph by graph, and draws come in another order: each error has to find its own transition. With one state a
/// product both orders are one, which is what this compares with.
#[test]
fn an_error_becomes_the_priority_of_its_own_transition() {
    let (together, apart) = (priorities(None), priorities(Some(1)));
    let spread = |values: &[f32]| {
        let largest = values.iter().fold(0.0f32, |m, x| m.max(*x));
        largest - values.iter().fold(largest, |m, x| m.min(*x))
    };
    assert!(spread(&apart) > 0.1, "{apart:?}");
    for (a, b) in together.iter().zip(&apart) {
        assert!(
            (a - b).abs() <= 1e-4 * spread(&apart),
            "{together:?} {apart:?}"
        );
    }
}
