//! Training in every way of sharing neighbour sums and with every pair of layers, and whose error becomes whose priority.

use shardgraph_collectives::Comm;
use shardgraph_shard::Communication;

use super::tests::{bits, run, small};
use super::trainer::Trainer;
use super::{PrioritizedConfig, RunOptions, TrainConfig, train};
use crate::Fault;
use crate::communication_tests::LAYERS;
use crate::problem::problem_by_name;
use crate::residual::Ranks;

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

#[test]
fn ways_of_sharing_sums_train_alike() {
    let weighted_cut = TrainConfig {
        problem: "cut".to_string(),
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
    let options = sharing(2, 1, Communication::Paper);
    let error = train(&small(4), &options, &mut |_| ()).unwrap_err();
    assert_eq!(error.fault(), Fault::Input);
    assert!(
        error.to_string().contains("communication `paper`"),
        "{error}"
    );
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
    let mut ranks = Ranks {
        comm: &mut comm,
        deadline: shardgraph_collectives::Deadline::default(),
    };
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
