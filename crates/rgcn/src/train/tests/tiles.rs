//! Runs under a budget: the whole's result, never more bytes than allowed, predictions that hold,
//! and refusals before anything is there.

use super::super::*;
use super::{losses, sorted_graph, variants};
use crate::partition::Method;
use crate::{Mode, Sums};

fn run_by(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    n_ranks: u32,
    partition: Method,
    budget_per_device: Option<u64>,
) -> Outcome {
    let options = RunOptions {
        n_ranks,
        partition,
        budget_per_device,
        ..RunOptions::default()
    };
    train(graph, labels, config, &options, &mut |_| {}).unwrap()
}

#[derive(Clone, Copy)]
struct Given<'a> {
    graph: &'a RelationalGraph,
    labels: &'a Labels,
}

fn run(
    given: Given<'_>,
    config: &Config,
    n_ranks: u32,
    budget_per_device: Option<u64>,
) -> Result<Outcome, Error> {
    let options = RunOptions {
        n_ranks,
        budget_per_device,
        ..RunOptions::default()
    };
    train(given.graph, given.labels, config, &options, &mut |_| {})
}

/// The least budget, as the refusal of one byte names it.
fn least(given: Given<'_>, config: &Config, n_ranks: u32) -> u64 {
    let error = run(given, config, n_ranks, Some(1)).unwrap_err();
    assert!(matches!(error, Error::Memory(_)));
    super::device::least(&error.to_string())
}

/// The least budget for all ranks and both layouts: refusals name that of the first one that does
/// not fit.
fn least_of_all(given: Given<'_>, config: &Config, n_ranks: u32) -> u64 {
    let mut budget = least(given, config, n_ranks);
    while let Err(error) = run(given, config, n_ranks, Some(budget)) {
        assert!(matches!(error, Error::Memory(_)), "{error}");
        let message = error.to_string();
        let next = super::device::least(&message);
        assert!(next > budget, "{message}");
        budget = next;
    }
    budget
}

#[test]
fn tiles_give_the_whole_within_any_budget() {
    let (graph, labels) = sorted_graph(1, 2000);
    let given = Given {
        graph: &graph,
        labels: &labels,
    };
    for (variant, config) in variants().into_iter().enumerate() {
        for (n_ranks, sums) in [(1, Sums::Exact), (3, Sums::Exact), (1, Sums::Float)] {
            let config = Config {
                sums,
                epochs: 3,
                ..config.clone()
            };
            let case = format!("variant {variant}, {n_ranks} ranks, {sums} sums");
            let whole = run(given, &config, n_ranks, None).unwrap();
            assert!(whole.devices.iter().all(|device| device.tiles == 1));
            let least = least_of_all(given, &config, n_ranks);
            let needed = whole.devices.iter().map(|device| device.predicted_bytes);
            let needed = needed.max().unwrap();
            assert!(least < needed, "{case}: {least} of {needed}");
            for budget in [least, least + (needed - least) / 9, (least + needed) / 2] {
                let tiled = run(given, &config, n_ranks, Some(budget)).unwrap();
                assert_eq!(losses(&whole), losses(&tiled), "{case}");
                assert_eq!(whole.params_hash, tiled.params_hash, "{case}");
                assert_eq!(whole.evaluation, tiled.evaluation, "{case}");
                assert!(
                    tiled.devices.iter().any(|device| device.tiles > 1),
                    "{case}"
                );
                for device in &tiled.devices {
                    assert!(
                        device.peak_bytes <= budget,
                        "{case}: {device:?} of {budget}"
                    );
                    let is_tiled = device.tiles > 1;
                    assert_eq!(device.moved_bytes > 0, is_tiled, "{case}: {device:?}");
                    assert!((0.0..=1.0).contains(&device.hidden_share), "{case}");
                }
            }
        }
    }
}

#[test]
fn predictions_are_what_is_held() {
    let (graph, labels) = sorted_graph(2, 4000);
    for (variant, config) in variants().into_iter().enumerate() {
        for mode in [Mode::Full, Mode::Pruned] {
            let config = Config {
                mode,
                epochs: 2,
                ..config.clone()
            };
            for (n_ranks, partition) in [(1, Method::Source), (3, Method::Source), (3, Method::M2)]
            {
                let go = |budget| run_by(&graph, &labels, &config, n_ranks, partition, budget);
                let whole = go(None);
                let needed = whole
                    .devices
                    .iter()
                    .map(|device| device.predicted_bytes)
                    .max();
                let mut outcomes = vec![whole];
                if partition == Method::Source {
                    outcomes.push(go(Some(needed.unwrap() * 9 / 10)));
                }
                for device in outcomes.iter().flat_map(|outcome| &outcome.devices) {
                    let case = format!("variant {variant}, {mode}, {n_ranks} ranks by {partition}");
                    assert_eq!(
                        device.predicted_bytes, device.peak_bytes,
                        "{case}: {device:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_there_is_a_folder() {
    let (graph, labels) = sorted_graph(3, 600);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    let refused = |change: fn(&mut RunOptions)| {
        let mut options = RunOptions {
            folder: Some(folder.clone()),
            ..RunOptions::default()
        };
        change(&mut options);
        let config = Config::default();
        let error = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Memory(_)), "{error}");
        assert!(!folder.exists(), "{error}");
        error.to_string()
    };
    let message = refused(|options| options.memory = Some(10_000));
    assert!(message.contains("training needs"), "{message}");
    assert!(
        message.contains("--memory-limit allows 9.77 KiB"),
        "{message}"
    );
    let message = refused(|options| options.budget_per_device = Some(1000));
    assert!(
        message.contains("which is the least budget for 1 ranks"),
        "{message}"
    );
    let message = refused(|options| {
        options.budget_per_device = Some(1000);
        (options.n_ranks, options.partition) = (2, Method::M2);
    });
    assert!(message.contains("--partition source"), "{message}");
    let fits = RunOptions {
        memory: Some(1 << 30),
        ..RunOptions::default()
    };
    let config = Config {
        bases: 4096,
        hidden: vec![4096],
        ..Config::default()
    };
    let error = train(&graph, &labels, &config, &fits, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
}
