//! Rows of the input that come to the device tile by tile: the bits of those that stay there, within budgets that are
//! smaller than the rows.

use shardgraph_collectives::Comm;
use shardgraph_device::Device;

use super::device::{assert_near, devices, least, settings, train_within};
use super::*;
use crate::device::{DeviceModel, LabelSets, Tiling};
use crate::model::comm::RankComm;
use crate::model::layout::{Extent, Layout, RankContext};
use crate::model::network::Network;
use crate::partition::Method;
use crate::train::state::{Part, flat};
use crate::{Features, Mode};

/// Losses of some steps, and then all parameters and means.
fn steps(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    device: &Device,
    tiling: Tiling,
) -> (Vec<u64>, [Vec<f32>; 3]) {
    let n_classes = labels.n_classes();
    let extent = Extent::new(config, n_classes, graph, 1, Method::Source);
    let layout = Layout::new(graph, config.self_loop, None, extent).unwrap();
    let context = RankContext {
        config,
        layout: &layout,
        rank: 0,
        n_classes,
    };
    let mut network = Network::new(context).unwrap();
    let train = layout.targets(0, labels.train());
    let labels = LabelSets {
        train: &train,
        valid: None,
    };
    let mut model = DeviceModel::in_tiles(device, &mut network, &labels, 0, tiling).unwrap();
    let mut comm = Comm::solo();
    let ranks = &mut RankComm::new(&mut comm, Timeout::default());
    let losses = (1..3).map(|step| model.step(step, ranks).unwrap().scores.loss.to_bits());
    let losses = losses.collect();
    model.store(&mut network).unwrap();
    let parts = [Part::Params, Part::First, Part::Second];
    (losses, parts.map(|part| flat(&mut network, part)))
}

#[test]
fn rows_from_the_host_give_the_bits_of_rows_on_the_device() {
    let (graph, labels) = sorted_graph(4, 300);
    let values = (0..300 * 4).map(|i| (i * 37 % 101) as f32 * 0.02 - 1.0);
    let given = Features::new(4, values.collect()).unwrap();
    let with_features = graph.clone().with_features(given).unwrap();
    let features = Config {
        embedding: 4,
        features: true,
        l2: 1e-3,
        ..settings().swap_remove(0)
    };
    for config in settings().into_iter().chain([features]) {
        let graph = match config.features {
            true => &with_features,
            false => &graph,
        };
        // Rows that are messages are in no tiles on the device.
        let first = usize::from(config.has_first_table());
        for device in devices() {
            for n_tiles in [2, 5] {
                let go = |is_streamed| {
                    let tiling = Tiling {
                        n_tiles,
                        is_streamed,
                    };
                    steps(graph, &labels, &config, &device, tiling)
                };
                let (resident, streamed) = (go(false), go(true));
                let what = format!("{n_tiles} tiles: {config:?}");
                if first == 1 {
                    assert_eq!(streamed.0, resident.0, "{what}");
                    assert!(streamed.1 == resident.1, "{what}");
                }
                for (found, wanted) in streamed.1.iter().zip(&resident.1) {
                    assert_eq!(found.len(), wanted.len(), "{what}");
                    let is_near = |(found, wanted): (&f32, &f32)| (found - wanted).abs() < 1e-4;
                    assert!(found.iter().zip(wanted).all(is_near), "{what}");
                }
            }
        }
    }
}

#[test]
fn any_budget_from_the_least_on_trains_the_model() {
    let (graph, labels) = sorted_graph(8, 400);
    for config in settings().into_iter().take(4) {
        // Rows with their means are most of the memory.
        let config = Config {
            patience: 2,
            epochs: 2,
            mode: Mode::Full,
            bases: if config.embedding > 0 {
                3
            } else {
                8 * config.bases
            },
            embedding: 18 * config.embedding,
            hidden: vec![6],
            ..config
        };
        let row_len = match (config.bases, config.embedding) {
            (_, embedding) if embedding > 0 => embedding,
            (bases, _) => 6 * bases,
        };
        for device in devices() {
            let run = |budget| train_within(&device, budget, &graph, &labels, &config);
            let whole = run(None).unwrap();
            let least = least(&run(Some(1000)).unwrap_err().to_string());
            let needed = whole.devices[0].predicted_bytes;
            let what = format!("{least} of {needed}: {config:?}");
            if config.has_first_table() {
                assert!(least < 4 * 800 * row_len as u64, "{what}");
            }
            for budget in [least, (least + needed) / 2] {
                let tiled = run(Some(budget)).unwrap();
                let [of_tiled] = tiled.devices[..] else {
                    panic!("one device: {what}");
                };
                assert!(of_tiled.peak_bytes <= budget, "{of_tiled:?}: {what}");
                assert_eq!(of_tiled.peak_bytes, of_tiled.predicted_bytes, "{what}");
                if budget == least {
                    assert!(of_tiled.tiles > 1 && of_tiled.moved_bytes > 0, "{what}");
                }
                assert_near(&tiled, &whole, &what);
                assert_eq!(tiled.best_epoch, whole.best_epoch, "{what}");
            }
            assert!(run(Some(least - 1)).is_err(), "{what}");
        }
    }
}

/// A checkpoint has the rows and means that are in host memory.
#[test]
fn a_run_in_tiles_goes_on_within_its_budget() {
    let (graph, labels) = sorted_graph(5, 300);
    let config = Config {
        bases: 24,
        patience: 4,
        ..settings().swap_remove(0)
    };
    for device in devices() {
        let scratch = tempfile::tempdir().unwrap();
        let go = |name: &str, epochs, budget_per_device, resume| {
            let options = RunOptions {
                device: device.new_stream().unwrap(),
                budget_per_device,
                folder: Some(scratch.path().join(name)),
                resume,
                ..RunOptions::default()
            };
            let config = Config {
                epochs,
                ..config.clone()
            };
            train(&graph, &labels, &config, &options, &mut |_| {})
        };
        let refused = go("refused", 1, Some(1000), false).unwrap_err();
        let budget = Some(least(&refused.to_string()));
        let whole = go("whole", 5, budget, false).unwrap();
        assert!(whole.devices[0].moved_bytes > 0);
        go("parts", 2, budget, false).unwrap();
        let parts = go("parts", 5, budget, true).unwrap();
        assert_eq!(parts.best_epoch, whole.best_epoch);
        assert_eq!(parts.params_hash, whole.params_hash);
        assert_eq!(parts.evaluation, whole.evaluation);
    }
}

/// Ranges of sources come in tiles on each rank.
#[test]
fn rows_of_ranks_come_in_tiles() {
    let (graph, labels) = sorted_graph(7, 300);
    let config = Config {
        bases: 24,
        mode: Mode::Full,
        epochs: 2,
        ..settings().swap_remove(0)
    };
    for device in devices() {
        let run = |budget_per_device| {
            let options = RunOptions {
                device: device.clone(),
                n_ranks: 2,
                budget_per_device,
                keeps_model: true,
                ..RunOptions::default()
            };
            train(&graph, &labels, &config, &options, &mut |_| {})
        };
        let whole = run(None).unwrap();
        let mut budget = 1000;
        while let Err(error) = run(Some(budget)) {
            let next = least(&error.to_string());
            assert!(next > budget, "{error}");
            budget = next;
        }
        let tiled = run(Some(budget)).unwrap();
        for of_rank in &tiled.devices {
            assert!(of_rank.peak_bytes <= budget, "{of_rank:?}");
        }
        assert!(tiled.devices.iter().any(|of_rank| of_rank.moved_bytes > 0));
        assert_near(&tiled, &whole, "two ranks");
    }
}
