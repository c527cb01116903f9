//! What Ape-X and IMPALA share: messages as bytes, a place to send and receive them with a deadline on every wait, the learner's books,
//! and how far the weights that actors act by lie behind the learner's.

mod actors;
mod books;
mod farewell;
pub(crate) mod lag;
mod learner_group;
mod outcome;
mod port;
mod run;
mod threads;
mod to_learner;
mod weights;
pub(crate) mod wire;

pub(crate) use actors::Actors;
pub(crate) use books::Books;
pub use lag::PolicyLag;
pub(crate) use learner_group::{LearnerGroup, LearnerState, Replica};
pub use outcome::TopologyOutcome;
pub(crate) use port::{LEARNER, Port, common_tag, learner_lost, learner_refused};
pub(crate) use run::{Topology, TopologyRun};
pub(crate) use to_learner::ToLearner;
pub(crate) use weights::{PresentWeights, VersionedWeights};

#[cfg(test)]
pub(crate) use {
    port::fault,
    threads::{outcome_of, ports, run_ranks},
};
