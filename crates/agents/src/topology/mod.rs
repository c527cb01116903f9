//! What Ape-X and IMPALA share: messages as bytes, a place to send and receive them with a deadline on every wait, the learner's books,
//! and how far the weights that actors act by lie behind the learner's.

mod actors;
mod books;
mod farewell;
mod lag;
mod learner_group;
mod outcome;
mod port;
mod threads;
mod to_learner;
mod weights;
mod wire;

pub(crate) use actors::Actors;
pub(crate) use books::Books;
pub(crate) use farewell::see_off;
pub use lag::PolicyLag;
pub(crate) use learner_group::{LearnerGroup, LearnerState, Replica};
pub use outcome::TopologyOutcome;
#[cfg(test)]
pub(crate) use port::fault;
pub(crate) use port::{Port, learner_lost, learner_refused};
pub(crate) use threads::{outcome_of, ports, run_ranks};
pub(crate) use to_learner::ToLearner;
pub(crate) use weights::{PresentWeights, read_weights};
pub(crate) use wire::{
    Reader, Writer, episodes_of, episodes_to, number_from_bytes, number_to_bytes,
};

/// The rank of the learner in every topology.
pub(crate) const LEARNER: u32 = 0;

/// The kinds of messages that all topologies have; their own ones are below.
pub(crate) mod common_tag {
    /// Learner to all: it cannot go on; whether what a user gave is the reason, and the reason.
    pub(crate) const REFUSAL: u32 = 100;
    /// Learner to each, as the first: its key, which [`super::Books::arrival`] gives.
    pub(crate) const BEGIN: u32 = 101;
}
