//! Several ranks on devices: the model of one rank on the host to rounding, whichever way rows go.

use shardgraph_device::Device;

use super::device::{assert_near, settings, train_on};
use super::*;
use crate::Mode;
use crate::partition::Method;
use crate::plan::{ModelShape, Plan, PlanOptions};

/// Streams of one device, and devices of their own in a group.
fn devices() -> Vec<Device> {
    let mut devices = shardgraph_cuemu::devices("rgcn on ranks");
    devices.extend(shardgraph_cuemu::device_of_a_group("rgcn on ranks"));
    devices
}

fn options(device: &Device, n_ranks: u32, partition: Method) -> RunOptions {
    RunOptions {
        device: device.clone(),
        n_ranks,
        partition,
        keeps_model: true,
        ..RunOptions::default()
    }
}

#[test]
fn ranks_on_devices_train_the_model_of_one() {
    let (graph, labels) = sorted_graph(1, 310);
    for (n, config) in settings().into_iter().enumerate() {
        let config = Config {
            epochs: 2,
            ..config
        };
        let wanted = train_on(&Device::host(), &graph, &labels, &config);
        let (method, n_ranks) = (Method::ALL[n % Method::ALL.len()], 2 + n as u32 % 3);
        for device in devices() {
            let what = format!(
                "{method:?}, {n_ranks} ranks, {:?}: {config:?}",
                device.nccl()
            );
            let options = options(&device, n_ranks, method);
            let go = || train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
            let found = go();
            assert_near(&found, &wanted, &what);
            assert_eq!(found.evaluation, wanted.evaluation, "{what}");
            assert_eq!(found.devices.len(), n_ranks as usize, "{what}");
            for of_rank in &found.devices {
                assert!(of_rank.peak_bytes > 0, "{what}: {of_rank:?}");
                // The table of addresses may not be there at the fullest moment.
                let held =
                    of_rank.predicted_bytes - 8 * u64::from(n_ranks)..=of_rank.predicted_bytes;
                assert!(held.contains(&of_rank.peak_bytes), "{what}: {of_rank:?}");
            }
            if n == 0 {
                assert_eq!(go().params_hash, found.params_hash, "{what}");
            }
        }
    }
}

/// With shared weights every method of partition gives the model, also where some ranks have no node.
#[test]
fn every_partition_does_on_devices() {
    let config = Config {
        epochs: 3,
        ..settings().swap_remove(0)
    };
    for n_nodes in [310, 3] {
        let (graph, labels) = match n_nodes {
            3 => three_nodes(),
            _ => sorted_graph(4, n_nodes),
        };
        let wanted = train_on(&Device::host(), &graph, &labels, &config);
        for device in devices() {
            for method in Method::ALL {
                let options = options(&device, 5, method);
                let found = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
                assert_near(&found, &wanted, &format!("{method:?}, {n_nodes} nodes"));
            }
        }
    }
}

/// Two edges: of five ranks most have nothing.
fn three_nodes() -> (RelationalGraph, Labels) {
    let graph = RelationalGraph::new(3, 1, vec![0, 1], vec![0; 2], vec![1, 2]).unwrap();
    let labels = Labels::new(2, vec![(0, 0), (2, 1)], vec![], vec![]).unwrap();
    (graph.with_inverses().unwrap(), labels)
}

/// Ranks keep to a budget each, which is less than one rank's; a budget that a rank does not fit in is
/// refused before there is a folder.
#[test]
fn ranks_share_the_memory_and_keep_to_their_budgets() {
    let (graph, labels) = sorted_graph(7, 300);
    let config = Config {
        hidden: vec![24],
        ..settings().swap_remove(0)
    };
    let scratch = tempfile::tempdir().unwrap();
    for device in devices() {
        let run = |n_ranks, budget_per_device, folder| {
            let options = RunOptions {
                budget_per_device,
                folder,
                ..options(&device, n_ranks, Method::Source)
            };
            train(&graph, &labels, &config, &options, &mut |_| {})
        };
        let most = |outcome: &Outcome| {
            let predicted = outcome.devices.iter().map(|device| device.predicted_bytes);
            predicted.max().unwrap()
        };
        let (alone, shared) = (run(1, None, None).unwrap(), run(2, None, None).unwrap());
        assert!(most(&shared) < most(&alone), "{shared:?}");
        let limit = most(&shared) * 9 / 10;
        let tiled = run(2, Some(limit), None).unwrap();
        assert!(tiled.devices.iter().any(|device| device.tiles > 1));
        assert!(
            tiled
                .devices
                .iter()
                .all(|device| device.peak_bytes <= limit)
        );
        assert_near(&tiled, &alone, "tiles");
        let folder = scratch.path().join("refused");
        let refused = run(2, Some(1000), Some(folder.clone())).unwrap_err();
        assert!(refused.to_string().contains("least budget"), "{refused}");
        assert!(!folder.exists());
    }
}

/// A checkpoint of ranks on a device goes on with another number of them.
#[test]
fn a_run_on_devices_goes_on_with_other_ranks() {
    let (graph, labels) = sorted_graph(5, 300);
    let config = settings().swap_remove(0);
    for device in devices() {
        let scratch = tempfile::tempdir().unwrap();
        let go = |name: &str, n_ranks, epochs, resume| {
            let options = RunOptions {
                folder: Some(scratch.path().join(name)),
                resume,
                ..options(&device, n_ranks, Method::M2)
            };
            let config = Config {
                epochs,
                ..config.clone()
            };
            train(&graph, &labels, &config, &options, &mut |_| {}).unwrap()
        };
        let whole = go("whole", 1, 6, false);
        go("parts", 3, 2, false);
        go("parts", 1, 4, true);
        let parts = go("parts", 2, 6, true);
        let [last, wanted] = [&parts, &whole].map(|run| run.reports.last().unwrap().loss);
        assert!((last - wanted).abs() < 1e-5, "{last} {wanted}");
        assert_eq!(parts.evaluation, whole.evaluation);
    }
}

/// A plan for devices that need not be there says what training on them holds, on one rank and on
/// several, in one piece and in tiles.
#[test]
fn plans_for_devices_are_what_training_on_them_holds() {
    let (graph, labels) = sorted_graph(7, 300);
    for config in settings() {
        let config = Config {
            mode: Mode::Full,
            epochs: 2, // what is held is the same from the second on
            ..config
        };
        for device in devices() {
            for (n_devices, method, share) in [
                (1, Method::Source, 10),
                (1, Method::Source, 9),
                (2, Method::Source, 10),
                (2, Method::M2, 10),
            ] {
                let plan = |budget| {
                    let options = PlanOptions {
                        method,
                        n_devices,
                        shape: ModelShape {
                            config: config.clone(),
                            classes: labels.n_classes(),
                        },
                        budget,
                        may_tile: false,
                        device: device.kind(),
                        labels: Some(labels.clone()),
                    };
                    Plan::new(&graph, &options).unwrap().1
                };
                let whole = plan(None);
                let most = whole.bytes_per_device.iter().max().unwrap();
                let budget = Some(most * share / 10).filter(|_| share < 10);
                let planned = plan(budget);
                let run = RunOptions {
                    budget_per_device: budget,
                    ..options(&device, n_devices, method)
                };
                let outcome = train(&graph, &labels, &config, &run, &mut |_| {}).unwrap();
                for (planned, held) in planned.devices.iter().zip(&outcome.devices) {
                    assert_eq!(planned.held_bytes, held.predicted_bytes, "{held:?}");
                    assert_eq!(planned.tiles, held.tiles, "{held:?}");
                }
            }
        }
    }
}
