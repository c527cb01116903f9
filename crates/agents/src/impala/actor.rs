//! An actor: environments, a copy of the policy, and the unrolls that it makes.

use shardgraph_autodiff::Params;
use shardgraph_components::SoftmaxPolicy;
use shardgraph_device::Device;
use shardgraph_environments::{Actions, VectorEnvironment};
use shardgraph_random::KeyedRng;

use super::config::ImpalaConfig;
use super::trajectory::Unroll;
use crate::episodes::EpisodeStatistics;
use crate::error::Error;
use crate::log_probability::log_probability;
use crate::observations::{Seen, penalties};
use crate::policy_program::{MemoryState, PolicyProgram, Said, build_policy};
use crate::run_environments::{Environments, last_observations};

/// Everything of an actor but its messages.
#[derive(Debug)]
pub(super) struct Actor {
    params: Params,
    policy: SoftmaxPolicy,
    acting: PolicyProgram,
    pub(super) vector: Box<dyn VectorEnvironment>,
    pub(super) state: MemoryState,
    pub(super) episodes: EpisodeStatistics,
    seed: u64,
    /// The number of this actor.
    index: u64,
    unroll_steps: usize,
    gamma: f32,
    /// Steps of all its environments.
    pub(super) n_steps: u64,
    /// The learner's updates that its weights have seen.
    pub(super) version: u64,
    actions: Vec<u32>,
    observations: Vec<f32>,
    said: Said,
}

/// The seed of the episodes of one actor.
fn first_states(seed: u64, index: u64) -> u64 {
    KeyedRng::new(seed, "impala environments", index).next_u64()
}

impl Actor {
    pub(super) fn new(
        impala: &ImpalaConfig,
        environments: &Environments,
        n_environments: usize,
        seed: u64,
        index: u32,
        device: &Device,
    ) -> Result<Actor, Error> {
        let (params, network) = build_policy(environments, &impala.network, seed)?;
        let mut vector = environments.vector(n_environments)?;
        vector.reset(first_states(seed, index.into()));
        Ok(Actor {
            policy: SoftmaxPolicy::build("policy", environments.spaces().action())?,
            acting: PolicyProgram::new(
                &params,
                &network,
                n_environments,
                environments.spaces().has_mask(),
                device,
            )?,
            state: MemoryState::new(&network, n_environments),
            params,
            vector,
            episodes: EpisodeStatistics::new(n_environments),
            seed,
            index: index.into(),
            unroll_steps: impala.unroll_steps,
            gamma: impala.gamma,
            n_steps: 0,
            version: 0,
            actions: Vec::with_capacity(n_environments),
            observations: Vec::new(),
            said: Said::default(),
        })
    }

    /// Of an actor that is not the first of its number: other episodes and other chances than those that were before it.
    pub(super) fn begin_at(&mut self, key: u64) {
        if key > 0 {
            self.seed = KeyedRng::new(self.seed, "impala actor that came later", key).next_u64();
            self.vector.reset(first_states(self.seed, self.index));
        }
    }

    pub(super) fn set_weights(&mut self, version: u64, weights: &[f32]) -> Result<(), Error> {
        self.params.set_trained(weights)?;
        self.acting.weights_changed();
        self.version = version;
        Ok(())
    }

    /// The next steps of all environments.
    pub(super) fn collect(&mut self, unroll: &mut Unroll) -> Result<(), Error> {
        unroll.begin(&self.state, self.version);
        for _ in 0..self.unroll_steps {
            self.step(unroll)?;
        }
        unroll.observations.extend(self.vector.observations());
        unroll.begins.extend(&self.state.begins);
        Ok(())
    }

    fn step(&mut self, unroll: &mut Unroll) -> Result<(), Error> {
        let seen = Seen::of(self.vector.as_ref());
        self.acting
            .run(&self.params, seen, &self.state, &mut self.said)?;
        unroll.observations.extend(seen.observations);
        let flags = seen.mask.unwrap_or_default();
        unroll.masks.extend(penalties(flags.iter().copied()));
        unroll.begins.extend(&self.state.begins);
        let n_environments = self.vector.n_environments() as u64;
        let key = (self.index << 40) | (self.n_steps / n_environments);
        let mut stream = KeyedRng::new(self.seed, "impala actions", key);
        self.actions.clear();
        self.policy
            .sample_into(&self.said.logits, &mut stream, &mut self.actions)?;
        self.n_steps += n_environments;
        self.vector.step(Actions::Discrete(&self.actions))?;
        self.record(unroll);
        self.remember();
        self.value_truncated(unroll)
    }

    /// What the step earned.
    fn record(&mut self, unroll: &mut Unroll) {
        let step = self.vector.last_step();
        let n_parts = self.policy.n_choices().len();
        let logits = self.said.logits.chunks_exact(self.policy.n_actions());
        let actions = self.actions.chunks_exact(n_parts).zip(logits);
        for (idx, (action, logits)) in actions.enumerate() {
            unroll.actions.extend(action);
            let behaviour = log_probability(self.policy.n_choices(), logits, action);
            unroll.behaviour.push(behaviour);
            unroll.rewards.push(step.rewards[idx]);
            unroll
                .discounts
                .push(if step.ended(idx) { 0.0 } else { self.gamma });
            unroll.episodes.extend(
                self.episodes
                    .record(idx, step.rewards[idx], step.ended(idx)),
            );
        }
    }

    /// The memory after the step.
    fn remember(&mut self) {
        let step = self.vector.last_step();
        for (idx, begins) in self.state.begins.iter_mut().enumerate() {
            *begins = if step.ended(idx) { 1.0 } else { 0.0 };
        }
        std::mem::swap(&mut self.state.hidden, &mut self.said.hidden);
        std::mem::swap(&mut self.state.cell, &mut self.said.cell);
    }

    /// Adds the value of the last observation to the last reward of each episode that a limit has just stopped: there its return goes on,
    /// and the next observation belongs to another episode.
    fn value_truncated(&mut self, unroll: &mut Unroll) -> Result<(), Error> {
        let vector = self.vector.as_ref();
        let step = vector.last_step();
        if !step.truncated.contains(&true) {
            return Ok(());
        }
        last_observations(vector, &mut self.observations)?;
        let mut state = self.state.clone();
        state.begins.fill(0.0); // the episode that has ended is still remembered
        let seen = Seen {
            observations: &self.observations,
            mask: vector.action_mask(), // values do not depend on it
        };
        self.acting
            .run(&self.params, seen, &state, &mut self.said)?;
        let first = unroll.rewards.len() - vector.n_environments();
        for (idx, value) in self
            .said
            .values
            .iter()
            .enumerate()
            .filter(|(idx, _)| step.truncated[*idx])
        {
            unroll.rewards[first + idx] += self.gamma * value;
        }
        Ok(())
    }
}
