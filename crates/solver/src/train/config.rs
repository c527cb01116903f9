//! Everything that decides what a training run computes. Ranks, devices and folders are not part of it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use shardgraph_components::{EpsilonSchedule, OptimiserConfig, OptimiserRule, TdLoss};

use crate::problem::Problem;
use crate::{AdjacencyScale, Error, PolicyConfig};

/// Where the target of a transition comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetRule {
    /// Worked out anew for each batch, with the target network, `n_step` rewards ahead.
    Recomputed,
    /// One step ahead with the network of the moment, stored with the transition (algorithm 5, lines 12 and 16).
    Stored,
}

/// A named set of choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// What works: scaled adjacency, n-step targets from a target network.
    Default,
    /// The paper's choices to the letter.
    Paper,
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "default" => Ok(Self::Default),
            "paper" => Ok(Self::Paper),
            _ => Err(Error::input(format!(
                "`{text}` is no preset: expected default or paper"
            ))),
        }
    }
}

/// The settings of a training run; `cargo run -- train --config FILE.json` reads one.
///
/// ```
/// use shardgraph_solver::train::{Preset, TrainConfig};
/// let config = TrainConfig::preset(Preset::Default);
/// assert_eq!((config.embed_dim, config.n_layers), (32, 2));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// The short name of the problem: mvc, mis, clique, cut or dominating-set, or that of the caller's own.
    pub problem: String,
    /// Steps of the environment, each followed by `gradient_iterations` optimiser steps.
    pub steps: u64,
    /// The one seed of the run.
    pub seed: u64,
    /// Training graphs: generator specifications such as `er:20:0.15`, or graph files.
    pub graphs: Vec<String>,
    /// How many graphs each generator specification stands for, up to 2^32.
    pub graphs_per_generator: u64,
    /// K, the width of an embedding.
    pub embed_dim: usize,
    /// L, the rounds of neighbour sums.
    pub n_layers: usize,
    /// What the edges of residual graphs weigh.
    pub adjacency_scale: AdjacencyScale,
    /// Standard deviation of the initial weights.
    pub init_std_dev: f32,
    /// B, transitions in a batch; training starts once the memory holds that many.
    pub batch_size: usize,
    /// Optimiser steps for each batch (tau; section 4.5.2).
    pub gradient_iterations: u32,
    /// Step size of Adam.
    pub learning_rate: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Rewards that a recomputed target sums before it bootstraps.
    pub n_step: u32,
    /// Where targets come from.
    pub target: TargetRule,
    /// Steps between copies of the weights into the target network.
    pub target_sync_steps: u64,
    /// Transitions in the replay memory.
    pub replay_capacity: usize,
    /// Probability of a random pick at the first step.
    pub epsilon_start: f32,
    /// Probability of a random pick after `epsilon_decay_steps`.
    pub epsilon_end: f32,
    /// Steps over which that probability falls, linearly.
    pub epsilon_decay_steps: u64,
    /// Where the Huber loss turns linear; absent means the squared error.
    pub huber_delta: Option<f32>,
    /// Steps between checkpoints.
    pub checkpoint_steps: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            problem: "mvc".to_string(),
            steps: 3000,
            seed: 1,
            graphs: vec!["er:20:0.15".to_string(), "ba:20:4".to_string()],
            graphs_per_generator: 1000,
            embed_dim: 32,
            n_layers: 2,
            adjacency_scale: AdjacencyScale::LargestDegree,
            init_std_dev: 0.1,
            batch_size: 64,
            gradient_iterations: 1,
            learning_rate: 1e-3,
            gamma: 0.9,
            n_step: 3,
            target: TargetRule::Recomputed,
            target_sync_steps: 100,
            replay_capacity: 50_000,
            epsilon_start: 0.9,
            epsilon_end: 0.1,
            epsilon_decay_steps: 1000,
            huber_delta: None,
            checkpoint_steps: 500,
        }
    }
}

impl TrainConfig {
    /// The settings of a preset.
    ///
    /// # Source
    /// `Paper`: OpenGraphGym-MG, section 6.1, where it gives a value (K, L, gamma, learning rate, replay size, epsilon from
    /// 0.9 to 0.1). It gives none for B, the decay of epsilon and the initial weights; the default's are used.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Default => Self::default(),
            Preset::Paper => Self {
                graphs: vec!["er:20:0.15".to_string()],
                adjacency_scale: AdjacencyScale::One,
                learning_rate: 1e-5,
                n_step: 1,
                target: TargetRule::Stored,
                ..Self::default()
            },
        }
    }

    /// The model that this run trains, for its problem.
    pub fn policy(&self, problem: &dyn Problem) -> PolicyConfig {
        let (embed_dim, n_layers) = (self.embed_dim, self.n_layers);
        PolicyConfig::of_problem(problem, embed_dim, n_layers, self.adjacency_scale)
    }

    /// The probability of a random pick at a step, counted from 0.
    pub(crate) fn epsilon(&self, step: u64) -> f32 {
        let schedule = EpsilonSchedule::Linear {
            start: self.epsilon_start,
            end: self.epsilon_end,
            n_steps: self.epsilon_decay_steps,
        };
        schedule.at(step)
    }

    pub(crate) fn optimiser(&self) -> OptimiserConfig {
        OptimiserConfig {
            rule: OptimiserRule::ADAM,
            learning_rate: self.learning_rate,
            max_gradient_norm: None,
        }
    }

    pub(crate) fn td_loss(&self) -> TdLoss {
        match self.huber_delta {
            None => TdLoss::Mse,
            Some(delta) => TdLoss::Huber { delta },
        }
    }

    /// Refuses settings that cannot be right.
    ///
    /// # Errors
    /// Names the first such setting, its value and its range.
    pub fn check(&self) -> Result<(), Error> {
        let n_graphs = self.graphs_per_generator;
        let rules = [
            (
                !self.graphs.is_empty(),
                "graphs: at least one",
                "none".to_string(),
            ),
            within(1..=1 << 32, "graphs_per_generator: 1 to 2^32", n_graphs),
            at_least_1("batch_size: at least 1", self.batch_size as u64),
            (
                (self.batch_size..=1 << 32).contains(&self.replay_capacity),
                "replay_capacity: batch_size to 2^32",
                self.replay_capacity.to_string(),
            ),
            at_least_1(
                "gradient_iterations: at least 1",
                self.gradient_iterations.into(),
            ),
            above_0("learning_rate: above 0", self.learning_rate),
            above_0("init_std_dev: above 0", self.init_std_dev),
            fraction("gamma: 0 to 1", self.gamma),
            fraction("epsilon_start: 0 to 1", self.epsilon_start),
            fraction("epsilon_end: 0 to 1", self.epsilon_end),
            at_least_1("n_step: at least 1", self.n_step.into()),
            (
                self.target == TargetRule::Recomputed || self.n_step == 1,
                "n_step: 1 with stored targets",
                self.n_step.to_string(),
            ),
            at_least_1("target_sync_steps: at least 1", self.target_sync_steps),
            at_least_1("checkpoint_steps: at least 1", self.checkpoint_steps),
            above_0("huber_delta: above 0", self.huber_delta.unwrap_or(1.0)),
        ];
        match rules.iter().find(|(holds, ..)| !holds) {
            None => Ok(()),
            Some((_, rule, value)) => Err(Error::input(format!(
                "training settings: expected {rule}; found {value}"
            ))),
        }
    }
}

/// Whether a setting holds, what is expected, and its value.
type Rule = (bool, &'static str, String);

fn within(range: std::ops::RangeInclusive<u64>, rule: &'static str, value: u64) -> Rule {
    (range.contains(&value), rule, value.to_string())
}

fn at_least_1(expected: &'static str, value: u64) -> Rule {
    (value >= 1, expected, value.to_string())
}

fn above_0(expected: &'static str, value: f32) -> Rule {
    let holds = value.is_finite() && value > 0.0;
    (holds, expected, value.to_string())
}

fn fraction(expected: &'static str, value: f32) -> Rule {
    ((0.0..=1.0).contains(&value), expected, value.to_string())
}
