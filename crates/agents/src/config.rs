//! The settings of a training run, as TOML or JSON: everything that decides what is computed. The device, the number of ranks and
//! the folder are not among them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_components::{ActorCriticShape, QNetworkShape};
use shardgraph_storage::{hash, utf8_text};

use crate::apex::ApexConfig;
use crate::dqn::DqnConfig;
use crate::error::{Error, ErrorKind};
use crate::impala::ImpalaConfig;
use crate::ppo::PpoConfig;
use crate::reinforce::ReinforceConfig;
use crate::run_environments::{Environments, Spaces};
use crate::sac::SacConfig;
use crate::settings_text::{self, Form, Mistake};

/// The version of the settings that this program reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// A run: an algorithm, an environment, and for how long.
///
/// ```
/// use shardgraph_agents::{AgentConfig, Algorithm};
///
/// let config = AgentConfig::from_toml("
///     steps = 20_000
///     environment = { name = 'cartpole', n_environments = 4 }
///     [algorithm]
///     name = 'dqn'
///     learning_starts = 1000
/// ")?;
/// config.check()?;
/// let Algorithm::Dqn(dqn) = &config.algorithm else { panic!("another algorithm") };
/// assert_eq!((dqn.learning_starts, dqn.batch_size), (1000, 128));
///
/// let error = AgentConfig::from_toml("schema_version = 7").unwrap_err();
/// assert_eq!(error.to_string(), "agent settings, line 1: `schema_version`: expected 1, given 7");
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Version of this record: 1, also where it is absent.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// The one seed of the run; 1 by default.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Steps of the environments, all of them together; 500 000 by default.
    #[serde(default = "half_a_million")]
    pub steps: u64,
    /// Steps between checkpoints; 100 000 by default.
    #[serde(default = "hundred_thousand")]
    pub checkpoint_steps: u64,
    /// What the agent learns on.
    pub environment: EnvironmentConfig,
    /// How it learns.
    pub algorithm: Algorithm,
}

fn schema_version() -> u32 {
    SCHEMA_VERSION
}

fn first_seed() -> u64 {
    1
}

fn half_a_million() -> u64 {
    500_000
}

fn hundred_thousand() -> u64 {
    100_000
}

/// Environments side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentConfig {
    /// One of those that come with the program, or what a caller calls his own ([`Environments`]).
    pub name: String,
    /// How many take their steps together; 1 by default.
    #[serde(default = "one")]
    pub n_environments: usize,
    /// Whether observations with bounds are scaled to -1 to 1; false by default.
    #[serde(default)]
    pub scale_observations: bool,
    /// Options of the environment; none by default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
}

fn one() -> usize {
    1
}

/// An algorithm with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Algorithm {
    /// Deep Q-learning.
    Dqn(DqnConfig),
    /// Deep Q-learning with a learner, replay shards and actors.
    Apex(ApexConfig),
    /// An actor-critic with a learner and actors.
    Impala(ImpalaConfig),
    /// Proximal policy optimisation.
    Ppo(PpoConfig),
    /// Policy gradient from whole episodes.
    Reinforce(ReinforceConfig),
    /// Soft actor-critic.
    Sac(SacConfig),
}

impl EnvironmentConfig {
    /// So many of one of those that come with the program, with their default options.
    pub fn named(name: &str, n_environments: usize) -> EnvironmentConfig {
        EnvironmentConfig {
            name: name.to_owned(),
            n_environments,
            scale_observations: false,
            options: BTreeMap::new(),
        }
    }
}

impl Algorithm {
    /// Its name in settings.
    pub fn name(&self) -> &'static str {
        match self {
            Algorithm::Dqn(_) => "dqn",
            Algorithm::Apex(_) => "apex",
            Algorithm::Impala(_) => "impala",
            Algorithm::Ppo(_) => "ppo",
            Algorithm::Reinforce(_) => "reinforce",
            Algorithm::Sac(_) => "sac",
        }
    }

    /// The settings of deep Q-learning.
    pub(crate) fn dqn(&self) -> Result<&DqnConfig, Error> {
        match self {
            Algorithm::Dqn(dqn) => Ok(dqn),
            other => Err(other.is_not("dqn")),
        }
    }

    /// The settings of Ape-X.
    pub(crate) fn apex(&self) -> Result<&ApexConfig, Error> {
        match self {
            Algorithm::Apex(apex) => Ok(apex),
            other => Err(other.is_not("apex")),
        }
    }

    /// The settings of IMPALA.
    pub(crate) fn impala(&self) -> Result<&ImpalaConfig, Error> {
        match self {
            Algorithm::Impala(impala) => Ok(impala),
            other => Err(other.is_not("impala")),
        }
    }

    /// The settings of PPO.
    pub(crate) fn ppo(&self) -> Result<&PpoConfig, Error> {
        match self {
            Algorithm::Ppo(ppo) => Ok(ppo),
            other => Err(other.is_not("ppo")),
        }
    }

    /// The settings of REINFORCE.
    pub(crate) fn reinforce(&self) -> Result<&ReinforceConfig, Error> {
        match self {
            Algorithm::Reinforce(reinforce) => Ok(reinforce),
            other => Err(other.is_not("reinforce")),
        }
    }

    /// The settings of soft actor-critic.
    pub(crate) fn sac(&self) -> Result<&SacConfig, Error> {
        match self {
            Algorithm::Sac(sac) => Ok(sac),
            other => Err(other.is_not("sac")),
        }
    }

    /// That another algorithm was expected.
    #[cold]
    pub(crate) fn is_not(&self, expected: &str) -> Error {
        ErrorKind::Setting {
            field: "algorithm.name",
            expected: expected.to_owned(),
            given: self.name().to_owned(),
        }
        .into()
    }
}

/// What every version of the settings has.
#[derive(Deserialize)]
pub(crate) struct Version {
    #[serde(default = "schema_version")]
    schema_version: u32,
}

impl AgentConfig {
    /// Reads and checks a file: JSON if it is called so, else TOML.
    ///
    /// # Errors
    /// When the file cannot be read, or as [`AgentConfig::from_toml`] and [`AgentConfig::check`].
    pub fn read(path: &Path) -> Result<AgentConfig, Error> {
        let bytes = shardgraph_storage::read_bounded(path, shardgraph_storage::MAX_SETTINGS_BYTES)
            .map_err(Error::io(path))?;
        let name = path.display().to_string();
        let text = utf8_text(bytes).map_err(|line| {
            Error::input(format!("{name}:{line}: expected UTF-8, found other bytes"))
        })?;
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let form = if is_json { Form::Json } else { Form::Toml };
        let config = settings_text::read(&text, form).map_err(|wrong| wrong.of_file(&name))?;
        match config.check() {
            Ok(()) => Ok(config),
            Err(error) => Err(settings_text::place(&text, form, &error).of_file(&name)),
        }
    }

    /// Reads settings; nothing but their form is checked.
    ///
    /// # Errors
    /// When the text is of another version, has an unknown setting, or lacks the environment or the algorithm.
    pub fn from_toml(text: &str) -> Result<AgentConfig, Error> {
        settings_text::read(text, Form::Toml).map_err(Mistake::into_error)
    }

    /// As [`AgentConfig::from_toml`].
    ///
    /// # Errors
    /// As [`AgentConfig::from_toml`].
    pub fn from_json(text: &str) -> Result<AgentConfig, Error> {
        settings_text::read(text, Form::Json).map_err(Mistake::into_error)
    }

    /// A hash of all settings, for ranks to compare: the XXH3 hash of their JSON.
    ///
    /// # Errors
    /// When they have no form as JSON, which is a defect of the program.
    pub fn fingerprint(&self) -> Result<u64, Error> {
        let text = serde_json::to_string(self)
            .map_err(|error| Error::internal(format!("settings without a form: {error}")))?;
        Ok(hash(text.as_bytes()))
    }

    /// Refuses settings that cannot be right, for the environment of their name.
    ///
    /// # Errors
    /// Names the first such setting, what is expected and what was given.
    pub fn check(&self) -> Result<(), Error> {
        self.check_on(&Environments::named(&self.environment)?)
    }

    /// As [`AgentConfig::check`], for a caller's own environments.
    ///
    /// # Errors
    /// As [`AgentConfig::check`].
    pub fn check_on(&self, environments: &Environments) -> Result<(), Error> {
        let version = self.schema_version;
        Version {
            schema_version: version,
        }
        .check()?;
        Rule::at_least_1("steps", self.steps).check()?;
        Rule::at_least_1("checkpoint_steps", self.checkpoint_steps).check()?;
        let n_environments = self.environment.n_environments;
        Rule {
            field: "environment.n_environments",
            holds: (1..=1 << 20).contains(&n_environments),
            expected: "1 to 2^20".to_owned(),
            given: n_environments.to_string(),
        }
        .check()?;
        let takes_boxes = matches!(self.algorithm, Algorithm::Ppo(_) | Algorithm::Sac(_));
        Rule {
            field: "environment.name",
            holds: takes_boxes || !environments.spaces().action_form().0,
            expected: "an environment with discrete actions; `ppo` and `sac` learn continuous ones"
                .to_owned(),
            given: "one whose actions are a box".to_owned(),
        }
        .check()?;
        let widths = Widths::of(environments.spaces());
        match &self.algorithm {
            Algorithm::Dqn(dqn) => dqn.check(n_environments, widths),
            Algorithm::Apex(apex) => apex.check(n_environments, widths),
            Algorithm::Impala(impala) => impala.check(n_environments, widths),
            Algorithm::Ppo(ppo) => ppo.check(n_environments, widths),
            Algorithm::Reinforce(reinforce) => reinforce.check(widths),
            Algorithm::Sac(sac) => sac.check(environments.spaces(), n_environments),
        }
    }
}

impl Version {
    pub(crate) fn check(&self) -> Result<(), Error> {
        Rule {
            field: "schema_version",
            holds: self.schema_version == SCHEMA_VERSION,
            expected: SCHEMA_VERSION.to_string(),
            given: self.schema_version.to_string(),
        }
        .check()
    }
}

/// More weights than this are a mistake: half a GiB of them.
pub(crate) const MAX_WEIGHTS: u64 = 1 << 27;
/// More weights than this do not fit a queue between ranks, of 64 MiB, with some words beside them.
pub(crate) const MAX_SENT_WEIGHTS: u64 = (1 << 24) - (1 << 18);
/// Rows of more transitions than this do not fit a message between ranks.
pub(crate) const MAX_ROWS: u64 = 1 << 20;
/// More actors or shards than this are a mistake.
pub(crate) const MAX_RANKS: u64 = 1 << 10;

/// Weights and biases of layers of these widths, one behind the other; 0 where a width is 0.
pub(crate) fn n_weights_of_layers(n_inputs: u64, widths: &[usize]) -> u64 {
    let (mut n_weights, mut n_inputs) = (0u64, n_inputs);
    for &width in widths {
        let width = width as u64;
        if width == 0 {
            return 0;
        }
        n_weights = n_weights.saturating_add(n_inputs.saturating_add(1).saturating_mul(width));
        n_inputs = width;
    }
    n_weights
}

/// What the widths of a network's first and last layers are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Floats of an observation.
    pub n_features: usize,
    /// Columns of what is said of actions: their number, where they are discrete.
    pub n_actions: usize,
}

impl Widths {
    /// Of these spaces.
    pub fn of(spaces: &Spaces) -> Widths {
        Widths {
            n_features: spaces.n_features(),
            n_actions: spaces.n_action_columns(),
        }
    }
}

/// Weights and biases of a policy with its values; 0 where a width is 0.
pub(crate) fn n_weights_of_policy(shape: &ActorCriticShape, widths: Widths) -> u64 {
    let (n_inputs, n_actions) = (widths.n_features as u64, widths.n_actions as u64);
    let n_features = shape.hidden.last().map_or(n_inputs, |&width| width as u64);
    let torso = n_weights_of_layers(n_inputs, &shape.hidden);
    let (core, n_outputs) = match shape.lstm.map(|n_hidden| n_hidden as u64) {
        None => (0, n_features),
        Some(n_hidden) => {
            let n_inputs = n_features.saturating_add(n_hidden).saturating_add(1);
            (
                n_inputs.saturating_mul(n_hidden).saturating_mul(4),
                n_hidden,
            )
        }
    };
    if shape.hidden.contains(&0) || shape.lstm == Some(0) {
        return 0;
    }
    let heads = n_outputs
        .saturating_add(1)
        .saturating_mul(n_actions.saturating_add(1));
    torso.saturating_add(core).saturating_add(heads)
}

/// Weights and biases of a Q-network; 0 where a width is 0.
pub(crate) fn n_weights_of_values(shape: &QNetworkShape, widths: Widths) -> u64 {
    let (n_inputs, n_actions) = (widths.n_features as u64, widths.n_actions as u64);
    let n_features = shape.hidden.last().map_or(n_inputs, |&width| width as u64);
    let torso = n_weights_of_layers(n_inputs, &shape.hidden);
    let streams = shape.dueling.iter().flatten();
    if shape.hidden.iter().chain(streams).any(|&width| width == 0) {
        return 0;
    }
    let stream = |n_outputs: u64| {
        let widths = shape.dueling.as_deref().unwrap_or_default();
        let n_last = widths.last().map_or(n_features, |&width| width as u64);
        let head = n_last.saturating_add(1).saturating_mul(n_outputs);
        n_weights_of_layers(n_features, widths).saturating_add(head)
    };
    let heads = match shape.dueling {
        None => stream(n_actions),
        Some(_) => stream(n_actions).saturating_add(stream(1)),
    };
    torso.saturating_add(heads)
}

/// An error of a part of the settings, with its name.
pub(crate) fn setting<T>(
    field: &str,
    checked: Result<T, shardgraph_components::Error>,
) -> Result<T, Error> {
    checked.map_err(|error| Error::input(format!("agent settings: `{field}`: {error}")))
}

/// What a setting must be.
pub(crate) struct Rule {
    /// The setting, with the tables that it is in.
    pub(crate) field: &'static str,
    pub(crate) holds: bool,
    pub(crate) expected: String,
    pub(crate) given: String,
}

impl Rule {
    pub(crate) fn at_least_1(field: &'static str, value: u64) -> Rule {
        Rule {
            field,
            holds: value >= 1,
            expected: "at least 1".to_owned(),
            given: value.to_string(),
        }
    }

    pub(crate) fn between(field: &'static str, value: u64, largest: u64) -> Rule {
        Rule {
            field,
            holds: (1..=largest).contains(&value),
            expected: format!("1 to {largest}"),
            given: value.to_string(),
        }
    }

    pub(crate) fn not_negative(field: &'static str, value: f32) -> Rule {
        Rule {
            field,
            holds: value.is_finite() && value >= 0.0,
            expected: "a finite number not below 0".to_owned(),
            given: value.to_string(),
        }
    }

    /// The layers of a network, of which there are the numbers of weights that `n_weights` says.
    pub(crate) fn network(shape: &impl Serialize, n_weights: u64, largest: u64) -> Rule {
        Rule {
            field: "algorithm.network",
            holds: (1..=largest).contains(&n_weights),
            expected: format!("layers of at least 1, with at most {largest} weights in all"),
            given: serde_json::to_string(shape).unwrap_or_default(),
        }
    }

    /// Learners that share batches of so many blocks.
    pub(crate) fn learners(n_learners: u32, gradient_blocks: usize) -> Rule {
        Rule {
            field: "algorithm.n_learners",
            holds: n_learners >= 1 && n_learners as usize <= gradient_blocks,
            expected: format!("1 to `gradient_blocks`, {gradient_blocks}"),
            given: n_learners.to_string(),
        }
    }

    pub(crate) fn above_0(field: &'static str, value: f32) -> Rule {
        Rule {
            field,
            holds: value.is_finite() && value > 0.0,
            expected: "a finite number above 0".to_owned(),
            given: value.to_string(),
        }
    }

    pub(crate) fn fraction(field: &'static str, value: f32) -> Rule {
        Rule {
            field,
            holds: (0.0..=1.0).contains(&value),
            expected: "0 to 1".to_owned(),
            given: value.to_string(),
        }
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        if self.holds {
            return Ok(());
        }
        Err(ErrorKind::Setting {
            field: self.field,
            expected: self.expected,
            given: self.given,
        }
        .into())
    }
}
