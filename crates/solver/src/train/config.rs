//! Everything that decides what a training run computes. Ranks, devices and folders are not part of it.

use serde::{Deserialize, Serialize};
use shardgraph_components::{EpsilonSchedule, OptimiserConfig, OptimiserRule, TdLoss};
use shardgraph_error::words;
use shardgraph_layers::{EmbeddingKind, HeadKind};

use super::initial::InitialRule;
use super::picks::PickRule;
use super::shaping::RewardRule;
use crate::policy::{MAX_EMBED_DIM, MAX_LAYERS};
use crate::problem::{Problem, problem_by_name};
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

words!(Preset, Error, Error::word, "preset"; "default" => Default, "paper" => Paper);

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
    /// Steps of the environments, each followed by `gradient_iterations` optimiser steps.
    pub steps: u64,
    /// The one seed of the run.
    pub seed: u64,
    /// Training graphs: generator specifications such as `er:20:0.15`, or graph files.
    pub graphs: Vec<String>,
    /// How many graphs each generator specification stands for, up to 2^32.
    pub graphs_per_generator: u64,
    /// Read the third column of an edge list as edge weights, for a problem that reads them; declared weights it always reads.
    pub weighted: bool,
    /// Environments that are stepped side by side, each with an episode of its own: a step is a pick in every one.
    pub environments: usize,
    /// K, the width of an embedding.
    pub embed_dim: usize,
    /// L, the rounds of neighbour sums.
    pub n_layers: usize,
    /// The embedding model: s2v (structure2vec, the paper's) or sage (GraphSAGE).
    pub embedding: EmbeddingKind,
    /// The action-evaluation model: q (the paper's) or mlp (a hidden layer over a node's embedding and the mean of all).
    pub head: HeadKind,
    /// What the edges of residual graphs weigh.
    pub adjacency_scale: AdjacencyScale,
    /// Standard deviation of the initial weights.
    pub init_std_dev: f32,
    /// The policy before the first step. Runs that were begun before there was a choice go on with
    /// random weights.
    #[serde(default = "InitialRule::of_old_runs")]
    pub initial: InitialRule,
    /// B, transitions in a batch; training starts once the memory holds that many.
    pub batch_size: usize,
    /// The most states of one graph that are columns of one product; absent means all of a batch. It is also what batch ranks share out.
    pub states_per_product: Option<usize>,
    /// Optimiser steps for each batch (tau; section 4.5.2).
    pub gradient_iterations: u32,
    /// Step size of Adam.
    pub learning_rate: f32,
    /// Discount factor. With 0.9 the values of long episodes learn for a while and then get worse.
    pub gamma: f32,
    /// The nodes that the policy picks. Runs that were begun before there was a choice go on with those of the answer.
    #[serde(default = "PickRule::of_old_runs")]
    pub picks: PickRule,
    /// What a pick earns. Runs that were begun before there was a choice go on with the objective.
    #[serde(default = "RewardRule::of_old_runs")]
    pub reward: RewardRule,
    /// Rewards that a recomputed target sums before it bootstraps.
    pub n_step: u32,
    /// Where targets come from.
    pub target: TargetRule,
    /// Steps between copies of the weights into the target network.
    pub target_sync_steps: u64,
    /// Transitions in the replay memory; each environment has an equal share.
    pub replay_capacity: usize,
    /// Draws in proportion to TD errors; absent means uniform draws.
    pub prioritized: Option<PrioritizedConfig>,
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
    /// Graphs that the policy is tried on while it learns: generator specifications or graph files. Empty means graphs of the generators of `graphs`
    /// that are not trained on, and of up to 100 nodes also larger ones of the same model (up to 250 nodes).
    pub valid: Vec<String>,
    /// Steps between such trials, at least; the run gives the best policy that was tried. 0 means none: the run gives its last policy.
    pub valid_steps: u64,
}

/// Draws in proportion to TD errors.
///
/// # Source
/// Schaul, Quan, Antonoglou and Silver, Prioritized experience replay, ICLR 2016.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrioritizedConfig {
    /// From 0, uniform, to 1, proportional.
    pub alpha: f32,
    /// What keeps transitions without an error reachable.
    pub epsilon: f32,
    /// How much importance weights make up for the draws at the first step.
    pub beta_start: f32,
    /// The same after `beta_steps`, reached linearly.
    pub beta_end: f32,
    /// Steps over which it changes.
    pub beta_steps: u64,
}

impl Default for PrioritizedConfig {
    fn default() -> Self {
        Self {
            alpha: 0.6,
            epsilon: 1e-6,
            beta_start: 0.4,
            beta_end: 1.0,
            beta_steps: 3000,
        }
    }
}

impl PrioritizedConfig {
    /// How much importance weights make up at a step, counted from 0.
    pub(crate) fn beta(&self, step: u64) -> f32 {
        let schedule = EpsilonSchedule::Linear {
            start: self.beta_start,
            end: self.beta_end,
            n_steps: self.beta_steps,
        };
        schedule.at(step)
    }

    fn rules(&self) -> [Rule; 4] {
        [
            fraction("prioritized.alpha: 0 to 1", self.alpha),
            (
                self.epsilon.is_normal() && self.epsilon > 0.0,
                "prioritized.epsilon: above 0",
                self.epsilon.to_string(),
            ),
            fraction("prioritized.beta_start: 0 to 1", self.beta_start),
            fraction("prioritized.beta_end: 0 to 1", self.beta_end),
        ]
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            problem: "mvc".to_string(),
            steps: 3000,
            seed: 1,
            graphs: vec!["er:20:0.15".to_string(), "ba:20:4".to_string()],
            graphs_per_generator: 1000,
            weighted: false,
            environments: 1,
            embed_dim: 32,
            n_layers: 2,
            embedding: EmbeddingKind::default(),
            head: HeadKind::default(),
            adjacency_scale: AdjacencyScale::LargestDegree,
            init_std_dev: 0.1,
            initial: InitialRule::default(),
            batch_size: 64,
            states_per_product: None,
            gradient_iterations: 1,
            learning_rate: 1e-3,
            gamma: 1.0,
            picks: PickRule::default(),
            reward: RewardRule::default(),
            n_step: 3,
            target: TargetRule::Recomputed,
            target_sync_steps: 100,
            replay_capacity: 50_000,
            prioritized: None,
            epsilon_start: 0.9,
            epsilon_end: 0.1,
            epsilon_decay_steps: 1000,
            huber_delta: None,
            checkpoint_steps: 500,
            valid: Vec::new(),
            valid_steps: 100,
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
                initial: InitialRule::Random,
                learning_rate: 1e-5,
                gamma: 0.9,
                picks: PickRule::Answer,
                reward: RewardRule::Objective,
                n_step: 1,
                target: TargetRule::Stored,
                valid_steps: 0,
                ..Self::default()
            },
        }
    }

    /// The model that this run trains, for its problem; of a cover's complement one for independent sets.
    pub fn policy(&self, problem: &Problem) -> PolicyConfig {
        let problem = self.picks.played(problem);
        let (embed_dim, n_layers) = (self.embed_dim, self.n_layers);
        PolicyConfig::of_problem(problem, embed_dim, n_layers, self.adjacency_scale)
            .with_layers(self.embedding, self.head)
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

    /// Transitions in the memory of one environment.
    pub(crate) fn capacity_of_each(&self) -> usize {
        self.replay_capacity / self.environments.max(1)
    }

    /// Refuses settings that cannot be right.
    ///
    /// # Errors
    /// Names the first such setting, its value and its range.
    pub fn check(&self) -> Result<(), Error> {
        match self.wrong_setting() {
            None => Ok(()),
            Some((setting, why)) => Err(Error::input(format!(
                "training settings: `{setting}`: {why}"
            ))),
        }
    }

    /// The first setting that cannot be right, what is expected of it and what it is.
    fn wrong_setting(&self) -> Option<(&'static str, String)> {
        let mut rules = self.data_rules();
        rules.extend(self.model_rules());
        rules.extend(self.memory_rules());
        rules.extend(self.learning_rules());
        rules.extend(self.prioritized.iter().flat_map(PrioritizedConfig::rules));
        let (_, rule, value) = rules.into_iter().find(|(holds, ..)| !holds)?;
        let (setting, expected) = rule.split_once(": ").unwrap_or((rule, "another value"));
        Some((setting, format!("expected {expected}; found {value}")))
    }

    fn model_rules(&self) -> Vec<Rule> {
        let (n_columns, n_layers) = (self.embed_dim as u64, self.n_layers as u64);
        vec![
            within(1..=MAX_EMBED_DIM as u64, "embed_dim: 1 to 4096", n_columns),
            within(1..=MAX_LAYERS as u64, "n_layers: 1 to 64", n_layers),
        ]
    }

    fn data_rules(&self) -> Vec<Rule> {
        vec![
            (
                !self.graphs.is_empty(),
                "graphs: at least one",
                "none".to_string(),
            ),
            within(
                1..=1 << 32,
                "graphs_per_generator: 1 to 2^32",
                self.graphs_per_generator,
            ),
            within(
                1..=4096,
                "environments: 1 to 4096",
                self.environments as u64,
            ),
        ]
    }

    fn memory_rules(&self) -> Vec<Rule> {
        vec![
            at_least_1("batch_size: at least 1", self.batch_size as u64),
            (
                self.states_per_product != Some(0),
                "states_per_product: at least 1",
                "0".to_string(),
            ),
            (
                (self.batch_size..=1 << 32).contains(&self.replay_capacity),
                "replay_capacity: batch_size to 2^32",
                self.replay_capacity.to_string(),
            ),
            (
                self.capacity_of_each() * self.environments >= self.batch_size,
                "replay_capacity: a batch in equal shares of the environments",
                self.replay_capacity.to_string(),
            ),
            (
                self.prioritized.is_none() || self.replay_capacity <= 1 << 27,
                "replay_capacity: at most 2^27 with prioritized draws, which take 5 B each at once",
                self.replay_capacity.to_string(),
            ),
        ]
    }

    fn learning_rules(&self) -> Vec<Rule> {
        vec![
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
        ]
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

/// The problem of a run with this name in its settings.
pub(super) fn problem_of(
    given: Option<&'static Problem>,
    name: &str,
) -> Result<&'static Problem, Error> {
    match given {
        None => problem_by_name(name)
            .map_err(|error| Error::input(format!("training settings: `problem`: {error}"))),
        Some(problem) if problem.name == name => Ok(problem),
        Some(problem) => Err(Error::input(format!(
            "training settings: `problem`: expected {}; found {name}",
            problem.name
        ))),
    }
}
