//! The settings of deep Q-learning. The defaults are CleanRL's for cart and pole.

use serde::{Deserialize, Serialize};
use shardgraph_components::{
    DqnLoss, EpsilonSchedule, OptimiserConfig, OptimiserRule, QNetworkShape, TdLoss,
};

use crate::error::Error;
use crate::rules::{
    BatchSettings, MAX_ROWS, MAX_WEIGHTS, Rule, Widths, n_weights_of_values, setting,
};

/// Settings of deep Q-learning and of its usual extensions, each of which can be left out.
///
/// # Source
/// Mnih et al., Human-level control through deep reinforcement learning, Nature 518, 2015 (the algorithm); van Hasselt, Guez and Silver
/// 2016 (double); Wang et al. 2016 (dueling); Schaul et al. 2016 (prioritised replay). The defaults are those of CleanRL's `dqn.py`.
///
/// ```
/// let dqn = shardgraph_agents::DqnConfig::default();
/// assert_eq!((dqn.optimiser.learning_rate, dqn.batch_size, dqn.train_every), (2.5e-4, 128, 10));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DqnConfig {
    /// The Q-network: hidden layers of 120 and 84 and a plain head by default.
    pub network: QNetworkShape,
    /// What a TD error costs: its square by default, or `{ huber = { delta = 1.0 } }`.
    pub td_loss: TdLoss,
    /// Whether the online network picks the action that the target network values; false by default.
    pub double: bool,
    /// Rewards that are summed before the target network's value follows; 1 by default.
    pub n_step: u32,
    /// The discount of a step; 0.99 by default.
    pub gamma: f32,
    /// How gradients become steps: Adam with a step size of 2.5e-4 by default.
    pub optimiser: OptimiserConfig,
    /// Transitions in a batch; 128 by default.
    pub batch_size: usize,
    /// Into how many blocks of equal size a batch is cut, for ranks to share; 1 by default. It decides the last bits of a gradient, the
    /// number of ranks does not.
    pub gradient_blocks: usize,
    /// Steps before the first update; 10 000 by default.
    pub learning_starts: u64,
    /// Steps between updates; 10 by default.
    pub train_every: u64,
    /// Steps between copies of the weights into the target network; 500 by default.
    pub target_sync_steps: u64,
    /// Updates between two rows of losses in the metrics; 10 by default.
    pub log_updates: u64,
    /// The replay memory; the last 10 000 transitions, drawn uniformly, by default.
    pub replay: ReplayConfig,
    /// How likely a random action is; from 1 to 0.05 within the first half of the steps by default.
    pub exploration: ExplorationConfig,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self {
            network: QNetworkShape::default(),
            td_loss: TdLoss::Mse,
            double: false,
            n_step: 1,
            gamma: 0.99,
            optimiser: OptimiserConfig {
                rule: OptimiserRule::ADAM,
                learning_rate: 2.5e-4,
                max_gradient_norm: None,
            },
            batch_size: 128,
            gradient_blocks: 1,
            learning_starts: 10_000,
            train_every: 10,
            target_sync_steps: 500,
            log_updates: 10,
            replay: ReplayConfig::default(),
            exploration: ExplorationConfig::default(),
        }
    }
}

/// The replay memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplayConfig {
    /// Transitions that it holds.
    pub capacity: usize,
    /// Draws in proportion to TD errors; absent means uniform draws.
    pub prioritized: Option<PrioritizedConfig>,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self {
            capacity: 10_000,
            prioritized: None,
        }
    }
}

/// Prioritised draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrioritizedConfig {
    /// From 0, uniform, to 1, proportional; 0.6 by default.
    pub alpha: f32,
    /// What keeps transitions without an error reachable; 1e-6 by default.
    pub epsilon: f32,
    /// How much importance weights make up for the draws at the first step; 0.4 by default.
    pub beta_start: f32,
    /// The same at the last step, reached linearly; 1 by default.
    pub beta_end: f32,
}

impl Default for PrioritizedConfig {
    fn default() -> Self {
        Self {
            alpha: 0.6,
            epsilon: 1e-6,
            beta_start: 0.4,
            beta_end: 1.0,
        }
    }
}

/// How likely a random action is: a line, then a constant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExplorationConfig {
    /// At the first step.
    pub start: f32,
    /// When the line has ended.
    pub end: f32,
    /// The part of the run's steps that the line takes.
    pub fraction: f32,
}

impl ExplorationConfig {
    /// The schedule of a run of so many steps.
    pub fn schedule(&self, n_steps: u64) -> EpsilonSchedule {
        EpsilonSchedule::Linear {
            start: self.start,
            end: self.end,
            n_steps: (f64::from(self.fraction) * n_steps as f64) as u64,
        }
    }
}

impl Default for ExplorationConfig {
    fn default() -> Self {
        Self {
            start: 1.0,
            end: 0.05,
            fraction: 0.5,
        }
    }
}

impl DqnConfig {
    /// Refuses settings that cannot be right, with so many environments of these widths.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given.
    pub fn check(&self, n_environments: usize, widths: Widths) -> Result<(), Error> {
        setting("algorithm.optimiser", self.optimiser.check())?;
        setting("algorithm.td_loss", self.loss().check())?;
        let n_weights = n_weights_of_values(&self.network, widths);
        let mut rules = vec![
            Rule::network(&self.network, n_weights, MAX_WEIGHTS),
            Rule::between("algorithm.n_step", self.n_step.into(), MAX_ROWS),
            Rule::fraction("algorithm.gamma", self.gamma),
            Rule::at_least_1("algorithm.target_sync_steps", self.target_sync_steps),
            Rule::fraction("algorithm.exploration.start", self.exploration.start),
            Rule::fraction("algorithm.exploration.end", self.exploration.end),
            Rule::fraction("algorithm.exploration.fraction", self.exploration.fraction),
        ];
        rules.extend(self.batch_settings(n_environments).rules());
        rules.extend(self.prioritized_rules());
        rules.into_iter().try_for_each(Rule::check)
    }

    /// The settings of batches and memory, in as many environments.
    pub(crate) fn batch_settings(&self, n_environments: usize) -> BatchSettings {
        BatchSettings {
            batch_size: self.batch_size,
            gradient_blocks: self.gradient_blocks,
            learning_starts: self.learning_starts,
            train_every: self.train_every,
            log_updates: self.log_updates,
            capacity: self.replay.capacity,
            // A transition waits for the rest of its n rewards.
            n_waiting: n_environments as u64 * u64::from(self.n_step.saturating_sub(1)),
        }
    }

    /// The loss of an update.
    pub(crate) fn loss(&self) -> DqnLoss {
        DqnLoss {
            td_loss: self.td_loss,
            double: self.double,
        }
    }

    fn prioritized_rules(&self) -> Vec<Rule> {
        let Some(prioritized) = self.replay.prioritized else {
            return Vec::new();
        };
        vec![
            Rule::fraction("algorithm.replay.prioritized.alpha", prioritized.alpha),
            Rule::above_0("algorithm.replay.prioritized.epsilon", prioritized.epsilon),
            Rule::fraction(
                "algorithm.replay.prioritized.beta_start",
                prioritized.beta_start,
            ),
            Rule::fraction(
                "algorithm.replay.prioritized.beta_end",
                prioritized.beta_end,
            ),
        ]
    }
}
