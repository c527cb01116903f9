//! An agent with trained weights, whichever algorithm they come of.

use std::fmt;
use std::path::Path;

use shardgraph_random::KeyedRng;

use crate::error::Error;
use crate::observations::{ActionBuffer, Seen};
use crate::weights::hash_of;

/// What every agent can do: take weights, and act as well as it can.
///
/// ```
/// use shardgraph_agents::{AgentConfig, Choice, Evaluation, RunOptions};
///
/// for name in ["cartpole-dqn", "cartpole-impala"] {
///     let config = AgentConfig::named(name).unwrap();
///     let options = RunOptions::default();
///     let mut agent = config.agent(&options)?;
///     let environments = options.environments_of(&config)?;
///     let untrained = Evaluation::play(agent.as_mut(), &environments, 20, Choice::Greedy, 1)?;
///     assert!(untrained.mean_return() < 200.0);
/// }
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
pub trait Agent: fmt::Debug {
    /// Gets ready for the first steps of episodes in so many environments; what it remembers of others is forgotten.
    ///
    /// # Errors
    /// When there are none and the agent has a policy, or the device refuses.
    fn begin_episodes(&mut self, n_environments: usize) -> Result<(), Error> {
        let _ = n_environments; // most see one observation at a time
        Ok(())
    }

    /// The best action for each observation, into `actions`: of those that may be taken the one of the largest value, or the likeliest
    /// one; the first of several.
    ///
    /// # Shapes
    /// What is seen holds a row for each environment, as many as [`Agent::begin_episodes`] was told.
    /// # Errors
    /// When it has another length, an observation is not finite, or the weights give numbers that are not.
    fn act_greedily(&mut self, seen: Seen<'_>, actions: &mut ActionBuffer) -> Result<(), Error>;

    /// An action for each observation as training takes it at its end: drawn by the policy, or the best one but for some random ones.
    ///
    /// # Shapes
    /// As [`Agent::act_greedily`].
    /// # Errors
    /// As [`Agent::act_greedily`].
    fn act_sampled(
        &mut self,
        seen: Seen<'_>,
        stream: &mut KeyedRng,
        actions: &mut ActionBuffer,
    ) -> Result<(), Error>;

    /// Says that the episode of one environment has ended: its next observation is the first of another one, and nothing of before is
    /// remembered there. The others go on.
    ///
    /// # Errors
    /// When there is no such environment among those that [`Agent::begin_episodes`] was told of.
    fn end_episode(&mut self, environment: usize) -> Result<(), Error> {
        let _ = environment;
        Ok(())
    }

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
