//! The settings of PPO.

use serde::{Deserialize, Serialize};
use shardgraph_components::{
    ActorCriticShape, Gains, Initialisation, OptimiserConfig, OptimiserRule, PpoLoss,
};

use crate::error::Error;
use crate::rules::{MAX_WEIGHTS, Rule, Widths, n_weights_of_policy, setting};

/// Settings of proximal policy optimisation.
///
/// # Source
/// Schulman et al., Proximal policy optimization algorithms, 2017; generalised advantages of Schulman et al. 2016. The defaults are those of
/// CleanRL's `ppo.py`, with relu in place of tanh and layers that policy and values share.
///
/// ```
/// let ppo = shardgraph_agents::PpoConfig::default();
/// assert_eq!((ppo.rollout_steps, ppo.n_minibatches, ppo.n_epochs), (128, 4, 4));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PpoConfig {
    /// Policy and values; hidden layers of 64 and 64 and no memory by default.
    pub network: ActorCriticShape,
    /// By which rule weights begin: orthogonal by default, or `fan_in`.
    pub initialisation: Initialisation,
    /// The loss: a clip of 0.2, no clip of values, 0.5 for the values and 0.01 for entropy by default.
    pub loss: PpoLoss,
    /// How gradients become steps: Adam with a step size of 2.5e-4 and an epsilon of 1e-5, and gradients cut to a norm of 0.5, by default.
    pub optimiser: OptimiserConfig,
    /// Whether the step size falls to 0 over the run, in a line; true by default.
    pub anneal_learning_rate: bool,
    /// The discount of a step; 0.99 by default.
    pub gamma: f32,
    /// What an advantage counts of the next one, beside the discount; 0.95 by default.
    pub gae_lambda: f32,
    /// Steps of each environment between updates; 128 by default.
    pub rollout_steps: usize,
    /// Into how many minibatches these steps are cut; 4 by default.
    pub n_minibatches: usize,
    /// How often each step is learned from; 4 by default.
    pub n_epochs: usize,
    /// Whether advantages are shifted and scaled to mean 0 and deviation 1 in each minibatch; true by default.
    pub normalise_advantages: bool,
    /// The divergence of the policy from the one that acted beyond which no more epochs follow; none by default.
    pub target_kl: Option<f32>,
    /// Into how many blocks of equal size the environments are cut, for ranks to share; 1 by default. It decides which steps a minibatch has
    /// and the last bits of a gradient, the number of ranks does not.
    pub gradient_blocks: usize,
    /// Rollouts between two rows of losses in the metrics; 1 by default.
    pub log_rollouts: u64,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            network: ActorCriticShape::default(),
            initialisation: Initialisation::Orthogonal(Gains::default()),
            loss: PpoLoss::default(),
            optimiser: OptimiserConfig {
                rule: OptimiserRule::Adam(shardgraph_components::AdamConstants {
                    epsilon: 1e-5,
                    ..shardgraph_components::AdamConstants::default()
                }),
                learning_rate: 2.5e-4,
                max_gradient_norm: Some(0.5),
            },
            anneal_learning_rate: true,
            gamma: 0.99,
            gae_lambda: 0.95,
            rollout_steps: 128,
            n_minibatches: 4,
            n_epochs: 4,
            normalise_advantages: true,
            target_kl: None,
            gradient_blocks: 1,
            log_rollouts: 1,
        }
    }
}

/// A rollout of more numbers than this is a mistake: 2 GiB of them.
const MAX_NUMBERS: u64 = 1 << 29;

impl PpoConfig {
    /// Refuses settings that cannot be right, with so many environments of these widths.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given.
    pub fn check(&self, n_environments: usize, widths: Widths) -> Result<(), Error> {
        let rules = [
            Rule::fraction("algorithm.gamma", self.gamma),
            Rule::fraction("algorithm.gae_lambda", self.gae_lambda),
            Rule::between("algorithm.n_epochs", self.n_epochs as u64, 1 << 10),
            Rule::at_least_1("algorithm.log_rollouts", self.log_rollouts),
            Rule::above_0("algorithm.target_kl", self.target_kl.unwrap_or(1.0)),
            Rule {
                field: "algorithm.network.lstm",
                holds: self.network.lstm.is_none(),
                expected: "none; IMPALA learns with a memory".to_owned(),
                given: self.network.lstm.unwrap_or_default().to_string(),
            },
            Rule::network(
                &self.network,
                n_weights_of_policy(&self.network, widths),
                MAX_WEIGHTS,
            ),
        ];
        rules.into_iter().try_for_each(Rule::check)?;
        let rules = self.batch_rules(n_environments, widths);
        rules.into_iter().try_for_each(Rule::check)?;
        setting("algorithm.loss", self.loss.check())?;
        setting("algorithm.optimiser", self.optimiser.check())
    }

    fn batch_rules(&self, n_environments: usize, widths: Widths) -> [Rule; 5] {
        let blocks = self.gradient_blocks.max(1);
        let block_rows = (n_environments / blocks).saturating_mul(self.rollout_steps);
        let of_step = widths.n_features + 2 * widths.n_actions + 8;
        let n_numbers = (n_environments as u64)
            .saturating_mul(self.rollout_steps as u64)
            .saturating_mul(of_step as u64);
        [
            Rule::between(
                "algorithm.rollout_steps",
                self.rollout_steps as u64,
                1 << 20,
            ),
            Rule {
                field: "algorithm.gradient_blocks",
                holds: self.gradient_blocks > 0 && n_environments.is_multiple_of(blocks),
                expected: format!("a number that divides `n_environments`, {n_environments}"),
                given: self.gradient_blocks.to_string(),
            },
            Rule::at_least_1("algorithm.n_minibatches", self.n_minibatches as u64),
            Rule {
                field: "algorithm.n_minibatches",
                holds: self.n_minibatches > 0 && block_rows.is_multiple_of(self.n_minibatches),
                expected: format!("a number that divides the {block_rows} steps of a block"),
                given: self.n_minibatches.to_string(),
            },
            Rule {
                field: "algorithm.rollout_steps",
                holds: n_numbers <= MAX_NUMBERS,
                expected: format!("steps of at most {MAX_NUMBERS} numbers together"),
                given: self.rollout_steps.to_string(),
            },
        ]
    }

    /// Steps of a block in a rollout.
    pub(super) fn block_rows(&self, n_environments: usize) -> usize {
        n_environments / self.gradient_blocks * self.rollout_steps
    }
}
