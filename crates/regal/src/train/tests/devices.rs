//! Training with the networks on a device.

use shardgraph_components::autodiff::device::Device;

use super::{config, graphs, in_folder};
use crate::train::*;

/// The networks on a device: what the host trains, to rounding, from bus traffic that is no copy of the weights.
#[test]
fn training_on_a_device_is_the_hosts() {
    let graphs = graphs(3);
    let run = |device: &Device| {
        let mut trainer = Trainer::new(&config(3), &graphs, 1)
            .unwrap()
            .on_device(device);
        let losses: Vec<f32> = (0..3).map(|_| trainer.step().unwrap().loss).collect();
        let policy = trainer.policy().unwrap();
        (losses, policy.params().flat().to_vec())
    };
    let host = run(&Device::host());
    for device in shardgraph_cuemu::devices("regal") {
        let given = run(&device);
        for (given, wanted) in given.0.iter().zip(&host.0) {
            assert!((given - wanted).abs() < 1e-3, "{given} {wanted}");
        }
        for (given, wanted) in given.1.iter().zip(&host.1) {
            assert!((given - wanted).abs() < 1e-3, "{given} {wanted}");
        }
        assert!(device.traffic().to_device_bytes > 0);
    }
}

#[test]
fn a_run_goes_on_on_the_kind_of_device_that_it_began_on() {
    for device in shardgraph_cuemu::devices("regal") {
        let kind = device.kind();
        let folders = tempfile::tempdir().unwrap();
        let folder = folders.path().join("run");
        let graphs = graphs(2);
        let on_device = |resume, stop_at| TrainOptions {
            device: device.clone(),
            ..in_folder(&folder, resume, stop_at)
        };
        let begun = on_device(false, Some(2));
        train(&config(4), &graphs, &begun, &mut |_| ()).unwrap();
        let on_host = in_folder(&folder, true, None);
        let refused = train(&config(4), &graphs, &on_host, &mut |_| ());
        let message = refused.unwrap_err().to_string();
        let expected = format!("the run computes on `{kind}`");
        assert!(message.contains(&expected), "{message}");
        let outcome = train(&config(4), &graphs, &on_device(true, None), &mut |_| ()).unwrap();
        assert_eq!(outcome.n_steps, 4);
        let whole = TrainOptions {
            folder: None,
            ..on_device(false, None)
        };
        let whole = train(&config(4), &graphs, &whole, &mut |_| ()).unwrap();
        assert_eq!(whole.policy.params(), outcome.policy.params());
    }
}
