//! Shared parts of all long jobs: the loop of steps, the run's folder, checkpoints, metrics, a world
//! of ranks, settings files.
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
//! A whole run, and its continuation to a later step ([`Folder`] has an example of a folder alone):
//!
//! ```
//! use shardgraph_job::{
//!     Checkpoint, CheckpointSchedule, Error, LoopOptions, Ranks, RunPlace, RunRecorder, Trainer, World, run,
//! };
//! use std::path::Path;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Sum { step: u64, sum: u64 }
//!
//! impl Trainer for Sum {
//!     type Report = u64;
//!     type Error = Error;
//!     fn step(&self) -> u64 {
//!         self.step
//!     }
//!     fn advance(&mut self, _: &mut Ranks<'_>) -> Result<u64, Error> {
//!         self.step += 1;
//!         self.sum += self.step;
//!         Ok(self.sum)
//!     }
//!     fn record(&mut self, sum: &u64, recorder: &mut RunRecorder) -> Result<(), Error> {
//!         recorder.append(self, &[("train/sum", *sum as f32)])
//!     }
//!     fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
//!         let mut checkpoint = Checkpoint::new(self.step);
//!         checkpoint.add_json("run.json", 1, self)?;
//!         Ok(ranks.is_first().then_some(checkpoint))
//!     }
//!     fn params_hash(&self) -> Option<u64> {
//!         Some(self.sum)
//!     }
//!     fn write_results(&self, _: &Path) -> Result<(), Error> {
//!         Ok(())
//!     }
//! }
//!
//! # let scratch = tempfile::tempdir().unwrap();
//! let go = |until: u64, resume: bool| {
//!     let place = RunPlace {
//!         folder: Some(scratch.path().join("run")),
//!         resume,
//!         files: &["run.json"],
//!         results: &[],
//!     };
//!     World::Threads(2).run(Default::default(), |ranks| {
//!         let new = |_: &mut Ranks<'_>| Ok(Sum { step: 0, sum: 0 });
//!         let (mut sum, folder) = place.load(ranks, new, |_, old| old.json("run.json", 1))?;
//!         let mut recorder = place.open(ranks, folder)?;
//!         let schedule = Some(CheckpointSchedule::every_steps(10));
//!         run(&mut sum, ranks, recorder.as_mut(), LoopOptions { until, schedule }, &mut |_| ())?;
//!         Ok::<_, Error>(sum.sum)
//!     })
//! };
//! assert_eq!(go(40, false)?, 820);
//! assert_eq!(go(100, true)?, 5050);
//! # Ok::<(), Error>(())
//! ```
#![forbid(unsafe_code)]

mod checkpoint;
mod error;
mod events;
mod folder;
mod manifest;
mod memory;
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
pub use memory::{Array, Bytes, Held, Memory};
pub use metrics::{Metrics, read_lines, wall_time};
pub use recorder::RunRecorder;
pub use run::{LoopOptions, RunPlace, TakenFolder, Trainer, check_until, run};
pub use schedule::CheckpointSchedule;
pub use settings::{read_settings, settings_from_text};
pub use tensors::Tensors;
pub use world::{Ranks, World};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
