//! What Ape-X and IMPALA share: messages as bytes, a place to send and receive them with a deadline on every wait, and how far the
//! weights that actors act by lie behind the learner's.

mod lag;
mod port;
mod wire;

pub use lag::PolicyLag;
pub(crate) use port::{Port, learner_lost};
pub(crate) use wire::{Reader, Writer};

/// The rank of the learner in every topology.
pub(crate) const LEARNER: u32 = 0;
