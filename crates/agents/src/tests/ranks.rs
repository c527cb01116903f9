//! Every algorithm whose ranks share each batch, with one to six of them: the same bits.

use crate::config::AgentConfig;
use crate::error::Error;
use crate::run::{Start, TrainOutcome, train};
use crate::run_options::RunOptions;

/// Blocks of a batch, and the most ranks.
const N: u32 = 6;

/// An environment, and an algorithm on it but for its blocks. Those of graphs have masks.
const CASES: &[(&str, &str)] = &[
    (
        "cartpole",
        "name = 'dqn', batch_size = 24, learning_starts = 120, train_every = 12, n_step = 3, double = true,
         network = { hidden = [8], dueling = [4] }, replay = { capacity = 300, prioritized = {} }",
    ),
    (
        "vertex-cover",
        "name = 'dqn', batch_size = 24, learning_starts = 120, train_every = 24, network = { hidden = [8] }",
    ),
    (
        "pendulum",
        "name = 'sac', batch_size = 24, learning_starts = 120, train_every = 12, network = { hidden = [8] }",
    ),
    (
        "cartpole",
        "name = 'sac', batch_size = 24, learning_starts = 120, train_every = 12, network = { hidden = [8] }",
    ),
    (
        "cartpole",
        "name = 'ppo', rollout_steps = 16, network = { hidden = [8] }, loss = { value_clip = 0.2 }, target_kl = 0.02",
    ),
    (
        "vertex-cover",
        "name = 'ppo', rollout_steps = 16, network = { hidden = [8] }",
    ),
    (
        "pendulum",
        "name = 'ppo', rollout_steps = 16, network = { hidden = [8] }",
    ),
];

fn run(case: (&str, &str), n_ranks: u32) -> Result<TrainOutcome, Error> {
    let (environment, algorithm) = case;
    let config = AgentConfig::from_toml(&format!(
        "steps = 576\nenvironment = {{ name = '{environment}', n_environments = 12 }}
         algorithm = {{ gradient_blocks = {N}, {} }}",
        algorithm.replace('\n', " ")
    ))?;
    let start = Start::New {
        config,
        folder: None,
    };
    let options = RunOptions {
        n_ranks,
        ..RunOptions::default()
    };
    train(&start, &options, &mut |_| ())
}

#[test]
fn one_to_six_ranks_train_the_same_weights() {
    for &case in CASES {
        let told = |n_ranks| {
            let outcome = run(case, n_ranks).unwrap();
            assert!(outcome.n_steps == 576 && outcome.n_updates > 10, "{case:?}");
            let hash = outcome.agent.weights_hash();
            let mean_return = outcome.mean_return.map(f64::to_bits);
            (hash, outcome.n_updates, outcome.n_episodes, mean_return)
        };
        let alone = told(1);
        for n_ranks in 2..=N {
            assert_eq!(told(n_ranks), alone, "{n_ranks} ranks, {case:?}");
        }
    }
}

#[test]
fn more_ranks_than_blocks_are_refused() {
    for &case in CASES {
        let message = run(case, N + 1).unwrap_err().to_string();
        let expected = "`algorithm.gradient_blocks`: expected at least 7, a block for each rank";
        assert!(message.contains(expected), "{message}");
    }
}
