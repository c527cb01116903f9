//! The settings of a training run.

use serde::{Deserialize, Serialize};
use shardgraph_components::{OptimiserConfig, OptimiserRule};
use shardgraph_costgraph::{DeviceSet, Link, Objective};

use crate::error::Error;
use crate::options::{GeneticOptions, PlaceOptions};
use crate::policy::{PolicyConfig, Preset};

/// The settings of a training run; they and the graphs decide every bit of it.
///
/// ```
/// use shardgraph_regal::{Preset, TrainConfig};
/// let config = TrainConfig::preset(Preset::Synthetic);
/// assert_eq!((config.batch_graphs, config.reward_evaluations), (4, 1000));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// The policy.
    pub policy: PolicyConfig,
    /// What the graphs are called: for whoever loads them again.
    pub graphs: Vec<String>,
    /// The seed of synthetic ones among them.
    pub graph_seed: u64,
    /// The one seed of the run.
    pub seed: u64,
    /// Steps of the optimiser.
    pub steps: u64,
    /// Graphs in a batch, drawn with equal probability.
    pub batch_graphs: usize,
    /// Proposals that are drawn for each of them. 1: a reward is held against the baseline's network, as in the paper. More: against
    /// the mean of the graph's other rewards, whose searches have the same random numbers; the baseline's network then rests.
    pub samples_per_graph: usize,
    /// With several samples: advantages are divided by their root mean square over the batch.
    pub normalise_advantages: bool,
    /// Steps at the beginning that learn proposals close to a schedule made without a search (by upward rank, for memory the greedy one)
    /// instead of searching: a start from which rewards teach the rest. The paper has none.
    pub imitation_steps: u64,
    /// What the entropy of the decisions about an op counts; the paper has no such term.
    pub entropy_coefficient: f32,
    /// Evaluations behind a reward, and behind what it is divided by.
    pub reward_evaluations: u64,
    /// Searches with uniform keys whose mean a reward is divided by.
    pub denominator_seeds: u64,
    /// How gradients become steps.
    pub optimiser: OptimiserConfig,
    /// What the baseline's squared error counts.
    pub baseline_coefficient: f32,
    /// The genetic algorithm's numbers, in the searches behind rewards and denominators.
    pub genetic: GeneticOptions,
    /// Bandwidth between devices; absent: transfers take no time.
    pub bandwidth_gbs: Option<f64>,
    /// What a transfer takes besides, in ns.
    pub latency_ns: u64,
    /// The memory of each device, for the runtime; absent: no limit. A policy does not see it: it learns what this limit asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Steps between checkpoints.
    pub checkpoint_steps: u64,
}

impl TrainConfig {
    /// The paper's choices with the network of a preset; 50 chromosomes, 10 elites and 10 mutants, with which its Table 1 comes out in
    /// scale.
    ///
    /// # Source
    /// A.14: batches of 4, 1000 evaluations, gradients cut to a norm of 10, 1e-4 for the baseline, Adam with a step size of 1e-4, 100000
    /// steps.
    #[must_use]
    pub fn preset(preset: Preset) -> TrainConfig {
        TrainConfig {
            policy: PolicyConfig::preset(preset),
            graphs: vec!["costgraph:1000".to_owned()],
            graph_seed: 1,
            seed: 1,
            steps: 100_000,
            batch_graphs: 4,
            samples_per_graph: 1,
            normalise_advantages: false,
            imitation_steps: 0,
            entropy_coefficient: 0.0,
            reward_evaluations: 1000,
            denominator_seeds: 3,
            optimiser: OptimiserConfig {
                rule: OptimiserRule::ADAM,
                learning_rate: 1e-4,
                max_gradient_norm: Some(10.0),
            },
            baseline_coefficient: 1e-4,
            genetic: GeneticOptions::default(),
            bandwidth_gbs: None,
            latency_ns: 0,
            memory_bytes: None,
            checkpoint_steps: 500,
        }
    }

    /// The devices that problems are on: all alike.
    pub(crate) fn devices(&self) -> Result<DeviceSet, Error> {
        let link = Link {
            bandwidth_gbs: self.bandwidth_gbs.unwrap_or(f64::INFINITY),
            latency_ns: self.latency_ns,
        };
        Ok(DeviceSet::uniform(self.policy.n_devices, self.memory_bytes)?.with_link(link)?)
    }

    /// What searches are made with; each has a budget and a seed of its own, and one thread.
    pub(crate) fn place_options(&self) -> PlaceOptions {
        PlaceOptions {
            objective: self.policy.features.objective(),
            decoder: Some(self.policy.decoder),
            genetic: self.genetic,
            ..PlaceOptions::default()
        }
    }

    /// Refuses settings that cannot be right.
    ///
    /// # Errors
    /// `Policy`, `Options`, `Genetic` or `Graph`, naming the first field that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        self.policy.check()?;
        const LONG: u64 = 1 << 32;
        let numbers = [
            ("steps", self.steps, LONG),
            ("batch_graphs", self.batch_graphs as u64, 4096),
            ("samples_per_graph", self.samples_per_graph as u64, 1024),
            ("reward_evaluations", self.reward_evaluations, LONG),
            ("denominator_seeds", self.denominator_seeds, 1000),
            ("checkpoint_steps", self.checkpoint_steps, LONG),
        ];
        let wrong = numbers
            .into_iter()
            .find(|(_, n, most)| !(1..=*most).contains(n));
        if let Some((name, n, most)) = wrong {
            let message = format!("{name} = {n}: expected 1 to {most}");
            return Err(Error::options(message));
        }
        let coefficients = [
            ("baseline_coefficient", self.baseline_coefficient),
            ("entropy_coefficient", self.entropy_coefficient),
        ];
        let wrong = coefficients
            .into_iter()
            .find(|(_, x)| !(x.is_finite() && *x >= 0.0));
        if let Some((name, x)) = wrong {
            let message = format!("{name} = {x}: expected a number not below 0");
            return Err(Error::options(message));
        }
        if self.memory_bytes.is_some() && self.policy.features.objective() == Objective::Memory {
            let message = "memory_bytes: where the peak of memory is minimised, a limit changes nothing: leave it out";
            return Err(Error::options(message));
        }
        self.genetic.config(self.reward_evaluations, 1).check()?;
        self.devices()?;
        let checked = self.optimiser.check();
        checked.map_err(|error| Error::options(error.to_string()))
    }
}
