//! An actor: environments, a copy of the agent, and the blocks that it makes of what it sees.

use std::ops::Range;

use shardgraph_components::EpsilonSchedule;
use shardgraph_device::Device;
use shardgraph_environments::Actions;
use shardgraph_random::KeyedRng;
use shardgraph_replay::{LeafRef, Rows};

use super::config::ApexConfig;
use super::learner::new_agent;
use super::message::{Block, Progress};
use crate::agent::Agent;
use crate::dqn::{DqnAgent, column, layout_of};
use crate::error::Error;
use crate::experience::Experience;
use crate::observations::FORBIDDEN;
use crate::run_environments::Environments;

/// Everything of an actor but its messages.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) agent: DqnAgent,
    pub(super) experience: Experience,
    /// Transitions that fill the next blocks, behind those that are in blocks already.
    rows: Rows,
    n_taken: usize,
    block_rows: usize,
    epsilon: f32,
    seed: u64,
    /// The number of this actor.
    index: u64,
    weights_every_steps: u64,
    /// Steps of all its environments.
    pub(super) n_steps: u64,
    /// What `n_steps` was when it last took weights; `None` before the first.
    pub(super) weights_at: Option<u64>,
    /// The learner's updates that its weights have seen.
    pub(super) version: u64,
    /// What no block or report has told yet.
    progress: Progress,
    actions: Vec<u32>,
}

/// The seed of the episodes of one actor.
fn first_states(seed: u64, index: u64) -> u64 {
    KeyedRng::new(seed, "apex environments", index).next_u64()
}

/// The number of an actor among all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ActorNumber {
    pub(super) index: u32,
    pub(super) n_actors: u32,
}

impl ActorNumber {
    /// The only one.
    pub(super) const ALONE: ActorNumber = ActorNumber {
        index: 0,
        n_actors: 1,
    };

    /// The probability of its random actions; the last one's is the smallest.
    pub(super) fn exploration(self, apex: &ApexConfig) -> Result<f32, Error> {
        let ActorNumber { index, n_actors } = self;
        let (base, alpha) = (apex.epsilon, apex.epsilon_alpha);
        Ok(EpsilonSchedule::of_actor(base, alpha, index, n_actors)?.at(0))
    }
}

impl Actor {
    pub(super) fn new(
        apex: &ApexConfig,
        environments: &Environments,
        n_environments: usize,
        seed: u64,
        number: ActorNumber,
        device: &Device,
    ) -> Result<Actor, Error> {
        let first_states = first_states(seed, number.index.into());
        let (n_step, gamma) = (apex.n_step, apex.gamma);
        Ok(Actor {
            agent: new_agent(apex, environments, seed, device)?,
            experience: Experience::new(environments, n_environments, n_step, gamma, first_states)?,
            rows: Rows::new(layout_of(environments.spaces())?),
            n_taken: 0,
            block_rows: apex.block_rows,
            epsilon: number.exploration(apex)?,
            seed,
            index: number.index.into(),
            weights_every_steps: apex.weights_every_steps,
            n_steps: 0,
            weights_at: None,
            version: 0,
            progress: Progress::default(),
            actions: Vec::with_capacity(n_environments),
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

    /// Of an actor that is not the first of its number: other episodes and other chances than those that were before it.
    pub(super) fn begin_at(&mut self, key: u64) {
        if key > 0 {
            self.seed = KeyedRng::new(self.seed, "apex actor that came later", key).next_u64();
            self.experience
                .begin_anew(first_states(self.seed, self.index));
        }
    }

    pub(super) fn set_weights(&mut self, version: u64, weights: &[f32]) -> Result<(), Error> {
        self.agent.set_weights(weights)?;
        self.version = version;
        Ok(())
    }

    pub(super) fn weights(&self) -> &[f32] {
        self.agent.weights()
    }

    /// Steps until a block is full or `budget` steps are made, and what came of them. The last block may be short, and even empty.
    pub(super) fn collect(&mut self, budget: u64) -> Result<(Block, Progress), Error> {
        while self.rows.len() - self.n_taken < self.block_rows && self.n_steps < budget {
            self.step()?;
        }
        let block = self.take_rows()?;
        let td_errors = self.td_errors(&block)?;
        let progress = Progress {
            version: self.version,
            epsilon: self.epsilon,
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

    /// The transitions that are in no block yet.
    pub(super) fn waiting(&self) -> Result<Rows, Error> {
        self.copy_of(self.n_taken..self.rows.len())
    }

    /// Takes over what [`Actor::waiting`] gave, as bytes.
    pub(super) fn restore_waiting(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.n_taken = 0;
        Ok(self.rows.restore(bytes)?)
    }

    /// The next block. One step of many environments may fill many: each transition is moved up once, not at each block.
    fn take_rows(&mut self) -> Result<Rows, Error> {
        let end = self.rows.len().min(self.n_taken + self.block_rows);
        let block = self.copy_of(self.n_taken..end)?;
        self.n_taken = end;
        if 2 * end >= self.rows.len() {
            self.rows = self.waiting()?;
            self.n_taken = 0;
        }
        Ok(block)
    }

    fn copy_of(&self, rows: Range<usize>) -> Result<Rows, Error> {
        let mut copy = Rows::new(self.rows.layout().clone());
        let n_columns = copy.layout().columns().len();
        let mut cells = Vec::with_capacity(n_columns);
        for row in rows {
            cells.clear();
            cells.extend((0..n_columns).map(|column| self.rows.cell(column, row)));
            copy.push(&cells)?;
        }
        Ok(copy)
    }

    /// One step in every environment.
    fn step(&mut self) -> Result<(), Error> {
        let n_environments = self.experience.len() as u64;
        let key = (self.index << 40) | (self.n_steps / n_environments);
        let mut stream = KeyedRng::new(self.seed, "apex exploration", key);
        let seen = self.experience.seen();
        self.agent
            .act(seen, self.epsilon, &mut stream, &mut self.actions)?;
        let mut insert = |cells: &[LeafRef<'_>]| Ok(self.rows.push(cells)?);
        let ended = &mut self.progress.episodes;
        self.experience
            .step(Actions::Discrete(&self.actions), &mut insert, ended)?;
        self.n_steps += n_environments;
        self.progress.n_steps += n_environments;
        Ok(())
    }

    /// Prediction less target, both by this actor's own online network: the first priorities.
    fn td_errors(&mut self, rows: &Rows) -> Result<Vec<f32>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let n_actions = self.agent.n_actions();
        let mut next = self
            .agent
            .action_values(rows.f32s(column::NEXT_OBSERVATION), rows.len())?;
        if rows.layout().columns().len() > column::NEXT_MASK {
            let flags = rows.u8s(column::NEXT_MASK);
            for (value, _) in next.iter_mut().zip(flags).filter(|(_, flag)| **flag == 0) {
                *value = FORBIDDEN;
            }
        }
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
