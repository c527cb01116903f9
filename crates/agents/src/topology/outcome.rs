//! What a finished run was like.

use super::lag::PolicyLag;
use crate::config::AgentConfig;

/// A finished run of Ape-X, IMPALA or REINFORCE. Counts of steps, episodes and updates are of this call: after a resume, not of those before.
#[derive(Debug, Clone)]
pub struct TopologyOutcome {
    /// The settings.
    pub config: AgentConfig,
    /// Steps of all environments of all actors.
    pub n_steps: u64,
    /// Episodes that ended.
    pub n_episodes: u64,
    /// Updates.
    pub n_updates: u64,
    /// The mean return of the run's last episodes ([`crate::N_RECENT_EPISODES`]), with Ape-X of those of the actor that explores the least; `None`
    /// where none has ended.
    pub mean_return: Option<f64>,
    /// The learned weights, one parameter behind the other.
    pub weights: Vec<f32>,
    /// How old the weights were by which the actors acted.
    pub lag: PolicyLag,
    /// The actors and shards that the run went on without: which, and why.
    pub lost: Vec<String>,
    /// Transitions that came into shards which saw the end (Ape-X).
    pub n_inserted: u64,
    /// Transitions that were drawn from them (Ape-X).
    pub n_sampled: u64,
    /// Priorities that came for transitions which were overwritten meanwhile, and changed nothing (Ape-X).
    pub n_stale: u64,
}

impl TopologyOutcome {
    /// A hash of the weights' bits: the XXH3 hash of their little-endian bytes.
    pub fn weights_hash(&self) -> u64 {
        crate::weights::hash_of(&self.weights)
    }
}
