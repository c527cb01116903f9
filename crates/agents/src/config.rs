//! The settings of a training run: everything that decides what is computed. The device, the number of ranks and
//! the folder are not among them.

use serde::{Deserialize, Serialize};
use shardgraph_storage::hash;

use crate::apex::ApexConfig;
use crate::dqn::DqnConfig;
use crate::error::{Error, ErrorKind};
use crate::impala::ImpalaConfig;
use crate::ppo::PpoConfig;
use crate::reinforce::ReinforceConfig;
use crate::rules::{Rule, Widths};
use crate::run_environments::{EnvironmentConfig, Environments};
use crate::sac::SacConfig;

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

/// For each algorithm its settings, or that it is another one.
macro_rules! settings_of {
    ($($name:ident: $variant:ident, $settings:ty;)*) => {
        impl Algorithm {$(
            pub(crate) fn $name(&self) -> Result<&$settings, Error> {
                match self {
                    Algorithm::$variant(settings) => Ok(settings),
                    other => Err(other.is_not(stringify!($name))),
                }
            }
        )*}
    };
}

settings_of! {
    dqn: Dqn, DqnConfig;
    apex: Apex, ApexConfig;
    impala: Impala, ImpalaConfig;
    ppo: Ppo, PpoConfig;
    reinforce: Reinforce, ReinforceConfig;
    sac: Sac, SacConfig;
}

/// What every version of the settings has.
#[derive(Deserialize)]
pub(crate) struct Version {
    #[serde(default = "schema_version")]
    schema_version: u32,
}

impl AgentConfig {
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
