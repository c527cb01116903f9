//! The loop of job, whose steps are the epochs of a model for classes or links: ranks have parts of it, and the last checkpoint is the result.

use std::path::Path;

use serde::Serialize;
use shardgraph_job::{Checkpoint, LoopOptions, Ranks, RunRecorder};

use crate::Error;
use crate::model::comm::RankComm;

/// A model that learns in epochs.
pub(crate) trait EpochTrainer {
    /// The report of an epoch; a line of the metrics.
    type Report: Serialize + Copy;

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

/// A model at an epoch of its run.
struct Epochs<'t, T> {
    trainer: &'t mut T,
    n_done: u32,
    exchange_s: f64,
}

impl<T: EpochTrainer> Epochs<'_, T> {
    /// Does something with the other ranks, whose time counts as exchange.
    fn with_ranks<R>(
        &mut self,
        ranks: &mut Ranks<'_>,
        run: impl FnOnce(&mut T, &mut RankComm<'_>) -> R,
    ) -> R {
        let mut ranks = RankComm::new(ranks.comm, ranks.timeout);
        let result = run(self.trainer, &mut ranks);
        self.exchange_s += ranks.exchange_s;
        result
    }
}

impl<T: EpochTrainer> shardgraph_job::Trainer for Epochs<'_, T> {
    type Report = T::Report;
    type Error = Error;

    fn step(&self) -> u64 {
        self.n_done.into()
    }

    fn is_over(&self, until: u64) -> bool {
        self.step() >= until || self.trainer.is_stopped()
    }

    fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<T::Report, Error> {
        let epoch = self.n_done;
        let report = self.with_ranks(ranks, |trainer, ranks| trainer.epoch(epoch, ranks))?;
        self.n_done += 1;
        Ok(report)
    }

    fn record(&mut self, report: &T::Report, recorder: &mut RunRecorder) -> Result<(), Error> {
        Ok(recorder.append(report, &T::scalars(report))?)
    }

    fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        let n_done = self.n_done;
        self.with_ranks(ranks, |trainer, ranks| {
            trainer.check_finite(ranks)?;
            trainer.checkpoint(n_done, ranks)
        })
    }

    fn end(&mut self, ranks: &mut Ranks<'_>) -> Result<(), Error> {
        self.with_ranks(ranks, |trainer, ranks| trainer.check_finite(ranks))
    }
}

/// Runs the epochs from `begin` on; their reports. None where no epoch is wanted any more.
pub(crate) fn run<T: EpochTrainer>(
    trainer: &mut T,
    begin: u32,
    options: LoopOptions,
    mut recorder: Option<RunRecorder>,
    ranks: &mut RankComm<'_>,
    progress: &mut dyn FnMut(&T::Report),
) -> Result<Vec<T::Report>, Error> {
    let mut epochs = Epochs {
        trainer,
        n_done: begin,
        exchange_s: 0.0,
    };
    let mut reports = Vec::new();
    let mut on_report = |report: &T::Report| {
        progress(report);
        reports.push(*report);
    };
    let all = &mut Ranks::new(ranks.comm, ranks.deadline);
    shardgraph_job::run(&mut epochs, all, recorder.as_mut(), options, &mut on_report)?;
    ranks.exchange_s += epochs.exchange_s;
    Ok(reports)
}
