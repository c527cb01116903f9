//! R-GCN: node classification on graphs whose edges have relations, without ever building a weight matrix for each relation.

#![forbid(unsafe_code)]

mod config;
mod error;
mod features;
pub mod generate;
mod graph;
pub mod import;
mod labels;
mod links;
mod model;
pub mod partition;
mod size;
mod train;

pub use config::{Config, Execution, Mode, Normaliser, Optimiser, Preset, Sums};
pub use error::{Error, ErrorKind};
pub use features::{Features, read_features};
pub use graph::{Edge, MAX_NODES, RelationalGraph};
pub use labels::Labels;
pub use links::config::{LinkConfig, LinkLoss};
pub use links::data::{LinkData, Overlap};
pub use links::ranking::{LinkScores, RankScores};
pub use train::links::{Completion, LinkOptions, LinkOutcome, LinkReport, SavedLinks, train_links};
pub use train::{
    DeviceMemory, EpochReport, Evaluation, MAX_RANKS, Outcome, RunOptions, SetScores, class_names,
    evaluate, predict, run_config, train, train_as_rank,
};
