//! Soft actor-critic across ranks, checkpoints, spaces and settings.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

mod eager;

use shardgraph_environments::space::Space;

use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::evaluation::{Choice, Evaluation};
use crate::run::{Start, TrainOutcome, train};
use crate::run_environments::Spaces;
use crate::run_options::RunOptions;
use crate::sac::SacConfig;

const SMALL: &str = "batch_size = 32, gradient_blocks = 4, learning_starts = 64, train_every = 4, \
                     network = { hidden = [16] }, replay = { capacity = 500 }";

fn config(environment: &str, steps: u64, algorithm: &str) -> AgentConfig {
    AgentConfig::from_toml(&format!(
        "steps = {steps}\ncheckpoint_steps = 256\nenvironment = {{ name = '{environment}', n_environments = 3 }}
         algorithm = {{ name = 'sac', {algorithm} }}"
    ))
    .unwrap()
}

fn run(config: &AgentConfig) -> TrainOutcome {
    let start = Start::New {
        config: config.clone(),
        folder: None,
    };
    train(&start, &RunOptions::default(), &mut |_| ()).unwrap()
}

/// Also where the ranks of the second part are others than those of the first; before and after the first update.
#[test]
fn a_run_that_stopped_and_went_on_is_the_same_run() {
    for environment in ["pendulum", "cartpole"] {
        let config = config(environment, 600, SMALL);
        let whole = run(&config);
        // An update at each fourth step from 64 to 600.
        assert_eq!((whole.n_steps, whole.n_updates), (600, 135));
        for stop_at in [30, 333] {
            let scratch = tempfile::tempdir().unwrap();
            let folder = scratch.path().join("run");
            let start = Start::New {
                config: config.clone(),
                folder: Some(folder.clone()),
            };
            let options = |n_ranks, stop_at| RunOptions {
                n_ranks,
                stop_at,
                ..RunOptions::default()
            };
            train(&start, &options(2, Some(stop_at)), &mut |_| ()).unwrap();
            let goes_on = Start::Resumed { folder };
            let resumed = train(&goes_on, &options(3, None), &mut |_| ()).unwrap();
            assert_eq!(resumed.agent.weights_hash(), whole.agent.weights_hash());
            assert_eq!(resumed.mean_return, whole.mean_return);
        }
    }
}

#[test]
fn it_learns_to_swing_a_pendulum_up() {
    let quick = "batch_size = 64, learning_starts = 200, network = { hidden = [32, 32] }, gamma = 0.95, \
                 optimiser = { rule = 'adam', learning_rate = 3e-3 }, tau = 0.02";
    let config = config("pendulum", 6_000, quick);
    let mut outcome = run(&config);
    let environments = RunOptions::default().environments_of(&config).unwrap();
    let agent = outcome.agent.as_mut();
    let played = Evaluation::play(agent, &environments, 20, Choice::Greedy, 1).unwrap();
    // An untrained policy has about -1,200.
    assert!(played.mean_return() > -400.0, "{}", played.mean_return());
}

#[test]
fn it_learns_to_hold_a_pole() {
    let quick = "batch_size = 64, learning_starts = 200, network = { hidden = [32, 32] }, \
                 optimiser = { rule = 'adam', learning_rate = 2e-3 }, tau = 0.02, \
                 temperature = { target_entropy = 0.2 }";
    let config = config("cartpole", 6_000, quick);
    let mut outcome = run(&config);
    let environments = RunOptions::default().environments_of(&config).unwrap();
    let agent = outcome.agent.as_mut();
    for choice in [Choice::Greedy, Choice::Sampled] {
        let played = Evaluation::play(agent, &environments, 20, choice, 1).unwrap();
        assert!(
            played.mean_return() > 150.0,
            "{choice:?} {}",
            played.mean_return()
        );
    }
}

/// A learned temperature moves, a fixed one does not; weights come back from a file.
#[test]
fn temperature_and_weights() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("weights.safetensors");
    let fixed = format!("{SMALL}, temperature = {{ initial = 0.3, learned = false }}");
    for (settings, is_learned) in [(SMALL.to_owned(), true), (fixed, false)] {
        let config = config("pendulum", 300, &settings);
        let trained = run(&config);
        trained.agent.export(&path).unwrap();
        let mut other = super::SacAgent::of_config(&config, &RunOptions::default()).unwrap();
        let before = other.temperature();
        other.import(&path).unwrap();
        assert_eq!(Agent::weights(&other), trained.agent.weights());
        assert_eq!(other.temperature() != before, is_learned);
    }
}

#[test]
fn settings_that_cannot_be_right_are_named() {
    let wrong = [
        ("pendulum", "batch_size = 0", "`algorithm.batch_size`"),
        ("pendulum", "tau = 1.5", "`algorithm.tau`: expected 0 to 1"),
        ("pendulum", "learning_starts = 255", "at least 256 steps"),
        (
            "pendulum",
            "gradient_blocks = 3",
            "a number that divides `batch_size`, 256",
        ),
        (
            "pendulum",
            "network = { hidden = [0] }",
            "`algorithm.network`",
        ),
        (
            "pendulum",
            "temperature = { initial = 0.0 }",
            "`algorithm.temperature.initial`",
        ),
        (
            "pendulum",
            "replay = { capacity = 10 }",
            "`algorithm.replay.capacity`",
        ),
        ("vertex-cover", "", "without masks of actions"),
    ];
    for (environment, algorithm, message) in wrong {
        let error = config(environment, 600, algorithm).check().unwrap_err();
        assert!(
            error.is_input() && error.to_string().contains(message),
            "{error}"
        );
    }
}

#[test]
fn the_target_entropy_follows_the_actions() {
    let observation = Space::boxed(&[2], -1.0, 1.0).unwrap();
    let of = |action: Space| {
        let spaces = Spaces::new(observation.clone(), action).unwrap();
        SacConfig::default().target_entropy(&spaces)
    };
    assert_eq!(of(Space::boxed(&[3], -1.0, 1.0).unwrap()), -3.0);
    let discrete = of(Space::discrete(4).unwrap());
    assert!((discrete - 0.98 * 4f32.ln()).abs() < 1e-6);
}
