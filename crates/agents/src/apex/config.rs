//! The settings of Ape-X.

use serde::{Deserialize, Serialize};
use shardgraph_components::{OptimiserConfig, OptimiserRule, QNetworkShape, TdLoss};

use crate::dqn::{DqnConfig, PrioritizedConfig, ReplayConfig};
use crate::error::Error;
use crate::rules::{MAX_RANKS, MAX_ROWS, MAX_SENT_WEIGHTS, Rule, Widths, n_weights_of_values};

/// Settings of Ape-X: a double DQN with n-step returns that learns from what many actors see.
///
/// # Source
/// Horgan et al., Distributed prioritized experience replay, ICLR 2018. The network and the batch are those of `cartpole-dqn`.
///
/// ```
/// let apex = shardgraph_agents::ApexConfig::default();
/// assert_eq!((apex.n_actors, apex.n_shards, apex.block_rows), (4, 1, 200));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApexConfig {
    /// The Q-network: hidden layers of 120 and 84 and a plain head by default.
    pub network: QNetworkShape,
    /// What a TD error costs; Huber with a delta of 1 by default.
    pub td_loss: TdLoss,
    /// Whether the online network picks the action that the target network values; true by default.
    pub double: bool,
    /// Rewards that are summed before the target network's value follows; 3 by default.
    pub n_step: u32,
    /// The discount of a step; 0.99 by default.
    pub gamma: f32,
    /// How gradients become steps: Adam with a step size of 5e-4 by default.
    pub optimiser: OptimiserConfig,
    /// Transitions in a batch; 128 by default.
    pub batch_size: usize,
    /// Updates between copies of the weights into the target network; 50 by default.
    pub target_sync_updates: u64,
    /// Updates between two rows of losses in the metrics; 10 by default.
    pub log_updates: u64,
    /// Learners that share each batch, threads of one process; 1 by default. Weights have the same bits for every number of them.
    pub n_learners: u32,
    /// Into how many blocks of equal size a batch is cut, for learners to share; 1 by default. It decides the last bits of a gradient.
    pub gradient_blocks: usize,
    /// Actors, each with `n_environments` environments; 4 by default. As processes, what is left of the ranks.
    pub n_actors: u32,
    /// Shards of the replay memory; 1 by default.
    pub n_shards: u32,
    /// Each shard's memory.
    pub replay: ApexReplayConfig,
    /// Actor i of N explores with probability `epsilon ^ (1 + alpha * i / (N - 1))`; 0.4 by default.
    pub epsilon: f32,
    /// See `epsilon`; 7 by default.
    pub epsilon_alpha: f32,
    /// Transitions in a block, at most the memory's `capacity`; 200 by default.
    pub block_rows: usize,
    /// Blocks of an actor that no shard has acknowledged yet, at most; 2 by default.
    pub max_unacknowledged_blocks: usize,
    /// Steps of an actor's environments between its questions for new weights; 400 by default.
    pub weights_every_steps: u64,
    /// Batches that the learner has asked of each shard and not learned from yet, at most; 4 by default.
    pub prefetch_batches: usize,
    /// Whether learner, shard and actor wait for each other, so that a run always ends the same; false by default. For one actor and one
    /// shard.
    pub lock_step: bool,
}

impl Default for ApexConfig {
    fn default() -> Self {
        Self {
            network: QNetworkShape::default(),
            td_loss: TdLoss::Huber { delta: 1.0 },
            double: true,
            n_step: 3,
            gamma: 0.99,
            optimiser: OptimiserConfig {
                rule: OptimiserRule::ADAM,
                learning_rate: 5e-4,
                max_gradient_norm: None,
            },
            batch_size: 128,
            target_sync_updates: 50,
            log_updates: 10,
            n_learners: 1,
            gradient_blocks: 1,
            n_actors: 4,
            n_shards: 1,
            replay: ApexReplayConfig::default(),
            epsilon: 0.4,
            epsilon_alpha: 7.0,
            block_rows: 200,
            max_unacknowledged_blocks: 2,
            weights_every_steps: 400,
            prefetch_batches: 4,
            lock_step: false,
        }
    }
}

/// The memory of a shard, and how often what is in it is learned from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApexReplayConfig {
    /// Transitions that a shard holds; 50 000 by default.
    pub capacity: usize,
    /// How much priorities count, from 0, uniform, to 1, proportional; 0.6 by default.
    pub alpha: f32,
    /// What keeps transitions without an error reachable; 1e-6 by default.
    pub epsilon: f32,
    /// How much importance weights make up for the priorities; 0.4 by default.
    pub beta: f32,
    /// Transitions that a shard holds before its first batch; 1000 by default.
    pub min_rows: usize,
    /// How often a transition is drawn, on average over all that come; 8 by default. Where the learner is behind, actors wait; where the
    /// actors are, it does.
    pub samples_per_insert: f64,
    /// By how many drawn transitions a shard may be off that ratio, either way; 2000 by default.
    pub tolerance: f64,
}

impl Default for ApexReplayConfig {
    fn default() -> Self {
        Self {
            capacity: 50_000,
            alpha: 0.6,
            epsilon: 1e-6,
            beta: 0.4,
            min_rows: 1000,
            samples_per_insert: 8.0,
            tolerance: 2000.0,
        }
    }
}

impl ApexConfig {
    /// Refuses settings that cannot be right, with so many environments of these widths to an actor.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given.
    pub fn check(&self, n_environments: usize, widths: Widths) -> Result<(), Error> {
        let is_single = self.n_actors == 1 && self.n_shards == 1;
        let rules = [
            Rule::at_least_1("algorithm.target_sync_updates", self.target_sync_updates),
            Rule::at_least_1("algorithm.log_updates", self.log_updates),
            Rule::learners(self.n_learners, self.gradient_blocks),
            Rule::between("algorithm.n_actors", self.n_actors.into(), MAX_RANKS),
            Rule::between("algorithm.n_shards", self.n_shards.into(), MAX_RANKS),
            Rule::fraction("algorithm.epsilon", self.epsilon),
            Rule::not_negative("algorithm.epsilon_alpha", self.epsilon_alpha),
            Rule::between("algorithm.block_rows", self.block_rows as u64, MAX_ROWS),
            Rule::between(
                "algorithm.max_unacknowledged_blocks",
                self.max_unacknowledged_blocks as u64,
                MAX_RANKS,
            ),
            Rule::at_least_1("algorithm.weights_every_steps", self.weights_every_steps),
            Rule::between(
                "algorithm.prefetch_batches",
                self.prefetch_batches as u64,
                MAX_RANKS,
            ),
            Rule::network(
                &self.network,
                n_weights_of_values(&self.network, widths),
                MAX_SENT_WEIGHTS,
            ),
            Rule {
                field: "algorithm.lock_step",
                holds: !self.lock_step || is_single,
                expected: "false, or one actor and one shard".to_owned(),
                given: format!("true, with {} and {}", self.n_actors, self.n_shards),
            },
        ];
        rules.into_iter().try_for_each(Rule::check)?;
        self.replay_rules().into_iter().try_for_each(Rule::check)?;
        self.dqn().check(n_environments, widths)
    }

    fn replay_rules(&self) -> [Rule; 5] {
        let replay = &self.replay;
        [
            Rule {
                field: "algorithm.block_rows",
                holds: self.block_rows <= replay.capacity,
                expected: format!("at most `replay.capacity`, {}", replay.capacity),
                given: self.block_rows.to_string(),
            },
            Rule::fraction("algorithm.replay.beta", replay.beta),
            Rule {
                field: "algorithm.replay.min_rows",
                holds: (self.batch_size..=replay.capacity).contains(&replay.min_rows),
                expected: format!(
                    "`batch_size`, {}, to `capacity`, {}",
                    self.batch_size, replay.capacity
                ),
                given: replay.min_rows.to_string(),
            },
            Rule::above_0(
                "algorithm.replay.samples_per_insert",
                replay.samples_per_insert as f32,
            ),
            Rule {
                field: "algorithm.replay.tolerance",
                holds: replay.tolerance.is_finite() && replay.tolerance >= 0.0,
                expected: "a finite number from 0".to_owned(),
                given: replay.tolerance.to_string(),
            },
        ]
    }

    /// The settings of the agent that learner and actors have.
    pub(crate) fn dqn(&self) -> DqnConfig {
        let prioritized = PrioritizedConfig {
            alpha: self.replay.alpha,
            epsilon: self.replay.epsilon,
            ..PrioritizedConfig::default()
        };
        DqnConfig {
            network: self.network.clone(),
            td_loss: self.td_loss,
            double: self.double,
            n_step: self.n_step,
            gamma: self.gamma,
            optimiser: self.optimiser,
            batch_size: self.batch_size,
            gradient_blocks: self.gradient_blocks,
            learning_starts: u64::MAX, // the shards decide
            replay: ReplayConfig {
                capacity: self.replay.capacity,
                prioritized: Some(prioritized),
            },
            ..DqnConfig::default()
        }
    }

    /// The number of ranks: the learner, the shards and the actors.
    pub fn n_ranks(&self) -> u32 {
        1 + self.n_shards + self.n_actors
    }
}
