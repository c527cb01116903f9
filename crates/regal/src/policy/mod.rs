//! A policy: a network that reads a problem and proposes distributions for the keys of its ops.

mod actions;
mod config;
mod crossover;
mod file;
mod network;

use std::path::Path;

use shardgraph_components::Initialiser;
use shardgraph_components::autodiff::Params;
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::environments::space::Value;
use shardgraph_costgraph::Problem;
use shardgraph_random::KeyedRng;

use crate::error::Error;
use crate::features::Features;
use crate::search::Proposals;

pub(crate) use actions::Actions;
pub use config::{ActionSet, EncoderShape, PolicyConfig, Preset};
pub(crate) use network::{BaselineNetwork, Contexts, Logits, PolicyNetwork};

/// What [`Policy::shipped`] gives, by name.
const SHIPPED: [(&str, &[u8]); 3] = [
    (
        "runtime",
        include_bytes!("../../policies/runtime.safetensors"),
    ),
    (
        "low-budget",
        include_bytes!("../../policies/low-budget.safetensors"),
    ),
    (
        "memory",
        include_bytes!("../../policies/memory.safetensors"),
    ),
];

/// A policy with its weights.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, ModelOptions, Objective, Problem, generate};
/// use shardgraph_regal::{PlaceOptions, Policy, PolicyConfig, Preset, features, search};
///
/// let graph = generate::synthetic(&generate::Synthetic::default(), 7, 0)?;
/// let problem = Problem::new(&graph, &DeviceSet::uniform(2, None)?, Objective::Runtime, ModelOptions::default())?;
/// let policy = Policy::untrained(PolicyConfig::preset(Preset::Synthetic), 1)?;
/// let options = PlaceOptions { evaluations: 600, decoder: Some(policy.config().decoder), ..PlaceOptions::default() };
/// let features = features(&problem, &options, 400)?;
/// let proposals = policy.propose(&problem, &features, 1)?;
/// assert_eq!(proposals.choices.len(), problem.n_keys());
/// assert_eq!(search(&problem, &options, Vec::new(), Some(proposals))?.evaluations, 600);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    config: PolicyConfig,
    network: PolicyNetwork,
    params: Params,
    /// Where it comes from, for messages.
    source: String,
    /// The device of the network.
    device: Device,
}

impl Policy {
    /// A policy before its training.
    ///
    /// # Errors
    /// `Policy` for a config that cannot be right.
    pub fn untrained(config: PolicyConfig, seed: u64) -> Result<Policy, Error> {
        config.check()?;
        let mut params = Params::new();
        let initialiser = Initialiser {
            seed,
            ..Initialiser::default()
        };
        Ok(Policy {
            network: PolicyNetwork::build(&mut params, &config, initialiser)?,
            config,
            params,
            source: format!("untrained, seed {seed}"),
            device: Device::host(),
        })
    }

    /// Reads a policy's file.
    ///
    /// # Errors
    /// `Io` where it cannot be read, `Policy` where it is none, is of another version, or its weights are not those of its config.
    pub fn read(path: &Path) -> Result<Policy, Error> {
        file::read(path)
    }

    /// A policy that comes with the program, for two devices and transfers that take no time: `runtime`, `low-budget` (the runtime by less than
    /// some 1000 evaluations, where no cheap schedules are among the first chromosomes) or `memory`; none for another name. `docs/method/regal.md` has
    /// the commands that made them.
    ///
    /// # Errors
    /// None that a test would not find.
    pub fn shipped(name: &str) -> Option<Result<Policy, Error>> {
        let (_, bytes) = SHIPPED.into_iter().find(|(of, _)| *of == name)?;
        Some(file::of_bytes(bytes, name))
    }

    /// That which comes with the program under this name; if none does, that of the file.
    ///
    /// # Errors
    /// As [`Policy::read`].
    pub fn named(name: &Path) -> Result<Policy, Error> {
        let shipped = name.to_str().and_then(Policy::shipped);
        shipped.unwrap_or_else(|| Policy::read(name))
    }

    /// The same policy, whose network computes on this device: logits are the host's to rounding.
    #[must_use]
    pub fn on_device(mut self, device: &Device) -> Policy {
        self.device = device.clone();
        self
    }

    /// Writes it as one safetensors file, atomically, with the config in the header.
    ///
    /// # Errors
    /// `Io` where the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        file::write(self, path)
    }

    /// What it is.
    #[must_use]
    pub fn config(&self) -> &PolicyConfig {
        &self.config
    }

    /// A hash of the weights' bits: equal runs of training end with equal ones.
    #[must_use]
    pub fn weights_hash(&self) -> u64 {
        shardgraph_storage::hash_numbers(self.params.flat().iter().copied())
    }

    /// Refuses a problem that it is not for.
    ///
    /// # Errors
    /// `Policy`, naming the policy, what it is for and what was asked for.
    pub fn check(&self, problem: &Problem<'_>) -> Result<(), Error> {
        let config = &self.config;
        if config.n_devices != problem.n_devices() {
            return Err(Error::policy(format!(
                "{}: the policy is for {} devices, and {} are asked for: train one for them",
                self.source,
                config.n_devices,
                problem.n_devices()
            )));
        }
        if config.features.objective() != problem.objective() {
            let asked = crate::features::FeatureSet::of(problem.objective());
            return Err(Error::policy(format!(
                "{}: the policy reads the features for the {}, and what is to be minimised is the {}: take a policy for that",
                self.source,
                config.features.name(),
                asked.name()
            )));
        }
        Ok(())
    }

    /// Draws proposals for a problem from the features of a short search on it.
    ///
    /// # Errors
    /// As [`Policy::check`]; `Policy` for features of another problem, and where the network gives no finite numbers.
    ///
    /// # Determinism
    /// Equal seeds draw the same.
    ///
    /// # Complexity
    /// A pass of the network over ops and uses, and a table for each distribution that no earlier proposals of this policy
    /// had, less than a tenth of a millisecond each.
    pub fn propose(
        &self,
        problem: &Problem<'_>,
        features: &Features,
        seed: u64,
    ) -> Result<Proposals, Error> {
        let decided = self.decide(problem, features, seed)?;
        let space = self.network.actions();
        let mut proposals = space.proposals(&space.choices(problem, &decided.actions, 0))?;
        proposals.rho = decided.rho;
        Ok(proposals)
    }

    /// What [`Policy::propose`] decides with this seed, as levels, before it is made into distributions: to see what a policy does.
    ///
    /// # Errors
    /// As [`Policy::propose`].
    pub fn decisions(
        &self,
        problem: &Problem<'_>,
        features: &Features,
        seed: u64,
    ) -> Result<Decisions, Error> {
        let Decided {
            actions,
            rho,
            logits,
        } = self.decide(problem, features, seed)?;
        let space = self.network.actions();
        let key = |heads: &[Vec<u32>]| -> Vec<[u32; 2]> {
            let [means, variances] = heads else {
                return Vec::new();
            };
            means.iter().zip(variances).map(|(&m, &v)| [m, v]).collect()
        };
        let mut keys: Vec<Vec<[u32; 2]>> = actions.chunks_exact(2).map(key).collect();
        let priorities = match self.config.actions.has_scheduling() {
            true => keys.pop(),
            false => None,
        };
        Ok(Decisions {
            affinities: keys,
            priorities,
            entropy: space.entropy(&logits),
            rho,
        })
    }

    /// The decisions about a problem, and the logits that those about its ops were drawn from.
    fn decide(
        &self,
        problem: &Problem<'_>,
        features: &Features,
        seed: u64,
    ) -> Result<Decided, Error> {
        self.check(problem)?;
        self.check_features(problem, features)?;
        let space = self.config.space()?;
        let contexts = Contexts::new(&space, &[features.read()])?;
        let (logits, of_graph) = self
            .network
            .logits_of(&self.device, &self.params, &contexts)?;
        if logits.iter().chain(&of_graph).any(|x| !x.is_finite()) {
            return Err(Error::policy(format!(
                "{}: with these weights the logits of {} are not finite: the policy's training has diverged, or its file is damaged",
                self.source,
                problem.graph().name()
            )));
        }
        let mut stream = KeyedRng::new(seed, "regal proposals", 0);
        let actions = self.network.actions().sample(&logits, &mut stream)?;
        let rho = match self.network.crossover() {
            None => None,
            Some(crossover) => {
                let levels = crossover.sample(&of_graph, &mut stream)?;
                levels.first().map(|&level| crossover.rho(level))
            }
        };
        Ok(Decided {
            actions,
            rho,
            logits,
        })
    }

    /// Refuses features of another problem.
    fn check_features(&self, problem: &Problem<'_>, features: &Features) -> Result<(), Error> {
        let graph = problem.graph();
        let Value::Graph(value) = &features.value else {
            return Err(Error::policy("the features are no graph"));
        };
        let (n_ops, n_uses) = (graph.n_ops(), graph.n_uses());
        if value.n_nodes as usize != n_ops || value.edges.len() != n_uses {
            return Err(Error::policy(format!(
                "the features are those of {} ops and {} uses, and the problem has {n_ops} and {n_uses}: make them of this problem",
                value.n_nodes,
                value.edges.len()
            )));
        }
        let n_expected = self.config.n_node_features();
        if value.node_features.len() != n_ops * n_expected {
            return Err(Error::policy(format!(
                "{}: the policy reads {n_expected} features of an op: make them with its config's `features_of`",
                self.source
            )));
        }
        if features.order != graph.topological_order() {
            let message = "the features have another order of the ops than the problem: make them of this problem";
            return Err(Error::policy(message));
        }
        Ok(())
    }

    /// The same network with these weights, which must be as many.
    pub(crate) fn with_weights(mut self, weights: &[f32], source: &str) -> Result<Policy, Error> {
        self.params.set_flat(weights)?;
        source.clone_into(&mut self.source);
        Ok(self)
    }

    /// Where it comes from, for messages.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }
}

/// Levels of the mean and of the variance, as [`shardgraph_brkga::Beta::quantised`] has them, for each op's keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    /// For each device those of every op's affinity to it; none where affinities are not proposed for.
    pub affinities: Vec<Vec<[u32; 2]>>,
    /// Those of every op's priority, where priorities are proposed for.
    pub priorities: Option<Vec<[u32; 2]>>,
    /// The entropy of the distributions that the decisions about an op were drawn from, in nats: their sum, averaged over ops.
    pub entropy: f64,
    /// The probability that a child takes a key from its elite parent, where that is proposed.
    pub rho: Option<f64>,
}

/// The decisions about a problem.
struct Decided {
    actions: Actions,
    rho: Option<f64>,
    /// Those of ops.
    logits: Vec<f32>,
}

#[cfg(test)]
mod tests;
