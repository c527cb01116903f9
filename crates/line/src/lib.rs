//! LINE: an embedding of a graph's nodes from its edges, for graphs of any size, with honest measures of its quality.
//!
//! A graph is imported into a [`Store`] of p x p buckets of edges. [`train`] visits the buckets in rounds in which no part of a
//! table is in two buckets, so that threads never touch the same row: no locks, no races, and the same bits for any number of
//! threads. [`eval`] measures link prediction beside baselines that need no training, [`nodes`] what an embedding says of single
//! nodes; [`formats`] writes and reads embeddings.
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_line::{Config, NodeLabels, Store, train};
//!
//! let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]; // two triangles with a bridge
//! let store = Store::from_edges(6, &edges, 1, NodeLabels::numbers(6))?;
//! let config = Config { dim: 8, epochs: 200, ..Config::default() };
//! let trained = train(&store, &config, &Device::host(), &mut |_| {})?;
//! assert!(trained.embedding.nearest(5, 2).iter().all(|near| near.node >= 3));
//! # Ok::<(), shardgraph_line::Error>(())
//! ```

#![forbid(unsafe_code)]

mod config;
mod deal;
mod direct;
mod embedding;
mod error;
pub mod eval;
pub mod formats;
pub mod nodes;
mod schedule;
mod store;
mod train;
mod walk;

pub use config::{Config, Mode, Optimiser, Order, Precision, Preset};
pub use embedding::{Embedding, Neighbor};
pub use error::{Error, ErrorKind};
pub use schedule::Schedule;
pub use store::{
    Fed, ImportOptions, ImportProgress, ImportStage, Imported, NodeLabels, Store, import_file,
    import_scratch, import_stream,
};
pub use train::{
    DiskOptions, DiskUse, Progress, Trained, TrainedOnDisk, WorkFolderLock, WorkTime,
    check_work_folder, has_unfinished_run, lock_work_folder, train, train_on_disk,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
