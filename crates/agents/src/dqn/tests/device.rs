//! Updates on a device: one launch each, and nothing over the bus but the batch and what is told of it.

use super::{batch, small, spaces, update};
use crate::agent::Agent;
use crate::dqn::{DqnAgent, PrioritizedConfig};
use crate::run_environments::Spaces;
use crate::tests::device::devices;
use shardgraph_components::OptimiserRule;
use shardgraph_device::Device;

const N: usize = 24;

#[test]
fn an_update_is_one_launch_with_the_hosts_values() {
    for (rule, is_bounded) in [(OptimiserRule::ADAM, true), (OptimiserRule::Sgd, false)] {
        let mut config = small(N, 1);
        config.double = true;
        config.replay.prioritized = Some(PrioritizedConfig::default());
        config.optimiser.rule = rule;
        config.optimiser.max_gradient_norm = is_bounded.then_some(0.1);
        let (observation, action) = spaces();
        let spaces = Spaces::new(observation, action).unwrap();
        let agent = |device: &Device| DqnAgent::new(&config, &spaces, 5, device).unwrap();
        for device in devices() {
            let (mut host, mut given) = (agent(&Device::host()), agent(&device));
            for step in 0..5 {
                if step == 3 {
                    host.sync_target().unwrap();
                    given.sync_target().unwrap();
                }
                let (rows, weights) = batch(N, step);
                let wanted = update(&mut host, (&rows, Some(&weights)));
                let (before, n_before) = (device.traffic(), device.n_launches());
                let told = update(&mut given, (&rows, Some(&weights)));
                let (after, n_after) = (device.traffic(), device.n_launches());
                assert!((told.loss - wanted.loss).abs() < 1e-4 * wanted.loss.abs().max(1.0));
                assert!((told.q_mean - wanted.q_mean).abs() < 1e-4);
                for (given, wanted) in given.td_errors().iter().zip(host.td_errors()) {
                    assert!((given - wanted).abs() < 1e-4, "{given} {wanted}");
                }
                assert_eq!(n_after - n_before, 1);
                // Loss, mean value and TD errors; the gradient's norm and its factor.
                let to_host = after.to_host_bytes - before.to_host_bytes;
                assert_eq!(to_host, 4 * (2 + N as u64) + 8);
                if step > 0 {
                    // Both observations, one-hot actions, reward, discount, weight; the numbers of the step.
                    let to_device = after.to_device_bytes - before.to_device_bytes;
                    assert_eq!(to_device, 4 * (N as u64) * (2 * 3 + 4 + 3) + 12);
                }
            }
            for (given, wanted) in given.params().flat().iter().zip(host.params().flat()) {
                assert!((given - wanted).abs() < 1e-4, "{given} {wanted}");
            }
            let moments = [&given, &host].map(|agent| agent.optimiser().slots().concat());
            for (given, wanted) in moments[0].iter().zip(&moments[1]) {
                assert!((given - wanted).abs() < 1e-4, "{given} {wanted}");
            }
            // Weights that are set on the host are those of the next update.
            let weights = host.weights().to_vec();
            given.set_weights(&weights).unwrap();
            let (rows, weights) = batch(N, 9);
            let wanted = update(&mut host, (&rows, Some(&weights)));
            let told = update(&mut given, (&rows, Some(&weights)));
            assert!((told.loss - wanted.loss).abs() < 1e-4 * wanted.loss.abs().max(1.0));
        }
    }
}

/// An observation that makes the loss infinite is told as on the host, and the weights stay.
#[test]
fn what_diverges_is_told_and_changes_nothing() {
    let config = small(N, 1);
    let (observation, action) = spaces();
    let spaces = Spaces::new(observation, action).unwrap();
    for device in devices().into_iter().chain([Device::host()]) {
        let mut agent = DqnAgent::new(&config, &spaces, 5, &device).unwrap();
        let huge: Vec<f32> = agent.weights().iter().map(|w| 1e30 * w).collect();
        agent.set_weights(&huge).unwrap();
        let (rows, _) = batch(N, 1);
        let mut comm = shardgraph_collectives::Comm::solo();
        let error = agent.update((&rows, None), &mut comm, Default::default());
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("the loss") && text.contains("diverged"),
            "{text}"
        );
        assert_eq!(agent.weights(), huge);
    }
}
