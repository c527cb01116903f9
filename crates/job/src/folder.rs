//! A run's folder, held by one process.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use shardgraph_storage::{FolderLock, remove_leftovers};

use crate::{Checkpoint, Error, Metrics, manifest};

/// A run's folder, held against other processes for as long as this value lives.
///
/// In it are `checkpoint-<step>/`, `metrics.jsonl`, `events.out.tfevents.<seconds>.<host>`, and what the job itself puts there.
/// Holding works on Unix, where the folder itself carries the lock; elsewhere nothing is held.
///
/// ```
/// use shardgraph_job::{Checkpoint, Folder};
/// #[derive(serde::Serialize)]
/// struct Report { step: u64, loss: f32 }
///
/// # let scratch = tempfile::tempdir().unwrap();
/// # let path = scratch.path().join("run");
/// let files = &["run.json"]; // what each checkpoint has; beside them, what the run leaves at its end
/// let folder = Folder::of_new_run(&path, files, &["policy.safetensors"])?;
/// let mut metrics = folder.open_metrics(1e9)?;
/// for step in 1..=3 {
///     metrics.append(1e9 + step as f64, &Report { step, loss: 0.5 }, &[("train/loss", 0.5)])?;
///     if step == 2 {
///         let mut checkpoint = Checkpoint::new(step);
///         checkpoint.add("run.json", b"{}".to_vec())?;
///         folder.write_checkpoint(&checkpoint, &metrics)?;
///     }
/// }
/// drop((folder, metrics)); // killed here
///
/// let (folder, checkpoint) = Folder::of_old_run(&path, files)?;
/// assert_eq!(checkpoint.step(), 2);
/// folder.open_metrics(2e9)?; // without the line of step 3
/// assert_eq!(std::fs::read_to_string(path.join("metrics.jsonl")).unwrap().lines().count(), 2);
/// # Ok::<(), shardgraph_job::Error>(())
/// ```
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The files of each checkpoint.
    files: Vec<String>,
    /// The step of the checkpoint that the run goes on from.
    begun_at: Option<u64>,
    /// The step of the newest whole checkpoint: the one to fall back to while the next is young.
    newest: Cell<Option<u64>>,
    has_metrics: Cell<bool>,
    lock: FolderLock,
}

impl Folder {
    /// Makes the folder of a new run, whose checkpoints will have the files `files`, and which itself will have `results` at the end.
    ///
    /// Metrics alone are those of a run that was killed before its first checkpoint; a new run begins them again.
    ///
    /// # Errors
    /// When the folder has a run already, or a result of one, or metrics that no run wrote; where another process holds it, or it cannot be
    /// made.
    pub fn of_new_run(path: &Path, files: &[&str], results: &[&str]) -> Result<Folder, Error> {
        manifest::make_folder(path)?;
        let folder = Folder::hold(path, files)?;
        if Checkpoint::newest(path, files)?.is_some() {
            let reason = "the folder has a run already: resume it, or choose another folder";
            return Err(Error::folder(path, reason));
        }
        let is_there = |name: &&&str| fs::symlink_metadata(path.join(name)).is_ok();
        if let Some(name) = results.iter().find(is_there) {
            let reason = format!(
                "the folder has a {name}, which a new run would overwrite: choose another folder, or move the file away"
            );
            return Err(Error::folder(path, reason));
        }
        Metrics::check_new(path)?;
        Ok(folder)
    }

    /// Takes the folder of a run whose checkpoints lie elsewhere, the newest of them at `step`: metrics
    /// are cut back to it. Otherwise as [`Folder::of_new_run`].
    ///
    /// # Errors
    /// As [`Folder::of_new_run`].
    pub fn of_run_resumed_elsewhere(
        path: &Path,
        step: u64,
        results: &[&str],
    ) -> Result<Folder, Error> {
        Ok(Folder {
            begun_at: Some(step),
            ..Folder::of_new_run(path, &[], results)?
        })
    }

    /// Takes the folder of a run that goes on, and reads its newest whole checkpoint.
    ///
    /// # Errors
    /// When there is no whole checkpoint, another process holds the folder, or it cannot be read. Where all checkpoints are
    /// damaged, the error names the file of the newest that is.
    pub fn of_old_run(path: &Path, files: &[&str]) -> Result<(Folder, Checkpoint), Error> {
        let none = || {
            Error::folder(
                path,
                "there is no complete checkpoint to resume from: start a new run",
            )
        };
        if !path.is_dir() {
            return Err(none());
        }
        let mut folder = Folder::hold(path, files)?;
        let newest = Checkpoint::newest(path, files)?.ok_or_else(none)?;
        folder.begun_at = Some(newest.step());
        folder.newest = Cell::new(folder.begun_at);
        Ok((folder, newest))
    }

    /// The same folder for a run that begins again: its metrics will be empty.
    #[must_use]
    pub fn without_metrics(self) -> Folder {
        Folder {
            begun_at: None,
            ..self
        }
    }

    fn hold(path: &Path, files: &[&str]) -> Result<Folder, Error> {
        let lock = FolderLock::take(path)?;
        remove_leftovers(path);
        // A kill leaves temporary files in the checkpoint that was being written, too.
        for checkpoint in manifest::folders(path)? {
            remove_leftovers(&checkpoint);
        }
        Ok(Folder {
            path: path.to_owned(),
            files: files.iter().map(|&name| name.to_owned()).collect(),
            begun_at: None,
            newest: Cell::new(None),
            has_metrics: Cell::new(false),
            lock,
        })
    }

    /// Refuses to go on where the folder is no longer at its path: what is written there would be
    /// lost, or in a folder that is not held.
    ///
    /// # Errors
    /// [`Error::Folder`] where the folder was moved or removed, or another one has its name.
    pub fn check_place(&self) -> Result<(), Error> {
        if self.lock.is_at(&self.path) {
            return Ok(());
        }
        let reason =
            "the folder was moved or removed while the run went on: put it back, and resume it";
        Err(Error::folder(&self.path, reason))
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the metrics for appending: empty for a new run, otherwise cut back to the step of the checkpoint that it goes on
    /// from. `wall_time` is now, in seconds of the Unix epoch ([`wall_time`](crate::wall_time)).
    ///
    /// # Errors
    /// When a file cannot be read or written, or they were opened before: cutting again would lose what a checkpoint promises.
    pub fn open_metrics(&self, wall_time: f64) -> Result<Metrics, Error> {
        if self.has_metrics.replace(true) {
            let reason = "the metrics are open already: append to those";
            return Err(Error::refused("Folder::open_metrics", reason));
        }
        Metrics::open(&self.path, self.begun_at, wall_time)
    }

    /// Writes a checkpoint, which promises the metrics before it, and removes old ones.
    ///
    /// The files appear one by one, each complete, and the MANIFEST last; a kill at any moment leaves the checkpoint before. A
    /// step is written once, or again with the same bytes.
    ///
    /// # Errors
    /// When one of the folder's files is not in the checkpoint, its step is before that of the last one, or something cannot be
    /// written; as [`Folder::check_place`].
    /// # Complexity
    /// Each byte is hashed and written once; three syncs a file.
    pub fn write_checkpoint(
        &self,
        checkpoint: &Checkpoint,
        metrics: &Metrics,
    ) -> Result<(), Error> {
        metrics.sync()?;
        self.write_files(checkpoint)
    }

    /// Writes a checkpoint of a run whose metrics, if there are any, are on disk.
    pub(crate) fn write_files(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        for name in &self.files {
            checkpoint.file(name).map_err(|_| {
                let reason =
                    format!("`{name}` is missing; add it, the run could not go on from here");
                Error::refused("Folder::write_checkpoint", reason)
            })?;
        }
        let (step, newest) = (checkpoint.step(), self.newest.get());
        if let Some(newest) = newest
            && step < newest
        {
            let reason =
                format!("expected a step from the last checkpoint's on, {newest}, given {step}");
            return Err(Error::refused("Folder::write_checkpoint", reason));
        }
        self.check_place()?;
        manifest::write(&self.path, checkpoint)?;
        self.newest.set(Some(step));
        // Files beside the one before are superseded.
        let fallback = newest.filter(|_| checkpoint.files_beside().is_empty());
        match newest == Some(step) {
            true => Ok(()),
            false => manifest::remove_old(&self.path, step, fallback),
        }
    }
}
