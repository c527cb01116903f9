//! Ape-X: one learner, the shards of a prioritised replay memory, and actors that fill it, each at its own pace (Horgan et al. 2018).
//!
//! [`Actor`](actor::Actor), [`Shard`](shard::Shard) and [`Learner`](learner::Learner) compute and know nothing of messages.
//! [`lock_step`] calls one of each in turn; `ranks` puts each on a rank of its own, behind messages.

mod actor;
mod checkpoint;
mod config;
mod learner;
mod limiter;
pub(crate) mod lock_step;
mod message;
pub(crate) mod ranks;
mod shard;

#[cfg(test)]
mod tests;

pub use config::{ApexConfig, ApexReplayConfig};
