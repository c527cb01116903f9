//! R-GCN: classes of nodes and links between them, on graphs whose edges have relations.
//!
//! ```text
//! import, generate -> RelationalGraph, Labels, LinkData
//!   partition: Pairs -> Partition -> Loads    plan: Plan (costs, bytes, messages; nothing runs)
//!   layer: passes of a layer on one rank      model: Layout -> Network (forward, loss, backward)
//!   kernels, device: the same network in the memory of a GPU
//!     train -> Outcome (Evaluation)           train_links -> LinkOutcome (LinkScores)
//!     predict, evaluate, SavedLinks: models read back from the folder of a run
//! ```
//!
//! No weight matrix of a relation is ever built, unless [`Execution::Paper`] asks for it as a
//! baseline.
//!
//! ```
//! use shardgraph_rgcn::{Config, Labels, RelationalGraph, RunOptions, train};
//!
//! let graph = RelationalGraph::new(4, 1, vec![0, 1], vec![0, 0], vec![2, 3])?.with_inverses()?;
//! let labels = Labels::new(2, vec![(0, 0), (1, 1)], vec![], vec![])?;
//! let outcome = train(&graph, &labels, &Config::default(), &RunOptions::default(), &mut |_| ())?;
//! assert_eq!(outcome.evaluation.train.n_right, 2);
//! # Ok::<(), shardgraph_rgcn::Error>(())
//! ```

#![deny(unsafe_code)]

mod config;
mod data;
mod device;
mod error;
mod graph;
#[expect(unsafe_code, reason = "launches of kernels")]
mod kernels;
mod layer;
mod links;
mod memory;
mod model;
pub mod partition;
pub mod plan;
mod size;
mod train;

pub use config::{ClassWeights, Config, Mode, Normaliser, Optimiser, Preset, Sums};
pub use data::features::{Features, read_features};
pub use data::labels::Labels;
pub use data::{generate, import};
pub use error::Error;
pub use graph::{Edge, MAX_NODES, RelationalGraph};
pub use links::config::{LinkConfig, LinkDecoder, LinkLoss};
pub use links::data::{LinkData, Overlap};
pub use links::options::LinkOptions;
pub use links::ranking::LinkScores;
pub use links::run::{LinkOutcome, train_links};
pub use links::saved::{Completion, LinkVectors, Question, SavedLinks};
pub use links::state::target_link_epochs;
pub use links::trainer::LinkReport;
pub use shardgraph_metrics::RankScores;
pub use train::{
    DeviceMemory, EpochReport, Evaluation, Execution, MAX_RANKS, NodeUnits, Outcome, Prediction,
    RankTime, RelationalClassifier, RunOptions, SetScores, ValidScores, class_names, evaluate,
    hidden_units, predict, predict_probabilities, relation_names, run_config, target_epochs, train,
    train_as_rank,
};
