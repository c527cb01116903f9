//! The settings that come with the program, by name.

use shardgraph_components::{ActorCriticShape, OptimiserConfig, PpoLoss, QNetworkShape};

use crate::apex::ApexConfig;
use crate::config::{AgentConfig, Algorithm, EnvironmentConfig, SCHEMA_VERSION};
use crate::dqn::{DqnConfig, PrioritizedConfig, ReplayConfig};
use crate::impala::ImpalaConfig;
use crate::ppo::PpoConfig;
use crate::reinforce::ReinforceConfig;

/// Names, and what the settings are for.
const NAMED: [(&str, &str); 6] = [
    (
        "cartpole-dqn",
        "cart and pole, deep Q-learning with CleanRL's settings",
    ),
    (
        "cartpole-dueling-double-dqn",
        "cart and pole, dueling double DQN with prioritised replay and 3-step returns",
    ),
    (
        "cartpole-apex",
        "cart and pole, Ape-X with a shard of replay and 4 actors",
    ),
    ("cartpole-impala", "cart and pole, IMPALA with 2 actors"),
    (
        "cartpole-ppo",
        "cart and pole, proximal policy optimisation in 16 environments",
    ),
    (
        "cartpole-reinforce",
        "cart and pole, REINFORCE with a learned baseline",
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
    /// (Hessel et al. 2018, table 1) where these do not depend on the task. The others: the papers that their settings name, at this size.
    ///
    /// ```
    /// use shardgraph_agents::AgentConfig;
    /// assert_eq!(AgentConfig::named("cartpole-dqn").unwrap().steps, 500_000);
    /// assert_eq!(AgentConfig::named("cartpole-qdn"), None);
    /// ```
    pub fn named(name: &str) -> Option<AgentConfig> {
        let algorithm = match name {
            "cartpole-apex" => Algorithm::Apex(ApexConfig::default()),
            "cartpole-impala" => Algorithm::Impala(ImpalaConfig::default()),
            "cartpole-ppo" => Algorithm::Ppo(quick_ppo()),
            "cartpole-reinforce" => Algorithm::Reinforce(ReinforceConfig::default()),
            "cartpole-dqn" => Algorithm::Dqn(DqnConfig::default()),
            "cartpole-dueling-double-dqn" => Algorithm::Dqn(DqnConfig {
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
            }),
            _ => return None,
        };
        let n_environments = match &algorithm {
            Algorithm::Dqn(_) | Algorithm::Reinforce(_) => 1,
            Algorithm::Apex(_) | Algorithm::Impala(_) => 8,
            Algorithm::Ppo(_) => 16,
        };
        Some(AgentConfig {
            schema_version: SCHEMA_VERSION,
            seed: 1,
            // The step size of PPO falls to 0 over its run.
            steps: match &algorithm {
                Algorithm::Ppo(_) => 150_000,
                _ => 500_000,
            },
            checkpoint_steps: 100_000,
            environment: EnvironmentConfig::named("cartpole", n_environments),
            algorithm,
        })
    }
}

/// Many environments, short rollouts and one hidden layer: what small tasks are learned by in the least time.
fn quick_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        network: ActorCriticShape {
            hidden: vec![64],
            lstm: None,
        },
        optimiser: OptimiserConfig {
            learning_rate: 1.5e-3,
            ..default.optimiser
        },
        gamma: 0.98,
        gae_lambda: 0.8,
        loss: PpoLoss {
            entropy_coefficient: 0.0,
            ..default.loss
        },
        rollout_steps: 32,
        n_minibatches: 2,
        n_epochs: 10,
        gradient_blocks: 2,
        ..default
    }
}
