//! The settings of soft actor-critic.

use serde::{Deserialize, Serialize};
use shardgraph_components::{OptimiserConfig, OptimiserRule};

use crate::error::Error;
use crate::rules::{BatchSettings, MAX_WEIGHTS, Rule, Widths, n_weights_of_layers, setting};
use crate::run_environments::Spaces;

/// Settings of soft actor-critic, for boxes with finite bounds and for discrete actions.
///
/// # Source
/// Haarnoja et al., Soft actor-critic algorithms and applications, 2018; for discrete actions Christodoulou 2019. The defaults are those of
/// stable-baselines3's `SAC`.
///
/// ```
/// let sac = shardgraph_agents::SacConfig::default();
/// assert_eq!((sac.batch_size, sac.tau, sac.network.hidden.as_slice()), (256, 0.005, &[256, 256][..]));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacConfig {
    /// Layers of the policy and of each critic.
    pub network: SacNetworkConfig,
    /// What a nat of entropy is worth.
    pub temperature: TemperatureConfig,
    /// The discount of a step; 0.99 by default.
    pub gamma: f32,
    /// The part of the way that the target critics go to the critics with each update; 0.005 by default.
    pub tau: f32,
    /// How gradients become steps, of all parts: Adam with a step size of 3e-4 by default.
    pub optimiser: OptimiserConfig,
    /// Transitions in a batch; 256 by default.
    pub batch_size: usize,
    /// Into how many blocks of equal size a batch is cut, for ranks to share; 1 by default. It decides the last bits of a gradient, the
    /// number of ranks does not.
    pub gradient_blocks: usize,
    /// Steps before the first update, which take actions of equal probability; 300 by default.
    pub learning_starts: u64,
    /// Steps between updates; 1 by default.
    pub train_every: u64,
    /// Updates between two rows of losses in the metrics; 100 by default.
    pub log_updates: u64,
    /// The replay memory: the last million transitions, drawn uniformly, by default.
    pub replay: SacReplayConfig,
}

impl Default for SacConfig {
    fn default() -> Self {
        Self {
            network: SacNetworkConfig::default(),
            temperature: TemperatureConfig::default(),
            gamma: 0.99,
            tau: 0.005,
            optimiser: OptimiserConfig {
                rule: OptimiserRule::ADAM,
                learning_rate: 3e-4,
                max_gradient_norm: None,
            },
            batch_size: 256,
            gradient_blocks: 1,
            learning_starts: 300,
            train_every: 1,
            log_updates: 100,
            replay: SacReplayConfig::default(),
        }
    }
}

/// Layers of the policy and of each critic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacNetworkConfig {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
}

impl Default for SacNetworkConfig {
    fn default() -> Self {
        Self {
            hidden: vec![256, 256],
        }
    }
}

/// The replay memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacReplayConfig {
    /// Transitions that it holds.
    pub capacity: usize,
}

impl Default for SacReplayConfig {
    fn default() -> Self {
        Self {
            capacity: 1_000_000,
        }
    }
}

/// What a nat of the policy's entropy is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemperatureConfig {
    /// At first; 1 by default.
    pub initial: f32,
    /// Whether it is learned; true by default.
    pub learned: bool,
    /// The entropy that a learned one holds the policy at, in nats; absent means minus the number of elements of an action, and 0.98 of the
    /// largest entropy of discrete actions.
    pub target_entropy: Option<f32>,
}

impl Default for TemperatureConfig {
    fn default() -> Self {
        Self {
            initial: 1.0,
            learned: true,
            target_entropy: None,
        }
    }
}

impl SacConfig {
    /// Refuses settings that cannot be right, with so many environments of these spaces.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given; also environments with masks.
    pub fn check(&self, spaces: &Spaces, n_environments: usize) -> Result<(), Error> {
        setting("algorithm.optimiser", self.optimiser.check())?;
        let widths = Widths::of(spaces);
        let given = if spaces.has_mask() { "some" } else { "none" };
        let rules = [
            Rule {
                field: "environment.name",
                holds: !spaces.has_mask(),
                expected: "an environment without masks of actions, for soft actor-critic"
                    .to_owned(),
                given: format!("one with {given}"),
            },
            Rule::network(
                &self.network,
                n_weights(&self.network.hidden, spaces, widths),
                MAX_WEIGHTS,
            ),
            Rule::above_0("algorithm.temperature.initial", self.temperature.initial),
            Rule {
                field: "algorithm.temperature.target_entropy",
                holds: self.target_entropy(spaces).is_finite(),
                expected: "a finite number".to_owned(),
                given: self.target_entropy(spaces).to_string(),
            },
            Rule::fraction("algorithm.gamma", self.gamma),
            Rule::fraction("algorithm.tau", self.tau),
            Rule::between("environment.n_environments", n_environments as u64, 1 << 20),
        ];
        let rules = rules.into_iter().chain(self.batch_settings().rules());
        rules.into_iter().try_for_each(Rule::check)
    }

    /// The settings of batches and memory.
    pub(crate) fn batch_settings(&self) -> BatchSettings {
        BatchSettings {
            batch_size: self.batch_size,
            gradient_blocks: self.gradient_blocks,
            learning_starts: self.learning_starts,
            train_every: self.train_every,
            log_updates: self.log_updates,
            capacity: self.replay.capacity,
            n_waiting: 0,
        }
    }

    /// The entropy that the temperature holds the policy at.
    pub(crate) fn target_entropy(&self, spaces: &Spaces) -> f32 {
        let by_default = match spaces.action_form() {
            (true, n_elements) => -(n_elements as f32),
            (false, _) => 0.98 * libm::log(spaces.n_action_columns() as f64) as f32,
        };
        self.temperature.target_entropy.unwrap_or(by_default)
    }
}

/// Weights of the policy and of four critics; 0 where a width is 0.
fn n_weights(hidden: &[usize], spaces: &Spaces, widths: Widths) -> f64 {
    let (n_features, n_actions) = (widths.n_features, widths.n_actions);
    let of_layers = |n_inputs: usize, n_outputs: usize| {
        n_weights_of_layers(n_inputs, &[hidden, &[n_outputs]].concat())
    };
    let (policy, critic) = match spaces.action_form().0 {
        true => (
            of_layers(n_features, 2 * n_actions),
            of_layers(n_features + n_actions, 1),
        ),
        false => (
            of_layers(n_features, n_actions),
            of_layers(n_features, n_actions),
        ),
    };
    policy + 4.0 * critic
}
