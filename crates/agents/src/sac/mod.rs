//! Soft actor-critic: settings, agent, and what it does in the off-policy loop.

mod agent;
mod config;
mod trainer;
mod update;

#[cfg(test)]
mod tests;

pub use agent::SacAgent;
pub use config::{SacConfig, SacNetworkConfig, SacReplayConfig, TemperatureConfig};
pub(crate) use trainer::SacTrainer;
