//! Training on a device: the host's model to rounding, the same bits each time, no copy of the
//! parameters over the bus.

use shardgraph_device::Device;

use super::*;
use crate::Features;
use crate::kernels::{Form, PairLists, Terms};
use crate::layer::plan::LayerPlan;

/// The devices that launch kernels and are here.
pub(super) fn devices() -> Vec<Device> {
    shardgraph_cuemu::devices("rgcn")
}

pub(super) fn train_on(
    device: &Device,
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
) -> Outcome {
    let options = RunOptions {
        device: device.clone(),
        keeps_model: true,
        ..RunOptions::default()
    };
    train(graph, labels, config, &options, &mut |_| {}).unwrap()
}

/// Trains on a stream of its own of the device, whose memory may be bounded.
pub(super) fn train_within(
    device: &Device,
    budget_per_device: Option<u64>,
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
) -> Result<Outcome, Error> {
    let options = RunOptions {
        device: device.new_stream().unwrap(),
        budget_per_device,
        keeps_model: true,
        ..RunOptions::default()
    };
    train(graph, labels, config, &options, &mut |_| {})
}

/// The least budget that a refusal names.
pub(super) fn least(message: &str) -> u64 {
    let words = message.split("bytes), which is the least").next();
    let number = words.and_then(|words| words.rsplit('(').next());
    let number = number.map(str::trim).map(str::parse);
    number.unwrap().unwrap_or_else(|_| panic!("{message}"))
}

/// All settings of [`variants`] but dropout, and those that they leave out.
pub(super) fn settings() -> Vec<Config> {
    let variants = variants().into_iter();
    let mut settings: Vec<Config> = variants
        .map(|config| Config {
            dropout: 0.0,
            epochs: 4,
            ..config
        })
        .collect();
    let base = settings[0].clone();
    settings.push(Config {
        bases: 0,
        embedding: 5,
        hidden: vec![7, 70],
        class_weights: crate::ClassWeights::Balanced,
        normaliser: crate::Normaliser::Node,
        ..base.clone()
    });
    settings.push(Config {
        hidden: vec![],
        mode: Mode::Full,
        self_loop: false,
        ..base
    });
    settings
}

pub(super) fn assert_near(found: &Outcome, wanted: &Outcome, what: &str) {
    assert_eq!(found.reports.len(), wanted.reports.len(), "{what}");
    for (found, wanted) in found.reports.iter().zip(&wanted.reports) {
        let (loss, expected) = (found.loss, wanted.loss);
        assert!((loss - expected).abs() < 1e-5, "{what}: {loss} {expected}");
        let right = [found, wanted].map(|report| (60.0 * report.train_accuracy).round() as i32);
        assert_eq!(right[0], right[1], "{what}");
    }
    let [found, wanted] = [found, wanted].map(|outcome| &outcome.model.as_ref().unwrap().state);
    for ((name, found), (_, wanted)) in found.tensors().zip(wanted.tensors()) {
        assert_eq!(found.len(), wanted.len(), "{what}: {name}");
        for (found, wanted) in found.iter().zip(wanted) {
            let is_near = (found - wanted).abs() < 1e-4;
            assert!(is_near, "{what}: {name}: {found} {wanted}");
        }
    }
}

#[test]
fn a_device_trains_the_hosts_model() {
    let (graph, labels) = sorted_graph(1, 310);
    for config in settings() {
        let wanted = train_on(&Device::host(), &graph, &labels, &config);
        for device in devices() {
            let what = format!("{}: {config:?}", device.kind());
            let found = train_on(&device, &graph, &labels, &config);
            assert_near(&found, &wanted, &what);
            assert_eq!(found.evaluation, wanted.evaluation, "{what}");
            let again = train_on(&device, &graph, &labels, &config);
            assert_eq!(losses(&again), losses(&found), "{what}");
            assert_eq!(again.params_hash, found.params_hash, "{what}");
        }
    }
}

/// Features are read and not trained.
#[test]
fn a_device_reads_features() {
    let (graph, labels) = sorted_graph(2, 300);
    let values = (0..300 * 4).map(|i| (i * 37 % 101) as f32 * 0.02 - 1.0);
    let features = Features::new(4, values.collect()).unwrap();
    let graph = graph.with_features(features).unwrap();
    let config = Config {
        embedding: 4,
        features: true,
        l2: 1e-3,
        ..settings().swap_remove(0)
    };
    let wanted = train_on(&Device::host(), &graph, &labels, &config);
    for device in devices() {
        let found = train_on(&device, &graph, &labels, &config);
        assert_near(&found, &wanted, "features");
    }
}

/// An epoch moves two numbers to the host, and constants of a few bytes to the device.
#[test]
fn parameters_stay_on_the_device() {
    let (graph, labels) = sorted_graph(3, 300);
    let config = Config {
        epochs: 4,
        ..settings().swap_remove(0)
    };
    for device in devices() {
        let mut seen = Vec::new();
        let options = RunOptions {
            device: device.clone(),
            ..RunOptions::default()
        };
        let mut note = |_: &EpochReport| seen.push(device.traffic());
        train(&graph, &labels, &config, &options, &mut note).unwrap();
        for epochs in seen.windows(2) {
            let to_host = epochs[1].to_host_bytes - epochs[0].to_host_bytes;
            let to_device = epochs[1].to_device_bytes - epochs[0].to_device_bytes;
            assert_eq!(to_host, 8);
            assert!(to_device <= 32, "{to_device}");
        }
    }
}

#[test]
fn a_device_keeps_the_best_epoch() {
    let (graph, labels) = sorted_graph(3, 300);
    let config = Config {
        hidden: vec![8],
        bases: 3,
        rate: 0.05,
        epochs: 60,
        patience: 4,
        ..Config::default()
    };
    let wanted = train_on(&Device::host(), &graph, &labels, &config);
    for device in devices() {
        let found = train_on(&device, &graph, &labels, &config);
        assert_eq!(found.best_epoch, wanted.best_epoch);
        assert!(found.reports.len() > found.best_epoch as usize);
        let best = &found.reports[found.best_epoch as usize - 1];
        let valid = found.evaluation.valid.unwrap();
        let kept = best.valid.unwrap();
        assert!((valid.accuracy - kept.accuracy).abs() < 1e-9);
        assert_eq!(found.evaluation, wanted.evaluation);
    }
}

/// The checkpoint lies before the best epoch and behind it.
#[test]
fn a_run_goes_on_on_the_kind_of_device_that_it_began_on() {
    let (graph, labels) = sorted_graph(5, 300);
    let config = Config {
        patience: 4,
        rate: 0.05,
        ..settings().swap_remove(0)
    };
    for device in devices() {
        let scratch = tempfile::tempdir().unwrap();
        let go = |name: &str, epochs, device: &Device, resume| {
            let options = RunOptions {
                device: device.clone(),
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
        let whole = go("whole", 12, &device, false).unwrap();
        go("parts", 2, &device, false).unwrap();
        let refused = go("parts", 5, &Device::host(), true).unwrap_err();
        let began = format!("the run computes on `{}`", device.kind().family());
        assert!(refused.to_string().contains(&began), "{refused}");
        go("parts", 7, &device, true).unwrap();
        let parts = go("parts", 12, &device, true).unwrap();
        assert_eq!(parts.best_epoch, whole.best_epoch);
        assert_eq!(parts.params_hash, whole.params_hash);
        assert_eq!(parts.evaluation, whole.evaluation);
        let path = scratch.path().join("parts");
        let read = evaluate(&graph, &path, &labels, Timeout::default()).unwrap();
        assert_eq!(read, whole.evaluation);
    }
}

/// Less memory, more tiles: the same losses, and as many bytes held as were predicted.
#[test]
fn messages_are_taken_in_tiles_where_memory_is_short() {
    let (graph, labels) = sorted_graph(7, 300);
    let mut n_cut = 0;
    for config in settings() {
        let config = Config {
            patience: 0,
            hidden: vec![24],
            ..config
        };
        for device in devices() {
            let run = |budget| train_within(&device, budget, &graph, &labels, &config);
            let whole = run(None).unwrap();
            let [of_whole] = whole.devices[..] else {
                panic!("one device: {:?}", whole.devices);
            };
            assert_eq!(of_whole.tiles, 1);
            assert_eq!(of_whole.peak_bytes, of_whole.predicted_bytes);
            let least = least(&run(Some(1000)).unwrap_err().to_string());
            let tiled = run(Some(least)).unwrap();
            let [of_tiled] = tiled.devices[..] else {
                panic!("one device: {:?}", tiled.devices);
            };
            let is_cut = least < of_whole.predicted_bytes;
            assert_eq!(of_tiled.tiles > 1, is_cut, "{config:?}");
            n_cut += u32::from(is_cut);
            assert_eq!(of_tiled.peak_bytes, least, "{of_tiled:?}: {config:?}");
            assert_eq!(of_tiled.predicted_bytes, least);
            assert_near(&tiled, &whole, "tiles");
            assert!(run(Some(least - 1)).is_err());
        }
    }
    assert!(n_cut > 3 || devices().is_empty(), "{n_cut}");
}

#[test]
fn a_budget_that_is_refused_leaves_no_folder() {
    let (graph, labels) = sorted_graph(7, 300);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    for device in devices() {
        let options = RunOptions {
            device,
            budget_per_device: Some(1000),
            folder: Some(folder.clone()),
            ..RunOptions::default()
        };
        let refused = train(&graph, &labels, &Config::default(), &options, &mut |_| {});
        assert!(refused.unwrap_err().to_string().contains("least budget"));
        assert!(!folder.exists());
    }
}

/// Weights of a relation beyond the blocks that a grid has in y.
#[test]
fn the_widest_weights_have_a_gradient() {
    let terms = Terms {
        form: Form::Weights,
        n_terms: 4097,
        width: 4096,
        source_len: 4097,
    };
    let plan = LayerPlan {
        pair_starts: vec![0, 1],
        relations: vec![0],
        send_starts: vec![0, 0],
        sends: Vec::new(),
    };
    let number = |i: usize| (i % 13) as f32 - 6.0;
    let x: Vec<f32> = (0..terms.n_terms).map(number).collect();
    let dy: Vec<f32> = (0..terms.width).map(|o| number(3 * o)).collect();
    for device in devices() {
        let lists = PairLists::upload(&device, &plan, 1).unwrap();
        let [x_there, dy_there] = [&x, &dy].map(|values| device.upload(values).unwrap());
        let mut out = device.zeros(terms.relation_len()).unwrap();
        lists
            .relation_gradient(&device, terms, &x_there, &dy_there, &mut out)
            .unwrap();
        let found = device.download(&out).unwrap();
        let rows = found.chunks_exact(terms.width).zip(&x);
        let is_right = rows.map(|(row, x)| {
            row.iter()
                .zip(&dy)
                .all(|(&got, dy)| (got - x * dy).abs() < 1e-6)
        });
        assert_eq!(is_right.filter(|&is_right| !is_right).count(), 0);
    }
}

#[test]
fn what_the_host_alone_does_is_refused() {
    let (graph, labels) = sorted_graph(6, 300);
    let base = settings().swap_remove(0);
    let none = RunOptions::default;
    for device in devices() {
        let refused = |config: Config, options: RunOptions| {
            let scratch = tempfile::tempdir().unwrap();
            let folder = scratch.path().join("run");
            let options = RunOptions {
                device: device.clone(),
                folder: Some(folder.clone()),
                ..options
            };
            let error = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap_err();
            assert_eq!(error.class(), Class::Input, "{error}");
            assert!(!folder.exists(), "{error}");
            error.to_string()
        };
        let config = |change: fn(&mut Config)| {
            let mut config = base.clone();
            change(&mut config);
            config
        };
        let cases = [
            (config(|c| c.dropout = 0.5), none(), "dropout"),
            (config(|c| c.batch = 8), none(), "batches"),
            (
                config(|c| (c.bases, c.blocks) = (0, 2)),
                none(),
                "block-diagonal weights",
            ),
            (
                config(|c| c.optimiser = Optimiser::Adagrad),
                none(),
                "adagrad",
            ),
            (
                base.clone(),
                RunOptions {
                    execution: Execution::Paper,
                    ..none()
                },
                "the paper's execution",
            ),
        ];
        for (config, options, what) in cases {
            let message = refused(config, options);
            assert!(
                message.contains(&format!("does not go with {what}")),
                "{message}"
            );
        }
    }
}
