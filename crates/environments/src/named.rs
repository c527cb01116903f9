//! The environments that come with the program, by name, with their options.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cart_poles::CartPoles;
use crate::error::Error;
use crate::functional::FunctionalEnvironment;
use crate::functional_vector::FunctionalVector;
use crate::graph_environment::{GraphEnvironment, InvalidActions};
use crate::placement_environment::PlacementEnvironment;
use crate::problem::Problem;
use crate::problems::{
    MAXIMUM_CLIQUE, MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET, MINIMUM_DOMINATING_SET,
    MINIMUM_VERTEX_COVER,
};
use crate::tasks::acrobot::Acrobot;
use crate::tasks::minatar::{
    Asterix, Breakout, Freeway, Game, MinAtar, MinAtarOptions, Seaquest, SpaceInvaders,
};
use crate::tasks::mountain_car::{MountainCar, MountainCarContinuous};
use crate::tasks::pendulum::Pendulum;
use crate::tasks::tabular::{CliffWalking, FrozenLake, FrozenLakeOptions, Taxi};
use crate::vector::Autoreset;
use crate::vector_environment::VectorEnvironment;

/// Options of an environment, by name.
pub type EnvironmentOptions = BTreeMap<String, Value>;

/// An environment that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEnvironment {
    /// Its name in settings.
    pub name: &'static str,
    /// What is to be done there.
    pub about: &'static str,
    /// Its options with their defaults, as TOML; empty without options.
    pub options: &'static str,
}

const GAME_OPTIONS: &str = "sticky_actions = 0.1, ramping = true, minimal_actions = true";
const GRAPH_OPTIONS: &str = "graphs = 'er:20:0.15', invalid_actions = 'masked'";

/// All environments, sorted by name.
pub const ENVIRONMENTS: [NamedEnvironment; 19] = [
    NamedEnvironment {
        name: "acrobot",
        about: "Swing the tip of two links above a line (Gymnasium's Acrobot-v1)",
        options: "",
    },
    NamedEnvironment {
        name: "asterix",
        about: "MinAtar's game of gold and enemies",
        options: GAME_OPTIONS,
    },
    NamedEnvironment {
        name: "breakout",
        about: "MinAtar's game of a ball and bricks",
        options: GAME_OPTIONS,
    },
    NamedEnvironment {
        name: "cartpole",
        about: "Keep a pole upright on a cart (Gymnasium's CartPole-v1)",
        options: "",
    },
    NamedEnvironment {
        name: "cliff-walking",
        about: "Walk along a cliff (Gymnasium's CliffWalking-v1, stopped after 500 steps)",
        options: "",
    },
    NamedEnvironment {
        name: "clique",
        about: "Choose a largest clique of a graph, a node at a step",
        options: GRAPH_OPTIONS,
    },
    NamedEnvironment {
        name: "cut",
        about: "Choose a side of a largest cut of a graph, a node at a step",
        options: GRAPH_OPTIONS,
    },
    NamedEnvironment {
        name: "dominating-set",
        about: "Choose a smallest dominating set of a graph, a node at a step",
        options: GRAPH_OPTIONS,
    },
    NamedEnvironment {
        name: "freeway",
        about: "MinAtar's game of a chicken and cars",
        options: GAME_OPTIONS,
    },
    NamedEnvironment {
        name: "frozen-lake",
        about: "Cross a frozen lake with holes (Gymnasium's FrozenLake-v1)",
        options: "side = 4, slippery = true",
    },
    NamedEnvironment {
        name: "independent-set",
        about: "Choose a largest independent set of a graph, a node at a step",
        options: GRAPH_OPTIONS,
    },
    NamedEnvironment {
        name: "mountain-car",
        about: "Swing a car up a hill (Gymnasium's MountainCar-v0)",
        options: "",
    },
    NamedEnvironment {
        name: "mountain-car-continuous",
        about: "The same with a continuous push (Gymnasium's MountainCarContinuous-v0)",
        options: "",
    },
    NamedEnvironment {
        name: "pendulum",
        about: "Swing a pendulum up with a continuous torque (Gymnasium's Pendulum-v1)",
        options: "",
    },
    NamedEnvironment {
        name: "placement",
        about: "Place the ops of a computation graph on devices, an op at a step",
        options: "graphs = 'synthetic', n_graphs = 64, min_ops = 20, max_ops = 40, n_devices = 2, \
                  bandwidth_gbs = 1.0, latency_ns = 0",
    },
    NamedEnvironment {
        name: "seaquest",
        about: "MinAtar's game of a submarine and divers",
        options: GAME_OPTIONS,
    },
    NamedEnvironment {
        name: "space-invaders",
        about: "MinAtar's game of a cannon and aliens",
        options: GAME_OPTIONS,
    },
    NamedEnvironment {
        name: "taxi",
        about: "Drive a passenger to a place (Gymnasium's Taxi-v4)",
        options: "masked = true",
    },
    NamedEnvironment {
        name: "vertex-cover",
        about: "Choose a smallest vertex cover of a graph, a node at a step",
        options: GRAPH_OPTIONS,
    },
];

/// What a vector is made of, beside the environment.
#[derive(Clone, Copy)]
struct Making<'a> {
    name: &'a str,
    options: &'a EnvironmentOptions,
    n_environments: usize,
    autoreset: Autoreset,
}

type Boxed = Box<dyn VectorEnvironment>;

/// Makes a vector of an environment of [`ENVIRONMENTS`].
///
/// ```
/// use shardgraph_environments::{Autoreset, named_environment};
///
/// let games = named_environment("breakout", &Default::default(), 16, Autoreset::SameStep)?;
/// assert_eq!(games.observations().len(), 16 * 10 * 10 * 4);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
///
/// # Errors
/// When there is no environment of this name, it has no such option, an option is out of range, or
/// `n_environments` is 0 or does not fit 32 bits.
pub fn named_environment(
    name: &str,
    options: &EnvironmentOptions,
    n_environments: usize,
    autoreset: Autoreset,
) -> Result<Boxed, Error> {
    let making = Making {
        name,
        options,
        n_environments,
        autoreset,
    };
    match name {
        "acrobot" => making.plain(Acrobot, Some(500)),
        "asterix" => making.game::<Asterix>(),
        "breakout" => making.game::<Breakout>(),
        "cartpole" => {
            making.options::<NoOptions>()?;
            Ok(Box::new(CartPoles::new(n_environments, autoreset)?))
        }
        "cliff-walking" => making.plain(CliffWalking, Some(500)),
        "clique" => making.graph_problem(&MAXIMUM_CLIQUE),
        "cut" => making.graph_problem(&MAXIMUM_CUT),
        "dominating-set" => making.graph_problem(&MINIMUM_DOMINATING_SET),
        "freeway" => making.game::<Freeway>(),
        "frozen-lake" => making.lake(),
        "independent-set" => making.graph_problem(&MAXIMUM_INDEPENDENT_SET),
        "mountain-car" => making.plain(MountainCar, Some(200)),
        "mountain-car-continuous" => making.plain(MountainCarContinuous, Some(999)),
        "pendulum" => making.plain(Pendulum, Some(200)),
        "placement" => {
            let placement = PlacementEnvironment::new(&making.options()?)?;
            making.vector(placement, None)
        }
        "seaquest" => making.game::<Seaquest>(),
        "space-invaders" => making.game::<SpaceInvaders>(),
        "taxi" => making.vector(making.options::<Taxi>()?, Some(200)),
        "vertex-cover" => making.graph_problem(&MINIMUM_VERTEX_COVER),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    let names: Vec<&str> = ENVIRONMENTS.iter().map(|known| known.name).collect();
    Error::mismatch(
        "named_environment",
        "environment",
        names.join(", "),
        name.to_owned(),
    )
}

/// Options of a graph problem.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GraphOptions {
    graphs: String,
    invalid_actions: InvalidActions,
}

impl Default for GraphOptions {
    fn default() -> GraphOptions {
        GraphOptions {
            graphs: "er:20:0.15".to_owned(),
            invalid_actions: InvalidActions::Masked,
        }
    }
}

/// An environment without options refuses every one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

impl Making<'_> {
    fn options<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let given = self.options.clone().into_iter().collect();
        serde_json::from_value(Value::Object(given))
            .map_err(|error| self.refused(&error.to_string()))
    }

    fn refused(&self, given: &str) -> Error {
        let known = ENVIRONMENTS.iter().find(|known| known.name == self.name);
        let expected = match known.map_or("", |known| known.options) {
            "" => "none".to_owned(),
            options => options.to_owned(),
        };
        Error::mismatch("named_environment", "options", expected, given.to_owned())
    }

    fn vector<E>(&self, environment: E, step_limit: Option<u32>) -> Result<Boxed, Error>
    where
        E: FunctionalEnvironment + 'static,
    {
        let (n, autoreset) = (self.n_environments, self.autoreset);
        let vector = FunctionalVector::new(environment, n, autoreset, step_limit)?;
        Ok(Box::new(vector))
    }

    fn plain<E>(&self, environment: E, step_limit: Option<u32>) -> Result<Boxed, Error>
    where
        E: FunctionalEnvironment + 'static,
    {
        self.options::<NoOptions>()?;
        self.vector(environment, step_limit)
    }

    /// A graph problem; where invalid actions change nothing, episodes are stopped after 2 n steps.
    fn graph_problem(&self, problem: &'static Problem) -> Result<Boxed, Error> {
        let options: GraphOptions = self.options()?;
        let invalid_actions = options.invalid_actions;
        let environment = GraphEnvironment::new(problem, options.graphs.parse()?, invalid_actions)?;
        let step_limit = match invalid_actions {
            InvalidActions::Masked => None,
            InvalidActions::Ignored => Some(2 * environment.n_nodes()),
        };
        self.vector(environment, step_limit)
    }

    /// A game, stopped after as many steps as the longest of the reference's games has.
    fn game<G: Game + 'static>(&self) -> Result<Boxed, Error> {
        let options: MinAtarOptions = self.options()?;
        if !(0.0..=1.0).contains(&options.sticky_actions) {
            return Err(self.refused(&format!("sticky_actions = {}", options.sticky_actions)));
        }
        self.vector(MinAtar::<G>::new(&options), Some(GAME_LIMIT))
    }

    fn lake(&self) -> Result<Boxed, Error> {
        let options: FrozenLakeOptions = self.options()?;
        let limit = if options.side == 4 { 100 } else { 200 };
        match FrozenLake::new(&options) {
            Some(lake) => self.vector(lake, Some(limit)),
            None => Err(self.refused(&format!("side = {}: 4 and 8 have a map", options.side))),
        }
    }
}

/// Steps after which a game is stopped: Freeway's own time limit is 2,500 steps, and a policy that
/// never loses would play the others for ever.
const GAME_LIMIT: u32 = 10_000;
