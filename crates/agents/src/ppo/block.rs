//! A block: environments that one rank steps, and the steps of a rollout that are learned from.

use shardgraph_autodiff::Params;
use shardgraph_components::{ActionDistribution, ActorCritic};
use shardgraph_device::Device;
use shardgraph_environments::VectorEnvironment;
use shardgraph_random::KeyedRng;

use super::advantages::{Earned, generalised};
use super::config::PpoConfig;
use crate::config::AgentConfig;
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::log_probability::log_probability;
use crate::observations::{ActionBuffer, Seen, penalties};
use crate::policy_program::{MemoryState, PolicyProgram, Said};
use crate::run_environments::{Environments, last_observations};

/// Environments of one rank, with all that decides how they go on.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) index: u64,
    pub(super) vector: Box<dyn VectorEnvironment>,
    pub(super) episodes: EpisodeStatistics,
    pub(super) rollout: Rollout,
    acting: PolicyProgram,
    /// Of a network without a memory: empty.
    state: MemoryState,
    said: Said,
    seed: u64,
    n_steps: usize,
    discounts: (f32, f32),
    chosen: ActionBuffer,
    last_observations: Vec<f32>,
}

/// T steps of E environments, time first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rollout {
    pub(super) observations: Vec<f32>,
    /// What masks add to the logits; empty without masks.
    pub(super) masks: Vec<f32>,
    /// One number for each part of a discrete action.
    pub(super) actions: Vec<u32>,
    /// The elements of continuous actions, as they were drawn.
    pub(super) drawn: Vec<f32>,
    /// Log-probabilities of the actions.
    pub(super) behaviour: Vec<f32>,
    pub(super) values: Vec<f32>,
    pub(super) advantages: Vec<f32>,
    /// What the values should be.
    pub(super) returns: Vec<f32>,
    pub(super) rewards: Vec<f32>,
    pub(super) ended: Vec<bool>,
    /// Episodes that ended, with their time and environment.
    pub(super) episodes: Vec<(u32, u32, Episode)>,
}

impl Block {
    pub(super) fn new(
        config: &AgentConfig,
        ppo: &PpoConfig,
        environments: &Environments,
        params: &Params,
        network: &ActorCritic,
        index: u64,
        device: &Device,
    ) -> Result<Block, Error> {
        let (seed, n_environments) = (config.seed, config.environment.n_environments);
        let n = n_environments / ppo.gradient_blocks;
        let mut vector = environments.vector(n)?;
        vector.reset(KeyedRng::new(seed, "ppo environments", index).next_u64());
        let has_mask = environments.spaces().has_mask();
        Ok(Block {
            index,
            vector,
            episodes: EpisodeStatistics::new(n),
            rollout: Rollout::default(),
            acting: PolicyProgram::new(params, network, n, has_mask, device)?,
            state: MemoryState::new(network, n),
            said: Said::default(),
            seed,
            n_steps: ppo.rollout_steps,
            discounts: (ppo.gamma, ppo.gae_lambda),
            chosen: ActionBuffer::default(),
            last_observations: Vec::new(),
        })
    }

    /// The policy has other weights.
    pub(super) fn weights_changed(&mut self) {
        self.acting.weights_changed();
    }

    /// The steps of the rollout of number `n_rollouts`.
    pub(super) fn collect(
        &mut self,
        params: &Params,
        policy: &ActionDistribution,
        n_rollouts: u64,
    ) -> Result<(), Error> {
        self.rollout.clear();
        let key = (self.index << 40) | n_rollouts;
        let mut stream = KeyedRng::new(self.seed, "ppo actions", key);
        for t in 0..self.n_steps {
            self.step(params, policy, &mut stream, t as u32)?;
        }
        let seen = Seen::of(self.vector.as_ref());
        self.acting.run(params, seen, &self.state, &mut self.said)?;
        self.rollout.finish(&self.said.values, self.discounts);
        Ok(())
    }

    fn step(
        &mut self,
        params: &Params,
        policy: &ActionDistribution,
        stream: &mut KeyedRng,
        t: u32,
    ) -> Result<(), Error> {
        let (rollout, said) = (&mut self.rollout, &mut self.said);
        let seen = Seen::of(self.vector.as_ref());
        self.acting.run(params, seen, &self.state, said)?;
        rollout.observations.extend(seen.observations);
        let flags = seen.mask.unwrap_or_default();
        rollout.masks.extend(penalties(flags.iter().copied()));
        rollout.choose(policy, &said.logits, stream, &mut self.chosen)?;
        rollout.values.extend(&said.values);
        let step = self.vector.step(self.chosen.actions())?;
        rollout.rewards.extend(&step.rewards);
        for (idx, &reward) in step.rewards.iter().enumerate() {
            let ended = step.ended(idx);
            rollout.ended.push(ended);
            if let Some(episode) = self.episodes.record(idx, reward, ended) {
                rollout.episodes.push((t, idx as u32, episode));
            }
        }
        if step.truncated.contains(&true) {
            self.value_truncated(params)?;
        }
        Ok(())
    }

    /// Adds the value of the last observation to the last reward of each episode that a limit has just stopped: there its return goes on,
    /// and the next observation belongs to another episode.
    fn value_truncated(&mut self, params: &Params) -> Result<(), Error> {
        let vector = self.vector.as_ref();
        let (step, n) = (vector.last_step(), vector.n_environments());
        last_observations(vector, &mut self.last_observations)?;
        let seen = Seen {
            observations: &self.last_observations,
            mask: vector.action_mask(), // values do not depend on it
        };
        self.acting.run(params, seen, &self.state, &mut self.said)?;
        let first = self.rollout.rewards.len() - n;
        let stopped = (0..n).filter(|&idx| step.truncated[idx] && !step.terminated[idx]);
        for idx in stopped {
            self.rollout.rewards[first + idx] += self.discounts.0 * self.said.values[idx];
        }
        Ok(())
    }
}

impl Rollout {
    fn clear(&mut self) {
        let Rollout {
            observations,
            masks,
            actions,
            drawn,
            behaviour,
            values,
            advantages,
            returns,
            rewards,
            ended,
            episodes,
        } = self;
        for list in [
            observations,
            masks,
            drawn,
            behaviour,
            values,
            advantages,
            returns,
            rewards,
        ] {
            list.clear();
        }
        actions.clear();
        ended.clear();
        episodes.clear();
    }

    /// Draws an action for each row that the policy says, and keeps it with its log-probability.
    fn choose(
        &mut self,
        policy: &ActionDistribution,
        said: &[f32],
        stream: &mut KeyedRng,
        chosen: &mut ActionBuffer,
    ) -> Result<(), Error> {
        match policy {
            ActionDistribution::Softmax(policy) => {
                let chosen = chosen.discrete();
                policy.sample_into(said, stream, chosen)?;
                let rows = said.chunks_exact(policy.n_actions());
                let choices = chosen.chunks_exact(policy.n_choices().len());
                let behaviour = rows
                    .zip(choices)
                    .map(|(logits, choice)| log_probability(policy.n_choices(), logits, choice));
                self.behaviour.extend(behaviour);
                self.actions.extend(&*chosen);
            }
            ActionDistribution::Gaussian(policy) => {
                let first = self.drawn.len();
                policy.sample_into(said, stream, &mut self.drawn)?;
                let drawn = &self.drawn[first..];
                policy.log_densities_into(said, drawn, &mut self.behaviour);
                policy.actions_into(drawn, chosen.continuous());
            }
        }
        Ok(())
    }

    fn finish(&mut self, last_values: &[f32], discounts: (f32, f32)) {
        let earned = Earned {
            rewards: &self.rewards,
            ended: &self.ended,
            values: &self.values,
            last_values,
        };
        let (gamma, lambda) = discounts;
        generalised(earned, gamma, lambda, &mut self.advantages);
        let sums = self.advantages.iter().zip(&self.values);
        self.returns.extend(sums.map(|(a, v)| a + v));
    }
}
