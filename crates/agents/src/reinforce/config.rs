//! The settings of REINFORCE.

use serde::{Deserialize, Serialize};
use shardgraph_components::{ActorCriticShape, OptimiserConfig, OptimiserRule, Reinforce};

use crate::error::Error;
use crate::rules::{MAX_WEIGHTS, Rule, Widths, n_weights_of_policy, setting};

/// Settings of REINFORCE with a learned baseline and an entropy bonus.
///
/// # Source
/// Williams, Simple statistical gradient-following algorithms for connectionist reinforcement learning, 1992.
///
/// ```
/// let reinforce = shardgraph_agents::ReinforceConfig::default();
/// assert_eq!((reinforce.batch_episodes, reinforce.gamma), (8, 0.99));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReinforceConfig {
    /// Policy and baseline; hidden layers of 64 and 64 and no memory by default.
    pub network: ActorCriticShape,
    /// The loss: normalised advantages, 0.5 for the baseline and 0.01 for entropy by default.
    pub loss: Reinforce,
    /// How gradients become steps: Adam with a step size of 3e-3, and gradients cut to a norm of 10, by default.
    pub optimiser: OptimiserConfig,
    /// The discount of a step; 0.99 by default.
    pub gamma: f32,
    /// Episodes in a batch, played side by side; 8 by default. Here `n_environments` counts for nothing.
    pub batch_episodes: usize,
}

impl Default for ReinforceConfig {
    fn default() -> Self {
        Self {
            network: ActorCriticShape::default(),
            loss: Reinforce {
                normalise: true,
                ..Reinforce::default()
            },
            optimiser: OptimiserConfig {
                rule: OptimiserRule::ADAM,
                learning_rate: 3e-3,
                max_gradient_norm: Some(10.0),
            },
            gamma: 0.99,
            batch_episodes: 8,
        }
    }
}

impl ReinforceConfig {
    /// Refuses settings that cannot be right, with environments of these widths.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given.
    pub fn check(&self, widths: Widths) -> Result<(), Error> {
        let rules = [
            Rule::fraction("algorithm.gamma", self.gamma),
            Rule {
                field: "algorithm.batch_episodes",
                holds: (1..=1 << 20).contains(&self.batch_episodes),
                expected: "1 to 2^20".to_owned(),
                given: self.batch_episodes.to_string(),
            },
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
        setting("algorithm.loss", self.loss.check())?;
        setting("algorithm.optimiser", self.optimiser.check())
    }
}
