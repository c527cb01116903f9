//! Deep Q-learning: settings, agent, training loop, and the loop's state in a checkpoint.

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
pub use trainer::{DqnTrainer, StepReport};
pub use update::Update;
