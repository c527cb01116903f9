//! Run folders of training jobs: held by one process, with checkpoints that a kill cannot break and metrics that go on as if
//! there had been none.
//!
//! The way through this crate: a [`Folder`] is taken for a new run or an old one, which gives its newest [`Checkpoint`]; steps
//! are appended to its [`Metrics`], as JSON lines and as a TensorBoard event file; and a checkpoint is a handful of named files,
//! most often [`Tensors`] and a JSON struct. What is in them is the job's own.
//!
//! An example of the whole way is at [`Folder`].
#![forbid(unsafe_code)]

mod checkpoint;
mod error;
mod events;
mod fnv;
mod folder;
mod manifest;
mod metrics;
pub mod tags;
mod tensors;
mod tfrecord;

#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use error::{Error, ErrorKind};
pub use events::{Scalar, read_scalars};
pub use fnv::fnv1a64;
pub use folder::Folder;
pub use manifest::N_KEPT;
pub use metrics::{Metrics, wall_time};
pub use tensors::Tensors;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
