//! Training of a policy by REINFORCE: problems in, what the genetic algorithm makes of sampled proposals as reward, a policy out.

mod config;
mod instance;
mod loss;
mod queue;
mod run;
mod settings;
mod trainer;

#[cfg(test)]
mod tests;

pub use config::TrainConfig;
pub use run::{TrainOptions, TrainOutcome, config_of_run, train, train_as_rank};
pub use trainer::{StepReport, Trainer};
