//! An agent with trained weights, whichever algorithm they come of.

use std::path::Path;

use shardgraph_device::Device;

use crate::config::{AgentConfig, Algorithm};
use crate::dqn::DqnAgent;
use crate::error::Error;
use crate::policy_agent::PolicyAgent;
use crate::weights::hash_of;

/// What every agent can do: take weights, and act as well as it can.
///
/// ```
/// use shardgraph_agents::{AgentConfig, Evaluation};
/// use shardgraph_device::Device;
///
/// for name in ["cartpole-dqn", "cartpole-impala"] {
///     let mut agent = AgentConfig::named(name).unwrap().agent(&Device::host())?;
///     let untrained = Evaluation::play(agent.as_mut(), 20, 1)?;
///     assert!(untrained.mean_return() < 200.0);
/// }
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
pub trait Agent {
    /// Gets ready for the first steps of episodes in so many environments; what it remembers of others is forgotten.
    ///
    /// # Errors
    /// When there are none and the agent has a policy, or the device refuses.
    fn begin_episodes(&mut self, n_environments: usize) -> Result<(), Error>;

    /// The best action for each observation, into `actions`: the one of the largest value, or the likeliest one; the first of several.
    ///
    /// # Shapes
    /// `observations` holds a row for each environment, as many as [`Agent::begin_episodes`] was told.
    /// # Errors
    /// When they have another length, one is not finite, or the weights give numbers that are not.
    fn act_greedily(&mut self, observations: &[f32], actions: &mut Vec<u32>) -> Result<(), Error>;

    /// The trained weights, one parameter behind the other.
    fn weights(&self) -> &[f32];

    /// Takes other weights, as [`Agent::weights`] gives them.
    ///
    /// # Errors
    /// When their number differs, or one is not finite; the agent stays as it was.
    fn set_weights(&mut self, weights: &[f32]) -> Result<(), Error>;

    /// Writes the weights as a safetensors file, atomically; tensors have the names of their scopes.
    ///
    /// # Errors
    /// When the file cannot be written.
    fn export(&self, path: &Path) -> Result<(), Error>;

    /// Reads weights that a run of the same settings wrote.
    ///
    /// # Errors
    /// When the file cannot be read, is of another version, or has weights of other names or shapes, or some that are not finite. The
    /// agent stays as it was.
    fn import(&mut self, path: &Path) -> Result<(), Error>;

    /// A hash of the weights' bits: the XXH3 hash of their little-endian bytes.
    fn weights_hash(&self) -> u64 {
        hash_of(self.weights())
    }
}

impl AgentConfig {
    /// The agent of these settings, with its first weights.
    ///
    /// # Errors
    /// When a setting cannot be right, or the device refuses.
    ///
    /// An example is at [`Agent`].
    pub fn agent(&self, device: &Device) -> Result<Box<dyn Agent>, Error> {
        Ok(match &self.algorithm {
            Algorithm::Dqn(_) | Algorithm::Apex(_) => Box::new(DqnAgent::of_config(self, device)?),
            Algorithm::Impala(_) | Algorithm::Reinforce(_) => {
                Box::new(PolicyAgent::of_config(self, device)?)
            }
        })
    }
}

/// The first of the largest values.
pub(crate) fn first_best(values: &[f32]) -> u32 {
    let mut best = 0;
    for (action, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = action;
        }
    }
    best as u32
}
