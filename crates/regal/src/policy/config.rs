//! What a policy is: what it reads, what it proposes, and the network between.

use serde::{Deserialize, Serialize};
use shardgraph_components::environments::space::Space;
use shardgraph_components::{Aggregation, EdgeMessagePassingShape, NodeUpdate};
use shardgraph_costgraph::{DecoderKind, MAX_DEVICES, Problem};
use shardgraph_error::words;

use crate::error::Error;
use crate::features::{FeatureSet, Features, N_EDGE_FEATURES, features_on};
use crate::options::{GeneticOptions, PlaceOptions};
use crate::proposals::CheapSchedule;
use crate::watch::{Search, unwatched};

/// Of [`PolicyConfig`].
const SCHEMA_VERSION: u32 = 2;
/// Bounds on what a malformed file can make us allocate.
const MAX_WIDTH: usize = 1024;
const MAX_ROUNDS: usize = 256;
const MAX_LAYERS: usize = 16;

/// Which keys of an op a policy proposes distributions for; the others are uniform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionSet {
    /// Its affinities to the devices and its priority.
    #[default]
    Both,
    /// Its affinities.
    Placement,
    /// Its priority.
    Scheduling,
}

impl ActionSet {
    /// Whether affinities are proposed.
    #[must_use]
    pub fn has_placement(self) -> bool {
        self != ActionSet::Scheduling
    }

    /// Whether priorities are proposed.
    #[must_use]
    pub fn has_scheduling(self) -> bool {
        self != ActionSet::Placement
    }
}

/// What makes representations of ops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EncoderShape {
    /// The paper's graph network, equation 1.
    GraphNetwork(EdgeMessagePassingShape),
    /// A long short-term memory of this width over the ops in topological order, which sees no edges: the paper's baseline
    /// "graph as sequence".
    Sequence {
        /// Units of the memory, and of the layer before it.
        width: usize,
    },
}

impl EncoderShape {
    fn width(&self) -> usize {
        match self {
            EncoderShape::GraphNetwork(shape) => shape.width,
            EncoderShape::Sequence { width } => *width,
        }
    }
}

/// What a policy is; its file has this in the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Version of this record; 2.
    pub schema_version: u32,
    /// What it reads, which says what it is for.
    pub features: FeatureSet,
    /// Whether an op's features go on with where a schedule that is made without a search has it: 1 for its device, and its rank from 0
    /// for the last op to 1 for the first. That is list scheduling by upward rank for the runtime, the greedy schedule for memory. The
    /// paper has no such features.
    pub schedule_features: bool,
    /// d, the number of devices that it is for.
    pub n_devices: usize,
    /// How chromosomes become schedules, for the features and for the search.
    pub decoder: DecoderKind,
    /// Evaluations of the short search that features come from.
    pub feature_evaluations: u64,
    /// The genetic algorithm's numbers in that search, whoever makes it: features of another search are other features.
    pub feature_search: GeneticOptions,
    /// What it proposes.
    pub actions: ActionSet,
    /// k for affinities: levels of the mean and of the variance, as [`shardgraph_brkga::Beta::quantised`] has them.
    pub placement_levels: u32,
    /// k for priorities.
    pub scheduling_levels: u32,
    /// k for the probability that a child takes a key from its elite parent, one decision a graph among `0.5 (1 + (c + 1) / (k + 1))`;
    /// absent: the search's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossover_levels: Option<u32>,
    /// What makes representations of ops.
    pub encoder: EncoderShape,
    /// Width of the hidden layer between a representation and the logits.
    pub head_width: usize,
}

/// The networks that the paper found best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// A.16, for the runtime of synthetic graphs: 2 rounds of gated units, means, 2 levels for affinities and 16 for priorities.
    #[default]
    Synthetic,
    /// A.15, for the runtime of TensorFlow's graphs: 16 residual rounds, sums, 2 and 16 levels.
    Runtime,
    /// A.14 with the levels of A.13, for memory: 16 rounds, means, 2 and 2 levels.
    Memory,
}

words!(
    Preset, Error, Error::word, "preset";
    "synthetic" => Synthetic,
    "runtime" => Runtime,
    "memory" => Memory,
);

impl PolicyConfig {
    /// A preset for two devices and the paper's decoder, with features of 400 evaluations.
    ///
    /// ```
    /// use shardgraph_regal::{PolicyConfig, Preset};
    /// let config = PolicyConfig::preset(Preset::Synthetic);
    /// assert_eq!((config.placement_levels, config.scheduling_levels), (2, 16));
    /// assert_eq!(config.features.n_node_features(config.n_devices), 11);
    /// ```
    #[must_use]
    pub fn preset(preset: Preset) -> PolicyConfig {
        let (features, scheduling_levels) = match preset {
            Preset::Synthetic | Preset::Runtime => (FeatureSet::Runtime, 16),
            Preset::Memory => (FeatureSet::Memory, 2),
        };
        let (n_rounds, aggregation, update) = match preset {
            Preset::Synthetic => (2, Aggregation::Mean, NodeUpdate::Gru),
            Preset::Runtime => (16, Aggregation::Sum, NodeUpdate::Residual),
            Preset::Memory => (16, Aggregation::Mean, NodeUpdate::Perceptron),
        };
        PolicyConfig {
            schema_version: SCHEMA_VERSION,
            features,
            schedule_features: false,
            n_devices: 2,
            decoder: DecoderKind::Paper,
            feature_evaluations: 400,
            feature_search: GeneticOptions::default(),
            actions: ActionSet::Both,
            placement_levels: 2,
            scheduling_levels,
            crossover_levels: None,
            encoder: EncoderShape::GraphNetwork(EdgeMessagePassingShape {
                n_rounds,
                aggregation,
                update,
                ..EdgeMessagePassingShape::default()
            }),
            head_width: 32,
        }
    }

    /// Refuses what cannot be right.
    ///
    /// # Errors
    /// `Policy`, naming the first field that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::policy(what));
        if self.schema_version != SCHEMA_VERSION {
            return wrong(format!(
                "policy version {} is not known here: this program reads version {SCHEMA_VERSION}",
                self.schema_version
            ));
        }
        if !(1..=MAX_DEVICES).contains(&self.n_devices) {
            return wrong(format!(
                "n_devices = {}: expected 1 to {MAX_DEVICES}",
                self.n_devices
            ));
        }
        let levels = [
            ("placement_levels", self.placement_levels),
            ("scheduling_levels", self.scheduling_levels),
        ];
        let of_crossover = self.crossover_levels.map(|k| ("crossover_levels", k));
        let mut levels = levels.into_iter().chain(of_crossover);
        if let Some((name, k)) = levels.find(|(_, k)| !(2..=64).contains(k)) {
            return wrong(format!("{name} = {k}: expected 2 to 64"));
        }
        if !(1..=1 << 32).contains(&self.feature_evaluations) {
            return wrong(format!(
                "feature_evaluations = {}: expected 1 to 2^32",
                self.feature_evaluations
            ));
        }
        let search = self.feature_search.config(self.feature_evaluations, 1);
        let checked = search.check();
        checked.map_err(|error| Error::policy(format!("feature_search: {error}")))?;
        self.check_network()
    }

    /// The features of a problem as this policy wants them, with the options' decoder, seed and threads.
    ///
    /// # Errors
    /// As [`crate::features`].
    pub fn features_of(
        &self,
        problem: &Problem<'_>,
        options: &PlaceOptions,
    ) -> Result<Features, Error> {
        let found = unwatched(|watch| self.features_on(problem, options, &mut Search::new(watch)));
        Ok(found?.0)
    }

    /// As [`PolicyConfig::features_of`], when the watch has begun; and when, in its seconds, the short search was over.
    pub(crate) fn features_on(
        &self,
        problem: &Problem<'_>,
        options: &PlaceOptions,
        search: &mut Search<'_, '_>,
    ) -> Result<(Features, f64), Error> {
        let options = PlaceOptions {
            genetic: self.feature_search,
            ..options.clone()
        };
        let features = features_on(problem, &options, self.feature_evaluations, search)?;
        let seconds = search.seconds();
        let features = match self.schedule_features {
            false => features,
            true => {
                let schedule = CheapSchedule::of(problem, &mut || !search.is_late());
                features.with_schedule(&schedule, problem.n_devices())
            }
        };
        Ok((features, seconds))
    }

    /// How many features an op has.
    pub(crate) fn n_node_features(&self) -> usize {
        let of_schedule = if self.schedule_features {
            self.n_devices + 1
        } else {
            0
        };
        self.features.n_node_features(self.n_devices) + of_schedule
    }

    /// The graphs that it reads.
    pub(crate) fn space(&self) -> Result<Space, Error> {
        let space = Space::graph(self.n_node_features(), N_EDGE_FEATURES);
        Ok(space.map_err(shardgraph_components::Error::from)?)
    }

    /// Columns of a representation.
    pub(crate) fn encoder_width(&self) -> usize {
        self.encoder.width()
    }

    fn check_network(&self) -> Result<(), Error> {
        let mut widths = vec![
            ("head_width", self.head_width),
            ("encoder.width", self.encoder.width()),
        ];
        if let EncoderShape::GraphNetwork(shape) = &self.encoder {
            widths.extend(shape.hidden.iter().map(|&width| ("encoder.hidden", width)));
            if shape.n_rounds > MAX_ROUNDS || shape.hidden.len() > MAX_LAYERS {
                return Err(Error::policy(format!(
                    "encoder: {} rounds of {} hidden layers: expected at most {MAX_ROUNDS} of {MAX_LAYERS}",
                    shape.n_rounds,
                    shape.hidden.len()
                )));
            }
        }
        let wrong = widths
            .into_iter()
            .find(|(_, width)| !(1..=MAX_WIDTH).contains(width));
        match wrong {
            None => Ok(()),
            Some((name, width)) => Err(Error::policy(format!(
                "{name} = {width}: expected 1 to {MAX_WIDTH}"
            ))),
        }
    }
}
