//! The settings that come with the program, by name. They stand in `named.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::config::{AgentConfig, Algorithm, SCHEMA_VERSION};
use crate::run_environments::EnvironmentConfig;

/// Settings that come with the program.
struct Shipped {
    name: String,
    about: String,
    config: AgentConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    group: Vec<Group>,
}

/// Environments that share their settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Of each: the name of its settings, its own name, and a line about both.
    named: Vec<[String; 3]>,
    n_environments: usize,
    #[serde(default)]
    scale_observations: bool,
    steps: u64,
    algorithm: Algorithm,
}

impl Group {
    fn shipped(&self, [name, environment, about]: &[String; 3]) -> Shipped {
        let mut config = with(self.algorithm.clone(), environment, self.n_environments);
        config.steps = self.steps;
        config.environment.scale_observations = self.scale_observations;
        Shipped {
            name: name.clone(),
            about: about.clone(),
            config,
        }
    }
}

/// Sorted by environment; of each environment the first is what its name alone means.
static SHIPPED: LazyLock<Vec<Shipped>> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("named.toml")).expect("a test reads this file");
    let of_group = |group: &Group| {
        let shipped = group.named.iter().map(|named| group.shipped(named));
        shipped.collect::<Vec<_>>()
    };
    let mut shipped: Vec<Shipped> = file.group.iter().flat_map(of_group).collect();
    shipped.sort_by(|a, b| a.config.environment.name.cmp(&b.config.environment.name));
    shipped
});

/// An algorithm by name, with as many environments as it has by default.
struct Known {
    name: &'static str,
    n_environments: usize,
    algorithm: fn() -> Algorithm,
}

const fn known(name: &'static str, n_environments: usize, algorithm: fn() -> Algorithm) -> Known {
    Known {
        name,
        n_environments,
        algorithm,
    }
}

const ALGORITHMS: [Known; 6] = [
    known("apex", 8, || Algorithm::Apex(Default::default())),
    known("dqn", 1, || Algorithm::Dqn(Default::default())),
    known("impala", 8, || Algorithm::Impala(Default::default())),
    known("ppo", 16, || Algorithm::Ppo(Default::default())),
    known("reinforce", 1, || Algorithm::Reinforce(Default::default())),
    known("sac", 1, || Algorithm::Sac(Default::default())),
];

/// An algorithm's defaults; `None` for an unknown one.
fn by_default(algorithm: &str, environment: &str) -> Option<AgentConfig> {
    let known = ALGORITHMS.iter().find(|known| known.name == algorithm)?;
    Some(with((known.algorithm)(), environment, known.n_environments))
}

/// Settings with the defaults of all algorithms.
fn with(algorithm: Algorithm, environment: &str, n_environments: usize) -> AgentConfig {
    AgentConfig {
        schema_version: SCHEMA_VERSION,
        seed: 1,
        steps: 500_000,
        checkpoint_steps: 100_000,
        environment: EnvironmentConfig::named(environment, n_environments),
        algorithm,
    }
}

impl AgentConfig {
    /// The names that [`AgentConfig::named`] knows, each with what it is for.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let shipped = SHIPPED.iter();
        shipped.map(|shipped| (shipped.name.as_str(), shipped.about.as_str()))
    }

    /// The names of the algorithms, as settings have them.
    pub fn algorithms() -> impl Iterator<Item = &'static str> {
        ALGORITHMS.iter().map(|known| known.name)
    }

    /// Settings that come with the program.
    ///
    /// # Source
    /// `cartpole-dqn`: Huang et al., CleanRL, `dqn.py`. `cartpole-dueling-double-dqn`: the same with the settings of Rainbow's parts
    /// (Hessel et al. 2018, table 1) where these do not depend on the task. The others: the papers that their settings name, at this size.
    ///
    /// ```
    /// use shardgraph_agents::AgentConfig;
    /// assert_eq!(AgentConfig::named("cartpole-dqn").unwrap().steps, 500_000);
    /// assert_eq!(AgentConfig::named("cartpole-qdn"), None);
    /// ```
    pub fn named(name: &str) -> Option<AgentConfig> {
        let shipped = SHIPPED.iter().find(|shipped| shipped.name == name);
        shipped.map(|shipped| shipped.config.clone())
    }

    /// Settings of an algorithm for an environment: those that come with the program, called
    /// `ENVIRONMENT-ALGORITHM`, else the algorithm's defaults. `None` for an unknown algorithm.
    ///
    /// ```
    /// use shardgraph_agents::AgentConfig;
    /// let shipped = AgentConfig::for_environment("ppo", "vertex-cover");
    /// assert_eq!(shipped, AgentConfig::named("vertex-cover-ppo"));
    /// assert_eq!(AgentConfig::for_environment("dqn", "clique").unwrap().environment.name, "clique");
    /// assert_eq!(AgentConfig::for_environment("qdn", "clique"), None);
    /// ```
    pub fn for_environment(algorithm: &str, environment: &str) -> Option<AgentConfig> {
        let defaults = by_default(algorithm, environment)?;
        let shipped = AgentConfig::named(&format!("{environment}-{algorithm}"));
        Some(shipped.unwrap_or(defaults))
    }

    /// The first settings that come with the program for an environment, else PPO's defaults.
    pub fn of_environment(environment: &str) -> AgentConfig {
        let is_for = |shipped: &&Shipped| shipped.config.environment.name == environment;
        let shipped = SHIPPED.iter().find(is_for);
        let shipped = shipped.map(|shipped| shipped.config.clone());
        shipped.unwrap_or_else(|| by_default("ppo", environment).expect("an algorithm"))
    }
}
