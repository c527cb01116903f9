//! Soft actor-critic: settings, agent, training loop, and the loop's state in a checkpoint.

mod agent;
mod config;
mod trainer;
mod update;

#[cfg(test)]
mod tests;

pub use agent::SacAgent;
pub use config::{SacConfig, SacNetworkConfig, SacReplayConfig, TemperatureConfig};
pub(crate) use trainer::SacTrainer;
