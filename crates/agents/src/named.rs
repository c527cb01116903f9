//! The settings that come with the program, by name.

use shardgraph_components::QNetworkShape;

use crate::config::{AgentConfig, Algorithm, EnvironmentConfig, SCHEMA_VERSION};
use crate::dqn::{DqnConfig, PrioritizedConfig, ReplayConfig};

/// Names, and what the settings are for.
const NAMED: [(&str, &str); 2] = [
    ("cartpole-dqn", "cart and pole, deep Q-learning with CleanRL's settings"),
    (
        "cartpole-dueling-double-dqn",
        "cart and pole, dueling double DQN with prioritised replay and 3-step returns",
    ),
];

impl AgentConfig {
    /// The names that [`AgentConfig::named`] knows, each with what it is for.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMED.into_iter()
    }

    /// Settings that come with the program.
    ///
    /// # Source
    /// `cartpole-dqn`: Huang et al., CleanRL, `dqn.py`. `cartpole-dueling-double-dqn`: the same with the settings of Rainbow's parts
    /// (Hessel et al. 2018, table 1) where these do not depend on the task.
    ///
    /// ```
    /// use shardgraph_agents::AgentConfig;
    /// assert_eq!(AgentConfig::named("cartpole-dqn").unwrap().steps, 500_000);
    /// assert_eq!(AgentConfig::named("cartpole-qdn"), None);
    /// ```
    pub fn named(name: &str) -> Option<AgentConfig> {
        let dqn = match name {
            "cartpole-dqn" => DqnConfig::default(),
            "cartpole-dueling-double-dqn" => DqnConfig {
                network: QNetworkShape {
                    hidden: vec![120],
                    dueling: Some(vec![84]),
                },
                double: true,
                n_step: 3,
                replay: ReplayConfig {
                    prioritized: Some(PrioritizedConfig::default()),
                    ..ReplayConfig::default()
                },
                ..DqnConfig::default()
            },
            _ => return None,
        };
        Some(AgentConfig {
            schema_version: SCHEMA_VERSION,
            seed: 1,
            steps: 500_000,
            checkpoint_steps: 100_000,
            environment: EnvironmentConfig::CartPole { n_environments: 1 },
            algorithm: Algorithm::Dqn(dqn),
        })
    }
}
