//! LINE: an embedding of a graph's nodes from its edges, for graphs of any size.
//!
//! A graph is imported into a [`Store`] of p x p buckets of edges. [`train`] visits the buckets in
//! rounds in which no part of a table is in two buckets. So threads never touch the same row: no
//! locks, no races, and the same bits for any number of threads. [`eval`] measures link prediction
//! beside baselines that need no training, [`nodes`] classes and communities of single nodes;
//! [`formats`] writes and reads embeddings.
//!
//! ```text
//! text -> edges (Store: buckets, degrees, labels)
//!           -> schedule (Layout -> visits -> rounds -> Job -> BucketPass)
//!             -> train (PartitionBuffer, BucketScheduler, IoWorker, TableCheckpoint)
//!               -> embedding (Embedding, formats, eval, nodes)
//! ```
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_line::{Config, NodeLabels, Store, train};
//!
//! // Two triangles with a bridge.
//! let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)];
//! let store = Store::from_edges(6, &edges, 1, NodeLabels::numbers(6))?;
//! let config = Config { dim: 8, epochs: 200, ..Config::default() };
//! let trained = train(&store, &config, &Device::host(), &mut |_| {})?;
//! assert!(trained.embedding.nearest(5, 2).iter().all(|near| near.node >= 3));
//! # Ok::<(), shardgraph_line::Error>(())
//! ```

#![deny(unsafe_code)]

mod config;
mod device_memory;
mod disk_options;
mod edges;
mod embedding;
mod error;
#[expect(
    unsafe_code,
    reason = "launches of kernels, and rows that threads share"
)]
pub mod kernels;
mod memory;
mod schedule;
mod select;
mod spectral;
mod train;

pub use config::{Config, Loss, Mode, Optimiser, Order, Precision, Preset};
pub use device_memory::DeviceMemory;
pub use disk_options::DiskOptions;
pub use edges::{
    ImportOptions, ImportProgress, ImportStage, Imported, InputSummary, NodeLabels, Store,
    import_file, import_scratch, import_stream,
};
pub use embedding::{Embedding, Neighbor, eval, formats, nodes};
pub use error::Error;
pub use schedule::Schedule;
pub use select::{Baselines, Component, Fitted, Line, SelectConfig, Selection, Trial};
pub use spectral::{SpectralConfig, SpectralMatrix, spectral_embedding};
pub use train::{
    DiskRun, DiskUse, PassReport, Progress, TrainOptions, Trained, TrainedOnDisk, WorkTime,
    check_work_folder, has_unfinished_run, lock_work_folder, read_passes, train, train_on_disk,
    train_with,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
