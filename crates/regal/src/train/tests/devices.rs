//! Training with the networks on a device.

use shardgraph_components::autodiff::device::Device;

use super::{config, graphs, in_folder};
use crate::train::*;

/// The networks on the emulated device: what the host trains, to rounding, from bus traffic that is no copy of the weights.
#[test]
fn training_on_a_device_is_the_hosts() {
    let Some(library) = shardgraph_cuemu::library() else {
        println!(
            "SKIPPED: regal on a device: {}",
            shardgraph_cuemu::SKIP_REASON
        );
        return;
    };
    let emulated = Device::emulated(&library).unwrap();
    let graphs = graphs(3);
    let run = |device: &Device| {
        let mut trainer = Trainer::new(&config(3), &graphs, 1)
            .unwrap()
            .on_device(device);
        let losses: Vec<f32> = (0..3).map(|_| trainer.step().unwrap().loss).collect();
        let policy = trainer.policy().unwrap();
        (losses, policy.params().flat().to_vec())
    };
    let (host, device) = (run(&Device::host()), run(&emulated));
    for (given, wanted) in device.0.iter().zip(&host.0) {
        assert!((given - wanted).abs() < 1e-3, "{given} {wanted}");
    }
    for (given, wanted) in device.1.iter().zip(&host.1) {
        assert!((given - wanted).abs() < 1e-3, "{given} {wanted}");
    }
    assert!(emulated.traffic().to_device_bytes > 0);
}

#[test]
fn a_run_goes_on_on_the_kind_of_device_that_it_began_on() {
    let Some(library) = shardgraph_cuemu::library() else {
        println!(
            "SKIPPED: regal on a device: {}",
            shardgraph_cuemu::SKIP_REASON
        );
        return;
    };
    let folders = tempfile::tempdir().unwrap();
    let folder = folders.path().join("run");
    let graphs = graphs(2);
    let on_emulator = |resume, stop_at| TrainOptions {
        device: Device::emulated(&library).unwrap(),
        ..in_folder(&folder, resume, stop_at)
    };
    train(
        &config(4),
        &graphs,
        &on_emulator(false, Some(2)),
        &mut |_| (),
    )
    .unwrap();
    let refused = train(
        &config(4),
        &graphs,
        &in_folder(&folder, true, None),
        &mut |_| (),
    );
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("the run computes on `emulated`"),
        "{message}"
    );
    let outcome = train(&config(4), &graphs, &on_emulator(true, None), &mut |_| ()).unwrap();
    assert_eq!(outcome.n_steps, 4);
    let whole = TrainOptions {
        folder: None,
        ..on_emulator(false, None)
    };
    let whole = train(&config(4), &graphs, &whole, &mut |_| ()).unwrap();
    assert_eq!(whole.policy.params(), outcome.policy.params());
}
