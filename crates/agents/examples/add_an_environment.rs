//! A grid world that does not come with the program, learned by DQN and by PPO.
//!
//! ```sh
//! cargo run --release -p shardgraph-agents --example add_an_environment
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;

use shardgraph_agents::{AgentConfig, Choice, Environments, Evaluation, RunOptions, Start, train};
use shardgraph_environments::space::Space;
use shardgraph_environments::{Actions, Error as Refused, VectorEnvironment, VectorStep};

/// The side of the grid, and the steps after which an episode is stopped.
const SIDE: u8 = 6;
const LIMIT: u8 = 50;

// The environment: 60 lines.

/// Walkers from one corner of a grid to the opposite one; each step costs 0.01, the corner pays 1.
#[derive(Debug)]
struct GridWorld {
    /// Column, row and steps of each walker.
    walkers: Vec<[u8; 3]>,
    seen: Vec<f32>,
    last_seen: Vec<f32>,
    step: VectorStep,
}

impl GridWorld {
    fn look(&mut self) {
        let places = self.walkers.iter().flat_map(|[x, y, _]| [x, y]);
        self.seen = places.map(|&at| f32::from(at) / f32::from(SIDE)).collect();
    }
}

impl VectorEnvironment for GridWorld {
    fn n_environments(&self) -> usize {
        self.walkers.len()
    }
    fn observation_space(&self) -> Space {
        Space::boxed(&[2], 0.0, 1.0).expect("a box")
    }
    fn action_space(&self) -> Space {
        Space::discrete(4).expect("left, right, up, down")
    }
    fn reset(&mut self, _seed: u64) {
        self.walkers.fill([0; 3]);
        self.look();
    }
    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Refused> {
        let marked = self
            .walkers
            .iter_mut()
            .zip(marks)
            .filter(|(_, mark)| **mark);
        marked.for_each(|(walker, _)| *walker = [0; 3]);
        self.look();
        Ok(())
    }
    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Refused> {
        let Actions::Discrete(actions) = actions else {
            unreachable!("the space is discrete")
        };
        for ([x, y, n_steps], action) in self.walkers.iter_mut().zip(actions) {
            let at = if *action < 2 { x } else { y };
            *at = if action % 2 == 0 {
                at.saturating_sub(1)
            } else {
                (*at + 1).min(SIDE - 1)
            };
            *n_steps += 1;
        }
        self.look();
        self.last_seen.clone_from(&self.seen);
        let ended = |walker: &[u8; 3]| walker[..2] == [SIDE - 1; 2];
        self.step.terminated = self.walkers.iter().map(ended).collect();
        self.step.truncated = self
            .walkers
            .iter()
            .map(|w| !ended(w) && w[2] == LIMIT)
            .collect();
        self.step.rewards = self
            .walkers
            .iter()
            .map(|w| if ended(w) { 1.0 } else { -0.01 })
            .collect();
        let marks: Vec<bool> = (0..self.walkers.len())
            .map(|idx| self.step.ended(idx))
            .collect();
        self.reset_where(&marks)?;
        Ok(&self.step)
    }
    fn last_step(&self) -> &VectorStep {
        &self.step
    }
    fn observations(&self) -> &[f32] {
        &self.seen
    }
    fn final_observation(&self, idx: usize) -> Option<&[f32]> {
        self.step
            .ended(idx)
            .then(|| &self.last_seen[2 * idx..2 * idx + 2])
    }
    fn to_bytes(&self) -> Vec<u8> {
        self.walkers.as_flattened().to_vec()
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.walkers = bytes.as_chunks().0.to_vec();
        self.look();
        Ok(())
    }
}

// Its training.

fn main() -> Result<(), Box<dyn Error>> {
    let grids = Environments::new(|n| {
        let mut grid = GridWorld {
            walkers: vec![[0; 3]; n],
            seen: Vec::new(),
            last_seen: Vec::new(),
            step: VectorStep::default(),
        };
        grid.look();
        Ok(Box::new(grid))
    })?;
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
        let episodes = (10, Choice::Greedy);
        let played = Evaluation::play(outcome.agent.as_mut(), &grids, episodes, 1)?;
        let best = 1.0 - 0.01 * f64::from(2 * (SIDE - 1) - 1);
        println!(
            "{name}: mean return {:.2}, the best is {best:.2}",
            played.mean_return()
        );
    }
    Ok(())
}
