//! Proximal policy optimisation: settings, blocks of environments, and the training loop over ranks.

mod advantages;
mod block;
mod checkpoint;
mod config;
mod trainer;
mod update;

#[cfg(test)]
mod tests;

pub use config::PpoConfig;
pub(crate) use trainer::PpoTrainer;
