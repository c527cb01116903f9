//! The run loop that classes and links share: epochs, metrics, checkpoints when they are due.

use std::path::Path;

use serde::Serialize;
use shardgraph_job::{Checkpoint, Folder, Metrics, wall_time};

use super::schedule::CheckpointSchedule;
use crate::Error;
use crate::model::comm::RankComm;

/// A model that learns in epochs.
pub(crate) trait Trainer {
    /// The report of an epoch; a line of the metrics.
    type Report: Serialize;

    /// Runs an epoch, counted from 0.
    fn epoch(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<Self::Report, Error>;

    /// The values of a report for TensorBoard.
    fn scalars(report: &Self::Report) -> Vec<(&'static str, f32)>;

    /// Refuses parameters that are no numbers, on all ranks alike.
    fn check_finite(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error>;

    /// True if no further epoch is wanted.
    fn is_stopped(&self) -> bool {
        false
    }

    /// The checkpoint after so many epochs, on rank 0; all ranks give their part.
    fn checkpoint(
        &mut self,
        epochs_done: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Checkpoint>, Error>;
}

/// The folder of a run that takes steps. Rank 0 alone has one.
pub(crate) struct RunFolder {
    folder: Folder,
    metrics: Metrics,
}

/// Begins a run, or goes on with that of its folder: the folder, where one is wanted, and what
/// `read` makes of the newest checkpoint.
pub(crate) fn begin<S>(
    path: Option<&Path>,
    resume: bool,
    files: &[&str],
    read: impl FnOnce(&Checkpoint, &Path) -> Result<S, Error>,
) -> Result<(Option<RunFolder>, Option<S>), Error> {
    let Some(path) = path else {
        return match resume {
            true => Err(Error::config("resume", true, "a folder to resume from")),
            false => Ok((None, None)),
        };
    };
    let (folder, state) = match resume {
        false => (Folder::of_new_run(path, files, &[])?, None),
        true => {
            let (folder, checkpoint) = Folder::of_old_run(path, files)?;
            (folder, Some(read(&checkpoint, path)?))
        }
    };
    let metrics = folder.open_metrics(wall_time())?;
    Ok((Some(RunFolder { folder, metrics }), state))
}

/// An error about the run in a folder.
pub(crate) fn refuse(path: &Path, what: &str) -> Error {
    let message = format!("{}: {what}", path.display());
    Error::new(Error::Checkpoint, message)
}

/// The newest checkpoint of a folder, which `expected` describes.
pub(crate) fn newest(path: &Path, files: &[&str], expected: &str) -> Result<Checkpoint, Error> {
    let newest = Checkpoint::newest(path, files)?;
    newest.ok_or_else(|| {
        let what = format!("there is no complete checkpoint: expected {expected}");
        refuse(path, &what)
    })
}

/// Refuses to go on to fewer epochs than are done.
pub(crate) fn check_epochs(path: &Path, n_done: u32, epochs: u32) -> Result<(), Error> {
    match n_done <= epochs {
        true => Ok(()),
        false => {
            let what = format!("{n_done} epochs are done: expected --epochs of at least as many");
            Err(refuse(path, &what))
        }
    }
}

/// Runs the epochs from `begin` on; their reports. None where no epoch is wanted any more.
pub(crate) fn run<T: Trainer>(
    trainer: &mut T,
    begin: u32,
    mut schedule: CheckpointSchedule,
    mut folder: Option<&mut RunFolder>,
    ranks: &mut RankComm<'_>,
    progress: &mut dyn FnMut(&T::Report),
) -> Result<Vec<T::Report>, Error> {
    if trainer.is_stopped() {
        return Ok(Vec::new());
    }
    // Rank 0 alone has the folder.
    let is_kept = ranks.flag_of_first(folder.is_some())?;
    let mut reports = Vec::new();
    for epoch in begin..schedule.n_epochs() {
        let report = trainer.epoch(epoch, ranks)?;
        if let Some(RunFolder { metrics, .. }) = folder.as_deref_mut() {
            metrics.append(wall_time(), &report, &T::scalars(&report))?;
        }
        progress(&report);
        reports.push(report);
        let is_last = trainer.is_stopped() || epoch + 1 == schedule.n_epochs();
        if is_kept && (is_last || schedule.is_due(epoch + 1, ranks)?) {
            schedule.write(|| {
                trainer.check_finite(ranks)?;
                let checkpoint = trainer.checkpoint(epoch + 1, ranks)?;
                if let (Some(folder), Some(checkpoint)) = (folder.as_deref_mut(), checkpoint) {
                    let RunFolder { folder, metrics } = folder;
                    folder.write_checkpoint(&checkpoint, metrics)?;
                }
                Ok(())
            })?;
        }
        if is_last {
            break;
        }
    }
    trainer.check_finite(ranks)?;
    Ok(reports)
}
