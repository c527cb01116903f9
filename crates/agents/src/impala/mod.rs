//! IMPALA: actors send trajectories, one learner corrects for the age of the policy that made them (Espeholt et al. 2018).
//!
//! [`Actor`](actor::Actor) and [`Learner`](learner::Learner) compute and know nothing of messages. [`lock_step`] calls one of each in turn;
//! `ranks` puts each on a rank of its own, behind messages.

mod actor;
mod checkpoint;
mod config;
mod learner;
pub(crate) mod lock_step;
pub(crate) mod ranks;
mod tag;
mod trajectory;

#[cfg(test)]
mod tests;

pub use config::ImpalaConfig;
