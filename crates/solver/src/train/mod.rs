//! Parallel training of a policy by deep Q-learning (OpenGraphGym-MG, algorithm 5).
//!
//! [`train`] runs the same program on every rank, as threads, and [`train_as_rank`] as one of several processes: all ranks
//! draw the same random numbers, keep the same replay memory and take the same optimiser steps, while the rows of every
//! batch are shared out and summed exactly; so the parameters have the same bits for any number of ranks. A checkpoint
//! holds everything that a run needs to go on as if it had never stopped.

mod batch;
mod checkpoint;
mod config;
mod counted;
mod dataset;
mod folder;
mod grid;
mod initial;
mod kept;
mod learn;
mod memory;
mod picks;
mod run;
mod shaping;
mod trainer;
mod validation;

#[cfg(test)]
mod tests;

pub use checkpoint::target_steps;
pub use config::{Preset, PrioritizedConfig, TargetRule, TrainConfig};
pub use initial::InitialRule;
pub use picks::PickRule;
pub use run::{RunOptions, StepReport, TrainOutcome, train, train_as_rank};
pub use shaping::RewardRule;
pub use validation::Evaluation;
