//! Batch and time ranks: spaces with a batch, a time, or both in front of them.

use serde::{Deserialize, Serialize};

use super::Space;

/// The outer one of the two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Major {
    /// Steps of time, each with a batch: `[T, B, ..]`.
    Time,
    /// Sequences, each with steps of time: `[B, T, ..]`.
    Batch,
}

/// The ranks in front of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ranks {
    /// True if there is a batch.
    pub batch: bool,
    /// The time, if there is one, with the outer rank where there is a batch too.
    pub time: Option<Major>,
}

/// A space with ranks in front of it: what a component's input is.
///
/// ```
/// use shardgraph_environments::space::{Major, RankedSpace, Space};
///
/// let observation = RankedSpace::new(Space::boxed(&[4], -1.0, 1.0)?);
/// assert_eq!(observation.leading_shape(8, 32), [0; 0]);
/// let sequences = observation.with_batch().with_time(Major::Time);
/// assert_eq!(sequences.leading_shape(8, 32), [8, 32]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedSpace {
    /// The space of the value in each place.
    pub space: Space,
    /// The ranks.
    #[serde(default)]
    pub ranks: Ranks,
}

impl RankedSpace {
    /// One value of `space`, without ranks.
    pub fn new(space: Space) -> RankedSpace {
        RankedSpace {
            space,
            ranks: Ranks::default(),
        }
    }

    /// The same with a batch.
    pub fn with_batch(mut self) -> RankedSpace {
        self.ranks.batch = true;
        self
    }

    /// The same with a time.
    pub fn with_time(mut self, major: Major) -> RankedSpace {
        self.ranks.time = Some(major);
        self
    }

    /// The extents of the ranks that there are, the outer one first.
    pub fn leading_shape(&self, n_steps: usize, batch_size: usize) -> Vec<usize> {
        match (self.ranks.time, self.ranks.batch) {
            (None, false) => vec![],
            (None, true) => vec![batch_size],
            (Some(_), false) => vec![n_steps],
            (Some(Major::Time), true) => vec![n_steps, batch_size],
            (Some(Major::Batch), true) => vec![batch_size, n_steps],
        }
    }
}
