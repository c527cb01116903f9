//! Whole runs: parts equal the whole, a resumed run equals one that never stopped, and what must be
//! refused.

mod batches;
mod device;
mod device_ranks;
mod failures;
mod partition;
mod streamed;
mod tiles;
mod validation;

use shardgraph_collectives::threads;
use shardgraph_error::Class;
use shardgraph_random::KeyedRng;

use super::*;
use crate::{Mode, Optimiser, Sums};

/// A graph of two sorts of nodes that mostly know their own sort, and one of its four hubs, with
/// labels on some.
pub(super) fn sorted_graph(seed: u64, n_nodes: u32) -> (RelationalGraph, Labels) {
    let mut stream = KeyedRng::new(seed, "sorted graph", 0);
    let (mut sources, mut relations, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for source in 0..n_nodes {
        for edge in 0..4 {
            let other = match edge {
                0 => 2 * stream.below_u32(4) + source % 2,
                _ => stream.below_u32(n_nodes),
            };
            let is_kept = other % 2 == source % 2 || stream.chance(0.1);
            if is_kept {
                sources.push(source);
                relations.push(if edge == 0 { 0 } else { stream.below_u32(5) });
                targets.push(other);
            }
        }
    }
    let graph = RelationalGraph::new(n_nodes, 5, sources, relations, targets).unwrap();
    let graph = graph.with_inverses().unwrap();
    let labelled = |range: std::ops::Range<u32>| {
        range
            .map(|node| (node * 3, node * 3 % 2))
            .collect::<Vec<_>>()
    };
    let labels = Labels::new(2, labelled(0..60), labelled(60..90), labelled(90..100)).unwrap();
    (graph, labels)
}

fn run(graph: &RelationalGraph, labels: &Labels, config: &Config, n_ranks: u32) -> Outcome {
    let options = RunOptions {
        n_ranks,
        ..RunOptions::default()
    };
    train(graph, labels, config, &options, &mut |_| {}).unwrap()
}

pub(super) fn variants() -> Vec<Config> {
    let base = Config {
        epochs: 6,
        hidden: vec![8],
        ..Config::default()
    };
    vec![
        Config {
            bases: 5,
            dropout: 0.3,
            bias: true,
            l2: 1e-3,
            ..base.clone()
        },
        Config {
            bases: 0,
            mode: Mode::Full,
            ..base.clone()
        },
        Config {
            bases: 3,
            mode: Mode::Full,
            optimiser: Optimiser::Sgd,
            rate: 0.5,
            ..base.clone()
        },
        Config {
            embedding: 7,
            bases: 3,
            l2: 1e-3,
            ..base.clone()
        },
        Config {
            bases: 0,
            hidden: vec![6, 4],
            dropout: 0.2,
            ..base
        },
    ]
}

pub(super) fn losses(outcome: &Outcome) -> Vec<u64> {
    outcome
        .reports
        .iter()
        .map(|report| report.loss.to_bits())
        .collect()
}

#[test]
fn any_number_of_ranks_gives_the_same_bits() {
    let (graph, labels) = sorted_graph(1, 4000);
    for (variant, config) in variants().iter().enumerate() {
        let whole = run(&graph, &labels, config, 1);
        for n_ranks in 2..=6 {
            let parts = run(&graph, &labels, config, n_ranks);
            assert_eq!(
                losses(&whole),
                losses(&parts),
                "variant {variant}, {n_ranks} ranks"
            );
            assert_eq!(
                whole.params_hash, parts.params_hash,
                "variant {variant}, {n_ranks} ranks"
            );
            assert_eq!(whole.evaluation, parts.evaluation);
            assert_eq!(parts.bytes_per_rank.len(), n_ranks as usize);
        }
    }
}

#[test]
fn ranks_with_float_sums_are_close_after_fifty_epochs() {
    let (graph, labels) = sorted_graph(2, 3000);
    let config = Config {
        bases: 4,
        epochs: 50,
        mode: Mode::Full,
        sums: Sums::Float,
        optimiser: Optimiser::Sgd,
        rate: 0.5,
        ..Config::default()
    };
    let whole = run(&graph, &labels, &config, 1);
    let exact = run(
        &graph,
        &labels,
        &Config {
            sums: Sums::Exact,
            ..config.clone()
        },
        1,
    );
    let last = |outcome: &Outcome| outcome.reports[49].loss;
    assert!((last(&exact) / last(&whole) - 1.0).abs() < 1e-4);
    for n_ranks in 2..=4 {
        let parts = run(&graph, &labels, &config, n_ranks);
        assert!(
            (last(&parts) / last(&whole) - 1.0).abs() < 1e-4,
            "{n_ranks}"
        );
    }
}

#[test]
fn it_learns() {
    let (graph, labels) = sorted_graph(3, 600);
    for bases in [0, 8] {
        let config = Config {
            bases,
            ..Config::default()
        };
        let outcome = run(&graph, &labels, &config, 2);
        assert!(
            outcome.evaluation.train.accuracy > 0.99,
            "{:?}",
            outcome.evaluation
        );
        assert!(
            outcome.evaluation.test.unwrap().accuracy > 0.8,
            "{:?}",
            outcome.evaluation
        );
        let n_shown: u64 = outcome.evaluation.confusion.iter().flatten().sum();
        assert_eq!(n_shown, 30);
    }
}

#[test]
fn full_and_pruned_runs_agree() {
    let (graph, labels) = sorted_graph(4, 6000);
    for config in variants() {
        let config = Config {
            sums: Sums::Float,
            ..config
        };
        let full = run(
            &graph,
            &labels,
            &Config {
                mode: Mode::Full,
                ..config.clone()
            },
            1,
        );
        let pruned = run(
            &graph,
            &labels,
            &Config {
                mode: Mode::Pruned,
                ..config
            },
            1,
        );
        assert_eq!(losses(&full), losses(&pruned));
        assert_eq!(full.evaluation, pruned.evaluation);
    }
}

/// A run that is killed loses little, without a word about checkpoints; and a damaged one is named
/// for what it is.
#[test]
fn checkpoints_come_by_time() {
    let (graph, labels) = sorted_graph(5, 400);
    for (checkpoint_s, n_kept) in [(None, 1), (Some(1e9), 1), (Some(0.0), 2)] {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            epochs: 4,
            ..variants().swap_remove(0)
        };
        let options = RunOptions {
            n_ranks: 2,
            folder: Some(folder.path().to_owned()),
            checkpoint_s,
            ..RunOptions::default()
        };
        train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
        let checkpoint = |epoch: u32| folder.path().join(format!("checkpoint-{epoch:010}"));
        let found = (1..=4).filter(|&epoch| checkpoint(epoch).is_dir());
        assert_eq!(found.count(), n_kept, "{checkpoint_s:?}");
        assert!(checkpoint(4).is_dir());
        for epoch in (1..=4).filter(|&epoch| checkpoint(epoch).is_dir()) {
            std::fs::write(checkpoint(epoch).join("state.safetensors"), "cut").unwrap();
        }
        assert!(!crate::SavedLinks::is_in(folder.path()).unwrap());
        let error = evaluate(&graph, folder.path(), &labels, Timeout::default()).unwrap_err();
        assert!(error.to_string().contains("the file is damaged"), "{error}");
    }
}

#[test]
fn a_resumed_run_is_one_that_never_stopped() {
    let (graph, labels) = sorted_graph(5, 2000);
    for (variant, config) in variants().into_iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        let options = |name: &str, n_ranks, resume| RunOptions {
            n_ranks,
            folder: Some(scratch.path().join(name)),
            resume,
            checkpoint_epochs: 2,
            ..RunOptions::default()
        };
        let go = |epochs, options: &RunOptions| {
            let config = Config {
                epochs,
                ..config.clone()
            };
            train(&graph, &labels, &config, options, &mut |_| {}).unwrap()
        };
        let whole = go(6, &options("whole", 1, false));
        go(3, &options("parts", 3, false));
        let resumed = go(6, &options("parts", 2, true));
        assert_eq!(whole.params_hash, resumed.params_hash, "variant {variant}");
        assert_eq!(whole.evaluation, resumed.evaluation);
        let metrics = |name: &str| {
            std::fs::read_to_string(scratch.path().join(name).join("metrics.jsonl")).unwrap()
        };
        assert_eq!(metrics("whole"), metrics("parts"));
        assert_eq!(metrics("whole").lines().count(), 6);
        let path = scratch.path().join("parts");
        let again = evaluate(&graph, &path, &labels, Timeout::default()).unwrap();
        assert_eq!(again, whole.evaluation, "variant {variant}");
        let (nodes, classes): (Vec<u32>, Vec<u32>) = labels.test().iter().rev().copied().unzip();
        let units = hidden_units(&graph, &path, Timeout::default());
        match config.hidden.last() {
            None => assert!(units.is_err(), "variant {variant}"),
            Some(&width) => {
                let units = units.unwrap();
                assert_eq!(units.width, width);
                assert_eq!(units.values.len(), width * graph.n_nodes() as usize);
                // They are behind a relu.
                assert!(units.values.iter().all(|&x| x >= 0.0));
                assert!(units.values.iter().any(|&x| x > 0.0));
            }
        }
        let predicted = predict(&graph, &path, &nodes, Timeout::default()).unwrap();
        let right = classes
            .iter()
            .zip(predicted)
            .filter(|(class, p)| *class == p);
        assert_eq!(right.count() as u64, whole.evaluation.test.unwrap().n_right);
    }
}

/// The kind of the error that a run must end with.
fn refused(graph: &RelationalGraph, labels: &Labels, epochs: u32, options: &RunOptions) -> Error {
    let config = Config {
        epochs,
        ..Config::default()
    };
    let outcome = train(graph, labels, &config, options, &mut |_| {});
    outcome.unwrap_err()
}

#[test]
fn runs_that_cannot_go_on_are_refused() {
    let (graph, labels) = sorted_graph(6, 500);
    let scratch = tempfile::tempdir().unwrap();
    let options = RunOptions {
        folder: Some(scratch.path().join("run")),
        ..RunOptions::default()
    };
    let config = Config {
        epochs: 4,
        ..Config::default()
    };
    train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
    let error = refused(&graph, &labels, 4, &options);
    assert!(matches!(error, Error::Checkpoint(_)), "the folder is taken");
    let resume = RunOptions {
        resume: true,
        ..options
    };
    let (other_graph, other_labels) = sorted_graph(7, 500);
    let (train_set, test_set) = (other_labels.train().to_vec(), other_labels.test().to_vec());
    let swapped = Labels::new(2, test_set, train_set, vec![]).unwrap();
    for (graph, labels, epochs) in [
        (&other_graph, &labels, 4),
        (&graph, &labels, 3),
        (&graph, &swapped, 4),
    ] {
        let error = refused(graph, labels, epochs, &resume);
        assert!(matches!(error, Error::Checkpoint(_)), "{error}");
    }
}

#[test]
fn ranks_and_labels_out_of_range_are_refused() {
    let (graph, labels) = sorted_graph(6, 500);
    let without = RunOptions {
        n_ranks: 0,
        ..RunOptions::default()
    };
    let error = refused(&graph, &labels, 1, &without);
    assert!(matches!(error, Error::Config(_)), "{error}");
    let unknown = Labels::new(2, vec![(0, 0), (500, 1)], vec![], vec![]).unwrap();
    let error = refused(&graph, &unknown, 1, &RunOptions::default());
    assert!(matches!(error, Error::Labels(_)), "{error}");
}

#[test]
fn a_rate_that_is_too_large_is_said_to_diverge() {
    let (graph, labels) = sorted_graph(8, 300);
    for sums in [Sums::Exact, Sums::Float] {
        let config = Config {
            rate: 1e30,
            optimiser: Optimiser::Sgd,
            bases: 2,
            sums,
            ..Config::default()
        };
        let options = RunOptions {
            n_ranks: 2,
            ..RunOptions::default()
        };
        let error = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Diverged(_)), "{error}");
        assert_ne!(error.class(), Class::Input);
    }
}
