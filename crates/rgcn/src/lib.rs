//! R-GCN: node classification on graphs whose edges have relations, without ever building a weight matrix for each relation.

#![forbid(unsafe_code)]

mod config;
mod error;
pub mod generate;
mod graph;
pub mod import;
mod labels;
mod model;
pub mod partition;
mod size;
mod train;

pub use config::{Config, Mode, Optimiser, Preset, Sums};
pub use error::{Error, ErrorKind};
pub use graph::{Edge, MAX_NODES, RelationalGraph};
pub use labels::Labels;
pub use train::{
    DeviceMemory, EpochReport, Evaluation, MAX_RANKS, Outcome, RunOptions, SetScores, class_names,
    evaluate, predict, train, train_as_rank,
};
