//! The settings that come with the program, by name.

use shardgraph_components::{ActorCriticShape, OptimiserConfig, PpoLoss, QNetworkShape};

use crate::apex::ApexConfig;
use crate::config::{AgentConfig, Algorithm, SCHEMA_VERSION};
use crate::dqn::{DqnConfig, PrioritizedConfig, ReplayConfig};
use crate::impala::ImpalaConfig;
use crate::ppo::PpoConfig;
use crate::reinforce::ReinforceConfig;
use crate::run_environments::EnvironmentConfig;
use crate::sac::{SacConfig, SacNetworkConfig};

/// Settings that come with the program.
struct Shipped {
    name: &'static str,
    about: &'static str,
    environment: &'static str,
    n_environments: usize,
    scale_observations: bool,
    steps: u64,
    algorithm: fn() -> Algorithm,
}

impl Shipped {
    fn config(&self) -> AgentConfig {
        AgentConfig {
            schema_version: SCHEMA_VERSION,
            seed: 1,
            steps: self.steps,
            checkpoint_steps: 100_000,
            environment: EnvironmentConfig {
                scale_observations: self.scale_observations,
                ..EnvironmentConfig::named(self.environment, self.n_environments)
            },
            algorithm: (self.algorithm)(),
        }
    }
}

/// Cart and pole by one of the algorithms, with as many environments as it has by default.
const fn cart_pole(
    name: &'static str,
    about: &'static str,
    n_environments: usize,
    algorithm: fn() -> Algorithm,
) -> Shipped {
    Shipped {
        name,
        about,
        environment: "cartpole",
        n_environments,
        scale_observations: false,
        steps: 500_000,
        algorithm,
    }
}

/// A MinAtar game by PPO.
const fn game(name: &'static str, about: &'static str, environment: &'static str) -> Shipped {
    Shipped {
        name,
        about,
        environment,
        n_environments: 64,
        scale_observations: false,
        steps: 2_000_000,
        algorithm: || Algorithm::Ppo(game_ppo()),
    }
}

/// A graph problem by PPO with masks.
const fn graph(name: &'static str, about: &'static str, environment: &'static str) -> Shipped {
    Shipped {
        name,
        about,
        environment,
        n_environments: 64,
        scale_observations: false,
        steps: 500_000,
        algorithm: || Algorithm::Ppo(graph_ppo()),
    }
}

/// Of each environment the first is what its name alone means.
const SHIPPED: [Shipped; 24] = [
    Shipped {
        name: "acrobot-ppo",
        about: "two links, proximal policy optimisation",
        environment: "acrobot",
        n_environments: 16,
        scale_observations: false,
        steps: 300_000,
        algorithm: || Algorithm::Ppo(acrobot_ppo()),
    },
    game("asterix-ppo", "MinAtar's Asterix, PPO", "asterix"),
    game("breakout-ppo", "MinAtar's Breakout, PPO", "breakout"),
    cart_pole(
        "cartpole-dqn",
        "cart and pole, deep Q-learning with CleanRL's settings",
        1,
        || Algorithm::Dqn(DqnConfig::default()),
    ),
    cart_pole(
        "cartpole-dueling-double-dqn",
        "cart and pole, dueling double DQN with prioritised replay and 3-step returns",
        1,
        || Algorithm::Dqn(rainbow_parts()),
    ),
    cart_pole(
        "cartpole-apex",
        "cart and pole, Ape-X with a shard of replay and 4 actors",
        8,
        || Algorithm::Apex(ApexConfig::default()),
    ),
    cart_pole(
        "cartpole-impala",
        "cart and pole, IMPALA with 2 actors",
        8,
        || Algorithm::Impala(ImpalaConfig::default()),
    ),
    Shipped {
        // The step size of PPO falls to 0 over its run.
        steps: 150_000,
        ..cart_pole(
            "cartpole-ppo",
            "cart and pole, proximal policy optimisation in 16 environments",
            16,
            || Algorithm::Ppo(quick_ppo()),
        )
    },
    cart_pole(
        "cartpole-reinforce",
        "cart and pole, REINFORCE with a learned baseline",
        1,
        || Algorithm::Reinforce(ReinforceConfig::default()),
    ),
    Shipped {
        name: "cliff-walking-dqn",
        about: "a walk along a cliff, deep Q-learning",
        environment: "cliff-walking",
        n_environments: 4,
        scale_observations: false,
        steps: 50_000,
        algorithm: || Algorithm::Dqn(tabular_dqn()),
    },
    graph("clique-ppo", "maximum clique on 20 nodes, PPO", "clique"),
    graph("cut-ppo", "maximum cut on 20 nodes, PPO", "cut"),
    graph(
        "dominating-set-ppo",
        "minimum dominating set on 20 nodes, PPO",
        "dominating-set",
    ),
    game("freeway-ppo", "MinAtar's Freeway, PPO", "freeway"),
    Shipped {
        name: "frozen-lake-dqn",
        about: "a slippery lake with holes, deep Q-learning",
        environment: "frozen-lake",
        n_environments: 4,
        scale_observations: false,
        steps: 100_000,
        algorithm: || Algorithm::Dqn(tabular_dqn()),
    },
    graph(
        "independent-set-ppo",
        "maximum independent set on 20 nodes, PPO",
        "independent-set",
    ),
    Shipped {
        name: "mountain-car-ppo",
        about: "a car between two hills, PPO",
        environment: "mountain-car",
        n_environments: 16,
        scale_observations: true,
        steps: 500_000,
        algorithm: || Algorithm::Ppo(mountain_car_ppo()),
    },
    Shipped {
        name: "mountain-car-continuous-ppo",
        about: "a car between two hills with a continuous push, PPO",
        environment: "mountain-car-continuous",
        n_environments: 16,
        scale_observations: true,
        steps: 200_000,
        algorithm: || Algorithm::Ppo(continuous_car_ppo()),
    },
    Shipped {
        name: "pendulum-ppo",
        about: "a pendulum with a continuous torque, PPO",
        environment: "pendulum",
        n_environments: 16,
        scale_observations: true,
        steps: 200_000,
        algorithm: || Algorithm::Ppo(pendulum_ppo()),
    },
    Shipped {
        name: "pendulum-sac",
        about: "a pendulum with a continuous torque, soft actor-critic",
        environment: "pendulum",
        n_environments: 1,
        scale_observations: false,
        steps: 20_000,
        algorithm: || Algorithm::Sac(pendulum_sac()),
    },
    game("seaquest-ppo", "MinAtar's Seaquest, PPO", "seaquest"),
    game(
        "space-invaders-ppo",
        "MinAtar's Space Invaders, PPO",
        "space-invaders",
    ),
    Shipped {
        name: "taxi-dqn",
        about: "a taxi and its passengers, deep Q-learning with masks",
        environment: "taxi",
        n_environments: 4,
        scale_observations: false,
        steps: 300_000,
        algorithm: || Algorithm::Dqn(tabular_dqn()),
    },
    graph(
        "vertex-cover-ppo",
        "minimum vertex cover on 20 nodes, PPO",
        "vertex-cover",
    ),
];

/// The algorithms, by the name that settings have for them.
const ALGORITHMS: [&str; 6] = ["apex", "dqn", "impala", "ppo", "reinforce", "sac"];

/// An algorithm with its defaults; `None` for an unknown one.
fn algorithm_by_default(name: &str) -> Option<Algorithm> {
    Some(match name {
        "apex" => Algorithm::Apex(ApexConfig::default()),
        "dqn" => Algorithm::Dqn(DqnConfig::default()),
        "impala" => Algorithm::Impala(ImpalaConfig::default()),
        "ppo" => Algorithm::Ppo(PpoConfig::default()),
        "reinforce" => Algorithm::Reinforce(ReinforceConfig::default()),
        "sac" => Algorithm::Sac(SacConfig::default()),
        _ => return None,
    })
}

/// The defaults of an algorithm for an environment, with the number of environments that goes with them.
fn by_default(algorithm: Algorithm, environment: &str) -> AgentConfig {
    let n_environments = match &algorithm {
        Algorithm::Dqn(_) | Algorithm::Reinforce(_) | Algorithm::Sac(_) => 1,
        Algorithm::Apex(_) | Algorithm::Impala(_) => 8,
        Algorithm::Ppo(_) => 16,
    };
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
        SHIPPED.iter().map(|shipped| (shipped.name, shipped.about))
    }

    /// The names of the algorithms, as settings have them.
    pub fn algorithms() -> impl Iterator<Item = &'static str> {
        ALGORITHMS.into_iter()
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
        shipped.map(Shipped::config)
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
        let algorithm_settings = algorithm_by_default(algorithm)?;
        let shipped = AgentConfig::named(&format!("{environment}-{algorithm}"));
        Some(shipped.unwrap_or_else(|| by_default(algorithm_settings, environment)))
    }

    /// The first settings that come with the program for an environment, else PPO's defaults.
    pub fn of_environment(environment: &str) -> AgentConfig {
        let shipped = SHIPPED
            .iter()
            .find(|shipped| shipped.environment == environment);
        match shipped {
            Some(shipped) => shipped.config(),
            None => by_default(Algorithm::Ppo(PpoConfig::default()), environment),
        }
    }
}

/// Dueling double DQN with prioritised replay and 3-step returns.
fn rainbow_parts() -> DqnConfig {
    DqnConfig {
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
            learning_rate: 2.5e-3,
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
        n_epochs: 6,
        ..default
    }
}

/// Many updates of each rollout: the first reward other than -1 comes after hundreds of steps.
fn acrobot_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        optimiser: OptimiserConfig {
            learning_rate: 1e-3,
            ..default.optimiser
        },
        loss: PpoLoss {
            entropy_coefficient: 0.005,
            ..default.loss
        },
        n_minibatches: 16,
        ..default
    }
}

/// A short horizon: a swing takes some tens of steps.
fn pendulum_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        optimiser: OptimiserConfig {
            learning_rate: 1e-3,
            ..default.optimiser
        },
        loss: PpoLoss {
            entropy_coefficient: 0.0,
            ..default.loss
        },
        gamma: 0.9,
        n_minibatches: 32,
        n_epochs: 10,
        ..default
    }
}

/// Small layers and a large step size: the swing is learned within some thousand updates.
fn pendulum_sac() -> SacConfig {
    let default = SacConfig::default();
    SacConfig {
        network: SacNetworkConfig {
            hidden: vec![64, 64],
        },
        optimiser: OptimiserConfig {
            learning_rate: 1e-3,
            ..default.optimiser
        },
        ..default
    }
}

/// Pushes that vary much: the one reward is at the top of the hill, and each push costs.
fn continuous_car_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        optimiser: OptimiserConfig {
            learning_rate: 1e-3,
            ..default.optimiser
        },
        loss: PpoLoss {
            entropy_coefficient: 0.05,
            ..default.loss
        },
        gae_lambda: 0.98,
        gamma: 0.995,
        n_minibatches: 32,
        n_epochs: 10,
        ..default
    }
}

/// PureJaxRL's rollouts for MinAtar, with half of its step size, and layers of 128 that policy and values share.
fn game_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        network: ActorCriticShape {
            hidden: vec![128, 128],
            lstm: None,
        },
        optimiser: OptimiserConfig {
            learning_rate: 2.5e-3,
            ..default.optimiser
        },
        rollout_steps: 128,
        n_minibatches: 8,
        ..default
    }
}

/// No discount: a return is the size of an answer, after few steps.
fn graph_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        network: ActorCriticShape {
            hidden: vec![128, 128],
            lstm: None,
        },
        optimiser: OptimiserConfig {
            learning_rate: 2e-3,
            ..default.optimiser
        },
        gamma: 1.0,
        rollout_steps: 64,
        n_minibatches: 8,
        ..default
    }
}

/// A table of values, by a small network over one-hot states.
fn tabular_dqn() -> DqnConfig {
    let default = DqnConfig::default();
    DqnConfig {
        network: QNetworkShape {
            hidden: vec![64],
            dueling: None,
        },
        optimiser: OptimiserConfig {
            learning_rate: 1e-3,
            ..default.optimiser
        },
        learning_starts: 1_000,
        train_every: 4,
        ..default
    }
}

/// Much entropy and long traces: the first reward other than -1 is at the top of the hill.
fn mountain_car_ppo() -> PpoConfig {
    let default = PpoConfig::default();
    PpoConfig {
        optimiser: OptimiserConfig {
            learning_rate: 1e-3,
            ..default.optimiser
        },
        loss: PpoLoss {
            entropy_coefficient: 0.02,
            ..default.loss
        },
        gae_lambda: 0.98,
        n_minibatches: 16,
        ..default
    }
}
