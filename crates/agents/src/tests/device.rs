//! Runs on a device: what the host learns, to rounding, and updates that leave parameters and moments in its memory.
//!
//! An update is one launch of a graph, by the device's counter.

use shardgraph_device::Device;

use crate::config::AgentConfig;
use crate::run::{Start, train};
use crate::run_options::RunOptions;

/// The devices that launch kernels and are here.
pub(crate) fn devices() -> Vec<Device> {
    shardgraph_cuemu::devices("agents")
}

/// An environment and an algorithm on it, with one block a batch but for the last.
const CASES: &[(&str, &str)] = &[
    (
        "cartpole",
        "name = 'dqn', batch_size = 16, learning_starts = 60, train_every = 8, target_sync_steps = 64, n_step = 3,
         double = true, network = { hidden = [8], dueling = [4] }, replay = { capacity = 300, prioritized = {} },
         optimiser = { rule = 'adam', learning_rate = 1e-3, max_gradient_norm = 0.5 }",
    ),
    (
        "vertex-cover",
        "name = 'dqn', batch_size = 16, learning_starts = 60, train_every = 16, network = { hidden = [8] },
         optimiser = { rule = 'sgd', learning_rate = 0.01 }",
    ),
    (
        "pendulum",
        "name = 'sac', batch_size = 16, learning_starts = 60, train_every = 16, network = { hidden = [8] }, tau = 0.1",
    ),
    (
        "cartpole",
        "name = 'sac', batch_size = 16, learning_starts = 60, train_every = 16, network = { hidden = [8] }",
    ),
    (
        "cartpole",
        "name = 'ppo', rollout_steps = 16, network = { hidden = [8] }, loss = { value_clip = 0.2 }, target_kl = 0.02",
    ),
    ("pendulum", "name = 'ppo', rollout_steps = 16, network = { hidden = [8] }"),
    (
        "cartpole",
        "name = 'impala', lock_step = true, n_actors = 1, batch_trajectories = 4, unroll_steps = 5,
         network = { hidden = [8], lstm = 4 }",
    ),
    (
        "cartpole",
        "name = 'apex', lock_step = true, n_actors = 1, batch_size = 16, replay = { capacity = 200, min_rows = 40 },
         network = { hidden = [8] }",
    ),
    (
        "cartpole",
        "name = 'dqn', gradient_blocks = 2, batch_size = 16, learning_starts = 60, train_every = 8,
         network = { hidden = [8] }",
    ),
];

/// Updates and weights of a run.
fn run(environment: &str, algorithm: &str, device: &Device) -> (u64, Vec<f32>) {
    let config = AgentConfig::from_toml(&format!(
        "steps = 160\nenvironment = {{ name = '{environment}', n_environments = 4 }}
         algorithm = {{ {} }}",
        algorithm.replace('\n', " ")
    ))
    .unwrap();
    let start = Start::New {
        config,
        folder: None,
    };
    let options = RunOptions {
        device: device.clone(),
        ..RunOptions::default()
    };
    let outcome = train(&start, &options, &mut |_| ()).unwrap();
    (outcome.n_updates, outcome.agent.weights().to_vec())
}

#[test]
fn a_device_learns_what_the_host_learns() {
    for device in devices() {
        for case @ (environment, algorithm) in CASES {
            let host = run(environment, algorithm, &Device::host());
            let found = run(environment, algorithm, &device);
            assert!(host.0 > 2 && found.0 == host.0, "{case:?}: {}", host.0);
            assert_eq!(found.1.len(), host.1.len());
            for (given, wanted) in found.1.iter().zip(&host.1) {
                let tolerance = 1e-3 * wanted.abs().max(0.1);
                assert!(
                    (given - wanted).abs() < tolerance,
                    "{case:?}: {given} {wanted}"
                );
            }
        }
    }
}
