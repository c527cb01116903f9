//! What Ape-X and IMPALA share: messages as bytes, a place to send and receive them with a deadline on every wait, the learner's books,
//! and how far the weights that actors act by lie behind the learner's.

mod actors;
mod books;
mod lag;
mod outcome;
mod port;
mod threads;
mod to_learner;
mod weights;
mod wire;

pub(crate) use actors::Actors;
pub(crate) use books::Books;
pub use lag::PolicyLag;
pub use outcome::TopologyOutcome;
pub(crate) use port::{Port, learner_lost};
pub(crate) use threads::{outcome_of, ports, run_ranks};
pub(crate) use to_learner::ToLearner;
pub(crate) use weights::{PresentWeights, read_weights};
pub(crate) use wire::{Reader, Writer, episodes_of, episodes_to};

/// The rank of the learner in every topology.
pub(crate) const LEARNER: u32 = 0;
