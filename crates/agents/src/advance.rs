//! What the smallest part of a run did.

use crate::episodes::Episode;

/// Some steps, and the updates that were due then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Advance {
    pub(crate) n_steps: u64,
    /// How many updates old the weights were that acted, where they can be old.
    pub(crate) lag: Option<u64>,
    pub(crate) episodes: Vec<Episode>,
    /// The probability of random actions, where there are any.
    pub(crate) epsilon: Option<f32>,
    /// A line of losses for each update that the metrics tell of.
    pub(crate) losses: Vec<Vec<(&'static str, f32)>>,
    /// Actors and shards that were lost.
    pub(crate) lost: Vec<String>,
}
