//! A run's folder: held by one process, with the metrics, the checkpoints and at last the policy.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use shardgraph_graph::write_atomic;

use super::checkpoint::{self, Checkpoint};
use super::trainer::Trainer;
use super::{StepReport, TrainConfig};
use crate::Error;

const METRICS: &str = "metrics.jsonl";

/// What `policy.json` says of the run that made a policy.
#[derive(Serialize)]
struct Provenance<'a> {
    policy: &'a crate::PolicyConfig,
    train: &'a TrainConfig,
    steps: u64,
}

/// A run's folder, held against other processes for as long as this value lives. Rank 0 alone has one.
pub(super) struct RunFolder {
    path: PathBuf,
    metrics: fs::File,
    _lock: Option<fs::File>,
}

/// A folder that is held, before its metrics are open.
pub(super) struct Held {
    path: PathBuf,
    lock: Option<fs::File>,
}

impl Held {
    /// Makes the folder of a new run.
    pub(super) fn of_new_run(path: &Path) -> Result<Held, Error> {
        fs::create_dir_all(path).map_err(Error::io(path))?;
        let held = Held::hold(path)?;
        match checkpoint::newest(path)? {
            None => Ok(held),
            Some(_) => Err(Error::input(format!(
                "{}: the folder has a run already: resume it, or choose another folder",
                path.display()
            ))),
        }
    }

    /// Takes the folder of a run that goes on, and reads its newest checkpoint.
    pub(super) fn of_old_run(path: &Path) -> Result<(Held, Checkpoint), Error> {
        let none = || {
            Error::input(format!(
                "{}: there is no complete checkpoint to resume from",
                path.display()
            ))
        };
        if !path.is_dir() {
            return Err(none());
        }
        let held = Held::hold(path)?;
        let newest = checkpoint::newest(path)?.ok_or_else(none)?;
        Ok((held, newest))
    }

    /// The folder itself carries the lock, which systems other than Unix do not have: there nothing is held.
    fn hold(path: &Path) -> Result<Held, Error> {
        let lock = if cfg!(unix) { Some(lock(path)?) } else { None };
        Ok(Held {
            path: path.to_owned(),
            lock,
        })
    }

    /// Opens the metrics for appending, cut back to the lines up to `step`.
    pub(super) fn open_metrics(self, step: u64) -> Result<RunFolder, Error> {
        let path = self.path.join(METRICS);
        let kept = match fs::read(&path) {
            Ok(bytes) => lines_up_to(&bytes, step),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io(&path)(error)),
        };
        write_atomic(&path, |out| out.write_all(&kept)).map_err(Error::io(&path))?;
        let metrics = fs::OpenOptions::new().append(true).open(&path);
        Ok(RunFolder {
            metrics: metrics.map_err(Error::io(&path))?,
            path: self.path,
            _lock: self.lock,
        })
    }
}

impl RunFolder {
    /// Appends a line to the metrics.
    pub(super) fn append(&mut self, report: &StepReport) -> Result<(), Error> {
        let mut line = serde_json::to_string(report)
            .map_err(|e| Error::internal(format!("a report without JSON form: {e}")))?;
        line.push('\n');
        let written = self.metrics.write_all(line.as_bytes());
        written.map_err(Error::io(&self.path.join(METRICS)))
    }

    /// Writes a checkpoint, which promises the metrics before it.
    pub(super) fn checkpoint(&mut self, trainer: &Trainer) -> Result<(), Error> {
        let synced = self.metrics.sync_data();
        synced.map_err(Error::io(&self.path.join(METRICS)))?;
        checkpoint::write(&self.path, trainer)
    }

    /// Writes the policy and where it comes from.
    pub(super) fn finish(&self, trainer: &Trainer) -> Result<(), Error> {
        trainer
            .policy
            .write(&self.path.join("policy.safetensors"))?;
        let provenance = checkpoint::to_json(&Provenance {
            policy: &trainer.policy.config,
            train: &trainer.config,
            steps: trainer.step,
        })?;
        let path = self.path.join("policy.json");
        write_atomic(&path, |out| writeln!(out, "{provenance}")).map_err(Error::io(&path))
    }
}

/// Holds a folder for as long as the file that is given back is open.
fn lock(folder: &Path) -> Result<fs::File, Error> {
    let file = fs::File::open(folder).map_err(Error::io(folder))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::input(format!(
            "{}: another process trains in this folder: wait for it, or choose another folder",
            folder.display()
        ))),
        Err(fs::TryLockError::Error(error)) => Err(Error::io(folder)(error)),
    }
}

/// A kill can leave lines of steps behind the checkpoint, and a torn last one.
fn lines_up_to(bytes: &[u8], step: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let report: Option<StepReport> = serde_json::from_slice(line).ok();
        if line.ends_with(b"\n") && report.is_some_and(|report| report.step <= step) {
            kept.extend_from_slice(line);
        }
    }
    kept
}
