//! Shared parts of all long jobs: the loop of steps, the run's folder, checkpoints, metrics, a world of ranks, settings files.
//!
//! ```text
//! World { Threads(n) | Process(comm) } ── run ──> one Ranks a rank: agree, broadcast_checkpoint, fail_together
//! RunPlace { folder, resume, .. } ── load ──> a trainer on every rank ── open ──> RunRecorder on rank 0
//! run(trainer, ..) ── advance ─ record ─ checkpoint when CheckpointSchedule says so ── results at the end
//!
//! Folder        held by one process: checkpoint-<step>/ with a MANIFEST, metrics.jsonl, events.out.tfevents.*
//! Checkpoint    named files of one step; Tensors are its numbers
//! Metrics       JSON lines and TensorBoard events, cut back to the checkpoint on resume
//! read_settings TOML into a struct, errors with file, line and key
//! ```
//!
//! An example of a whole run is at [`run()`], one of a folder at [`Folder`].
#![forbid(unsafe_code)]

mod checkpoint;
mod error;
mod events;
mod folder;
mod manifest;
mod metrics;
mod recorder;
mod run;
mod schedule;
mod settings;
pub mod tags;
mod tensors;
mod tfrecord;
mod world;

#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use error::{Error, JobError, class_of_comm};
pub use events::{Scalar, read_scalars};
pub use folder::Folder;
pub use manifest::N_KEPT;
pub use metrics::{Metrics, wall_time};
pub use recorder::RunRecorder;
pub use run::{LoopOptions, RunPlace, TakenFolder, Trainer, check_until, run};
pub use schedule::CheckpointSchedule;
pub use settings::{read_settings, settings_from_text};
pub use tensors::Tensors;
pub use world::{Ranks, World};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
