//! An actor: environments, a copy of the agent, and the blocks that it makes of what it sees.

use shardgraph_components::EpsilonSchedule;
use shardgraph_device::Device;
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_graph::random::Stream;
use shardgraph_replay::{Cell, Ending, Folded, NStepFolder, Rows};

use super::config::ApexConfig;
use super::learner::new_agent;
use super::message::{Block, Progress};
use crate::dqn::{DqnAgent, column, transition_layout};
use crate::episodes::EpisodeStatistics;
use crate::error::Error;

/// Where a transition starts: what was seen, and what was done.
pub(super) type Start = ([f32; 4], u32);

/// Everything of an actor but its messages.
#[derive(Debug)]
pub(super) struct Actor {
    agent: DqnAgent,
    pub(super) carts: CartPoles,
    pub(super) folders: Vec<NStepFolder<Start>>,
    pub(super) episodes: EpisodeStatistics,
    /// Transitions that fill the next block.
    pub(super) rows: Rows,
    block_rows: usize,
    epsilon: f32,
    seed: u64,
    /// The number of this actor.
    index: u64,
    n_actions: usize,
    weights_every_steps: u64,
    /// Steps of all its environments.
    pub(super) n_steps: u64,
    /// What `n_steps` was when it last took weights; `None` before the first.
    pub(super) weights_at: Option<u64>,
    /// The learner's updates that its weights have seen.
    pub(super) version: u64,
    /// What no block or report has told yet.
    progress: Progress,
    folded: Vec<Folded<Start>>,
    actions: Vec<u32>,
    observations: Vec<[f32; 4]>,
}

impl Actor {
    pub(super) fn new(
        apex: &ApexConfig,
        n_environments: usize,
        seed: u64,
        (index, n_actors): (u32, u32),
        device: &Device,
    ) -> Result<Actor, Error> {
        let mut carts = CartPoles::new(n_environments, Autoreset::SameStep)?;
        carts.reset(Stream::new(seed, "apex environments", index.into()).next_u64());
        let explores =
            EpsilonSchedule::of_actor(apex.epsilon, apex.epsilon_alpha, index, n_actors)?;
        let folder = NStepFolder::new(apex.n_step, apex.gamma);
        Ok(Actor {
            agent: new_agent(apex, seed, device)?,
            carts,
            folders: vec![folder; n_environments],
            episodes: EpisodeStatistics::new(n_environments),
            rows: Rows::new(transition_layout(4)?),
            block_rows: apex.block_rows,
            epsilon: explores.at(0),
            seed,
            index: index.into(),
            n_actions: 2,
            weights_every_steps: apex.weights_every_steps,
            n_steps: 0,
            weights_at: None,
            version: 0,
            progress: Progress::default(),
            folded: Vec::new(),
            actions: Vec::with_capacity(n_environments),
            observations: vec![[0.0; 4]; n_environments],
        })
    }

    /// Whether it is time for new weights.
    pub(super) fn wants_weights(&self) -> bool {
        self.weights_at
            .is_none_or(|at| self.n_steps - at >= self.weights_every_steps)
    }

    /// Counts that the learner was asked; where it has nothing newer, the weights stay.
    pub(super) fn asked_for_weights(&mut self) {
        self.weights_at = Some(self.n_steps);
    }

    pub(super) fn set_weights(&mut self, version: u64, weights: &[f32]) -> Result<(), Error> {
        self.agent.set_weights(weights)?;
        self.version = version;
        Ok(())
    }

    pub(super) fn weights(&self) -> &[f32] {
        self.agent.weights()
    }

    /// Steps until a block is full, and what came of them.
    pub(super) fn collect(&mut self) -> Result<(Block, Progress), Error> {
        while self.rows.len() < self.block_rows {
            self.step()?;
        }
        let (mut block, mut rest) = (self.empty(), self.empty());
        for row in 0..self.rows.len() {
            let part = if row < self.block_rows {
                &mut block
            } else {
                &mut rest
            };
            part.push(&[0, 1, 2, 3, 4].map(|column| self.rows.cell(column, row)))?;
        }
        self.rows = rest;
        let td_errors = self.td_errors(&block)?;
        let progress = Progress {
            version: self.version,
            ..std::mem::take(&mut self.progress)
        };
        Ok((
            Block {
                rows: block,
                td_errors,
            },
            progress,
        ))
    }

    fn empty(&self) -> Rows {
        Rows::new(self.rows.layout().clone())
    }

    /// One step in every environment.
    fn step(&mut self) -> Result<(), Error> {
        self.observations.copy_from_slice(self.carts.observations());
        let n_environments = self.carts.len() as u64;
        let key = (self.index << 40) | (self.n_steps / n_environments);
        let mut stream = Stream::new(self.seed, "apex exploration", key);
        let seen = self.observations.as_flattened();
        self.agent
            .act(seen, self.epsilon, &mut stream, &mut self.actions)?;
        self.carts.step(&self.actions)?;
        for idx in 0..self.carts.len() {
            self.remember(idx)?;
        }
        self.n_steps += n_environments;
        self.progress.n_steps += n_environments;
        Ok(())
    }

    /// Takes in what the last step of environment `idx` completed.
    fn remember(&mut self, idx: usize) -> Result<(), Error> {
        let step = self.carts.last_step();
        let (reward, ended) = (step.rewards[idx], step.ended(idx));
        let ending = match (step.terminated[idx], ended) {
            (true, _) => Some(Ending::Terminated),
            (false, true) => Some(Ending::Truncated),
            (false, false) => None,
        };
        let start = (self.observations[idx], self.actions[idx]);
        self.folded.clear();
        self.folders[idx].push(start, reward, ending, &mut self.folded);
        // The carts begin the next episode within the step that ended one: its first observation is not what this one led to.
        let next = self.carts.final_observation(idx);
        let next = next.unwrap_or(&self.carts.observations()[idx]);
        for folded in &self.folded {
            let (observation, action) = &folded.start;
            self.rows.push(&[
                Cell::F32(observation),
                Cell::U32(&[*action]),
                Cell::F32(&[folded.reward_sum]),
                Cell::F32(next),
                Cell::F32(&[folded.discount]),
            ])?;
        }
        self.progress
            .episodes
            .extend(self.episodes.record(idx, reward, ended));
        Ok(())
    }

    /// Prediction less target, both by this actor's own online network: the first priorities.
    fn td_errors(&mut self, rows: &Rows) -> Result<Vec<f32>, Error> {
        let n_actions = self.n_actions;
        let next = self
            .agent
            .action_values(rows.f32s(column::NEXT_OBSERVATION), rows.len())?;
        let values = self
            .agent
            .action_values(rows.f32s(column::OBSERVATION), rows.len())?;
        let actions = rows.u32s(column::ACTION);
        let (rewards, discounts) = (rows.f32s(column::REWARD), rows.f32s(column::DISCOUNT));
        let error = |row: usize| {
            let of_row = row * n_actions..(row + 1) * n_actions;
            let best = next[of_row.clone()]
                .iter()
                .copied()
                .fold(f32::NEG_INFINITY, f32::max);
            values[of_row][actions[row] as usize] - (rewards[row] + discounts[row] * best)
        };
        Ok((0..rows.len()).map(error).collect())
    }
}
