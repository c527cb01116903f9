//! The settings of IMPALA.

use serde::{Deserialize, Serialize};
use shardgraph_components::{
    ActorCriticShape, ImpalaLoss, OptimiserConfig, OptimiserRule, Reduction,
};

use crate::error::Error;
use crate::rules::{MAX_RANKS, MAX_SENT_WEIGHTS, Rule, Widths, n_weights_of_policy, setting};

/// Settings of IMPALA.
///
/// # Source
/// Espeholt et al., IMPALA: scalable distributed deep-RL with importance weighted actor-learner architectures, ICML 2018. Means in the place
/// of sums, and an optimiser and coefficients to go with them, are this project's.
///
/// ```
/// let impala = shardgraph_agents::ImpalaConfig::default();
/// assert_eq!((impala.n_actors, impala.unroll_steps, impala.batch_trajectories), (2, 20, 16));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImpalaConfig {
    /// Policy and values, perhaps with a memory; hidden layers of 64 and 64 by default.
    pub network: ActorCriticShape,
    /// The loss with V-trace; means, 0.5 for the values and 0.01 for entropy by default.
    pub loss: ImpalaLoss,
    /// How gradients become steps: Adam with a step size of 1e-3, and gradients cut to a norm of 40, by default. The paper's is `rms_prop`.
    pub optimiser: OptimiserConfig,
    /// The discount of a step; 0.99 by default.
    pub gamma: f32,
    /// Steps of a trajectory, at most 1024; 20 by default.
    pub unroll_steps: usize,
    /// Trajectories in a batch, a multiple of `n_environments`; 16 by default.
    pub batch_trajectories: usize,
    /// Learners that share each batch, threads of one process; 1 by default. Weights have the same bits for every number of them.
    pub n_learners: u32,
    /// Into how many blocks of whole unrolls a batch is cut, for learners to share; 1 by default. It decides the last bits of a gradient.
    pub gradient_blocks: usize,
    /// Actors, each with `n_environments` environments; 2 by default. As processes, what is left of the ranks.
    pub n_actors: u32,
    /// Unrolls of an actor that the learner has not acknowledged yet, at most; 2 by default.
    pub max_unacknowledged: usize,
    /// Updates between two rows of losses in the metrics; 10 by default.
    pub log_updates: u64,
    /// Whether learner and actor wait for each other, so that a run always ends the same; false by default. For one actor whose environments
    /// make one batch.
    pub lock_step: bool,
}

impl Default for ImpalaConfig {
    fn default() -> Self {
        Self {
            network: ActorCriticShape::default(),
            loss: ImpalaLoss {
                entropy_coefficient: 0.01,
                reduction: Reduction::Mean,
                ..ImpalaLoss::default()
            },
            optimiser: OptimiserConfig {
                rule: OptimiserRule::ADAM,
                learning_rate: 1e-3,
                max_gradient_norm: Some(40.0),
            },
            gamma: 0.99,
            unroll_steps: 20,
            batch_trajectories: 16,
            n_learners: 1,
            gradient_blocks: 1,
            n_actors: 2,
            max_unacknowledged: 2,
            log_updates: 10,
            lock_step: false,
        }
    }
}

/// A batch of more numbers than this does not fit messages between ranks.
const MAX_NUMBERS: u64 = 1 << 23;

/// The program of an update has some operations for each time step, with a memory some dozens, and is planned in the square of their number.
const MAX_UNROLL_STEPS: usize = 1024;

impl ImpalaConfig {
    /// Refuses settings that cannot be right, with so many environments of these widths to an actor.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given.
    pub fn check(&self, n_environments: usize, widths: Widths) -> Result<(), Error> {
        let is_single = self.n_actors == 1 && self.batch_trajectories == n_environments;
        let rules = [
            Rule::fraction("algorithm.gamma", self.gamma),
            Rule::learners(self.n_learners, self.gradient_blocks),
            Rule::between("algorithm.n_actors", self.n_actors.into(), MAX_RANKS),
            Rule::between(
                "algorithm.max_unacknowledged",
                self.max_unacknowledged as u64,
                MAX_RANKS,
            ),
            Rule::network(
                &self.network,
                n_weights_of_policy(&self.network, widths),
                MAX_SENT_WEIGHTS,
            ),
            Rule::at_least_1("algorithm.log_updates", self.log_updates),
            Rule {
                field: "algorithm.lock_step",
                holds: !self.lock_step || is_single,
                expected: "false, or one actor with `batch_trajectories` environments".to_owned(),
                given: format!("true, with {} and {n_environments}", self.n_actors),
            },
        ];
        let batch_rules = self.batch_rules(n_environments, widths);
        batch_rules.into_iter().try_for_each(Rule::check)?;
        rules.into_iter().try_for_each(Rule::check)?;
        setting("algorithm.loss", self.loss.check())?;
        setting("algorithm.optimiser", self.optimiser.check())
    }

    fn batch_rules(&self, n_environments: usize, widths: Widths) -> [Rule; 4] {
        let batch = self.batch_trajectories;
        let n_unrolls = batch / n_environments.max(1);
        [
            Rule {
                field: "algorithm.unroll_steps",
                holds: (1..=MAX_UNROLL_STEPS).contains(&self.unroll_steps),
                expected: format!(
                    "1 to {MAX_UNROLL_STEPS}, as each is a part of the learner's program"
                ),
                given: self.unroll_steps.to_string(),
            },
            Rule {
                field: "algorithm.batch_trajectories",
                holds: batch > 0 && batch.is_multiple_of(n_environments),
                expected: format!("a multiple of `n_environments`, {n_environments}"),
                given: batch.to_string(),
            },
            Rule {
                field: "algorithm.gradient_blocks",
                holds: self.gradient_blocks > 0 && n_unrolls.is_multiple_of(self.gradient_blocks),
                expected: format!("a number that divides the {n_unrolls} unrolls of a batch"),
                given: self.gradient_blocks.to_string(),
            },
            Rule {
                field: "algorithm.batch_trajectories",
                holds: self.n_numbers(widths) <= MAX_NUMBERS,
                expected: format!(
                    "trajectories of together at most {MAX_NUMBERS} numbers, with {} steps each",
                    self.unroll_steps
                ),
                given: batch.to_string(),
            },
        ]
    }

    /// Numbers of 4 bytes in a batch of unrolls, about.
    fn n_numbers(&self, widths: Widths) -> u64 {
        let n_hidden = self.network.lstm.unwrap_or(0) as u64;
        let of_step = (widths.n_features as u64).saturating_add(6);
        let of_each = (self.unroll_steps as u64)
            .saturating_mul(of_step)
            .saturating_add(n_hidden.saturating_mul(2))
            .saturating_add(widths.n_features as u64 + 1);
        of_each.saturating_mul(self.batch_trajectories as u64)
    }

    /// Trajectories of a block.
    pub(super) fn block_trajectories(&self) -> usize {
        self.batch_trajectories / self.gradient_blocks
    }

    /// The number of ranks: the learner and the actors.
    pub fn n_ranks(&self) -> u32 {
        1 + self.n_actors
    }

    /// Unrolls in a batch.
    pub(super) fn batch_unrolls(&self, n_environments: usize) -> usize {
        self.batch_trajectories / n_environments
    }
}
