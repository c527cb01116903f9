//! Deep Q-learning: settings, agent, and what it does in the off-policy loop.

mod agent;
mod config;
mod memory;
mod trainer;
mod update;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use agent::DqnAgent;
pub use config::{DqnConfig, ExplorationConfig, PrioritizedConfig, ReplayConfig};
pub use memory::transition_layout;
pub(crate) use memory::{Replay, column, layout_of};
pub use trainer::DqnTrainer;
pub use update::Update;
