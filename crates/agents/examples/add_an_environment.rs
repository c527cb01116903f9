//! A grid world that does not come with the program, learned by DQN and by PPO.
//!
//! ```sh
//! cargo run --release -p shardgraph-agents --example add_an_environment
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;

use shardgraph_agents::{AgentConfig, Choice, Environments, Evaluation, RunOptions, Start, train};
use shardgraph_environments::space::Space;
use shardgraph_environments::{Action, FunctionalEnvironment, Transition};
use shardgraph_random::KeyedRng;

/// The side of the grid, and the steps after which an episode is stopped.
const SIDE: u8 = 6;
const LIMIT: u32 = 50;

/// A walk from one corner of a grid to the opposite one; each step costs 0.01, the corner pays 1.
#[derive(Clone, Debug)]
struct GridWorld;

impl FunctionalEnvironment for GridWorld {
    /// Column and row.
    type State = [u8; 2];

    fn observation_space(&self) -> Space {
        Space::boxed(&[2], 0.0, 1.0).expect("a box")
    }

    fn action_space(&self) -> Space {
        Space::discrete(4).expect("left, right, up, down")
    }

    fn initial(&self, _rng: &mut KeyedRng) -> [u8; 2] {
        [0, 0]
    }

    fn transition(&self, at: &mut [u8; 2], action: Action<'_>, _: &mut KeyedRng) -> Transition {
        let action = action.number();
        let along = &mut at[usize::from(action >= 2)];
        *along = match action % 2 {
            0 => along.saturating_sub(1),
            _ => (*along + 1).min(SIDE - 1),
        };
        let terminated = *at == [SIDE - 1; 2];
        let reward = if terminated { 1.0 } else { -0.01 };
        Transition { reward, terminated }
    }

    fn observe(&self, at: &[u8; 2], out: &mut [f32]) {
        for (out, &along) in out.iter_mut().zip(at) {
            *out = f32::from(along) / f32::from(SIDE);
        }
    }
}

// Its training.

fn main() -> Result<(), Box<dyn Error>> {
    let grids = Environments::functional(GridWorld, Some(LIMIT))?;
    let options = RunOptions {
        environments: Some(grids.clone()),
        ..RunOptions::default()
    };
    for algorithm in [
        "{ name = 'dqn', learning_starts = 1000, train_every = 4, optimiser = { rule = 'adam', learning_rate = 1e-3 } }",
        "{ name = 'ppo', rollout_steps = 64, optimiser = { rule = 'adam', learning_rate = 3e-3 } }",
    ] {
        let config = AgentConfig::from_toml(&format!(
            "steps = 30_000\nenvironment = {{ name = 'grid world', n_environments = 8 }}\nalgorithm = {algorithm}"
        ))?;
        let name = config.algorithm.name();
        let start = Start::New {
            config,
            folder: None,
        };
        let mut outcome = train(&start, &options, &mut |_| ())?;
        let played = Evaluation::play(outcome.agent.as_mut(), &grids, 10, Choice::Greedy, 1)?;
        let best = 1.0 - 0.01 * f64::from(2 * (SIDE - 1) - 1);
        println!(
            "{name}: mean return {:.2}, the best is {best:.2}",
            played.mean_return()
        );
    }
    Ok(())
}
