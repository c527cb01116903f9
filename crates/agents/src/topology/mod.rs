//! What Ape-X and IMPALA share: messages as bytes, a place to send and receive them with a deadline on every wait, the one
//! loop of the rank that learns, and how far the weights that actors act by lie behind the learner's.

mod actors;
mod farewell;
pub(crate) mod lag;
mod learner_group;
mod learner_rank;
mod learner_run;
mod port;
mod run;
mod threads;
mod to_learner;
mod weights;
pub(crate) mod wire;

pub use lag::PolicyLag;
pub(crate) use learner_group::{LearnerGroup, LearnerState, Replica};
pub(crate) use learner_rank::{Hub, Learning, Message};
pub(crate) use learner_run::Acted;
pub(crate) use port::{LEARNER, Port, common_tag, learner_lost, learner_refused};
pub(crate) use run::{Topology, TopologyRun};
pub(crate) use to_learner::ToLearner;
pub(crate) use weights::VersionedWeights;

#[cfg(test)]
pub(crate) use {
    port::fault,
    threads::{Ended, ports, run_ranks},
};
