//! The loop of steps of every training job, from its start or its newest checkpoint to its last step.

use std::path::{Path, PathBuf};

use crate::{Checkpoint, CheckpointSchedule, Error, Folder, JobError, Ranks, RunRecorder};

/// Part of a job that the loop of [`run()`] calls.
pub trait Trainer {
    /// Report of one advance.
    type Report;
    /// Error of the job.
    type Error: JobError;

    /// Steps taken so far.
    fn step(&self) -> u64;

    /// True if a run that goes to step `until` is over, on all ranks alike: at that step, unless the job ends before it or has
    /// something left to do there.
    fn is_over(&self, until: u64) -> bool {
        self.step() >= until
    }

    /// Takes one step, or a few that belong together.
    ///
    /// # Errors
    /// Those of the job; training ends.
    fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<Self::Report, Self::Error>;

    /// Appends a report to the metrics; called on rank 0, where the run has a folder.
    ///
    /// # Errors
    /// Those of [`RunRecorder::append`].
    fn record(
        &mut self,
        report: &Self::Report,
        recorder: &mut RunRecorder,
    ) -> Result<(), Self::Error>;

    /// State of the run: `Some` on rank 0. All ranks call it at the same step, so they may exchange parts of the state.
    ///
    /// # Errors
    /// Those of the job.
    fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Self::Error>;

    /// Called on rank 0 after a checkpoint was written into the run's folder.
    ///
    /// # Errors
    /// Those of writing.
    fn checkpoint_written(&self, folder: &Path) -> Result<(), Self::Error> {
        let _ = folder;
        Ok(())
    }

    /// Called after the last step, before the ranks compare their parameters.
    ///
    /// # Errors
    /// Those of the job.
    fn end(&mut self, ranks: &mut Ranks<'_>) -> Result<(), Self::Error> {
        let _ = ranks;
        Ok(())
    }

    /// Hash of the trained parameters, equal on all ranks; `None` where a rank has only a part of them.
    fn params_hash(&self) -> Option<u64> {
        None
    }

    /// Writes the results into the run's folder; called on rank 0 after the last step.
    ///
    /// # Errors
    /// Those of writing.
    fn write_results(&self, folder: &Path) -> Result<(), Self::Error> {
        let _ = folder;
        Ok(())
    }
}

/// End and checkpoints of a run.
#[derive(Debug)]
pub struct LoopOptions {
    /// Step to end after.
    pub until: u64,
    /// Schedule of checkpoints; `None` for a run without a folder, on all ranks alike.
    pub schedule: Option<CheckpointSchedule>,
}

/// Takes steps to the last, with metrics, checkpoints and results; all ranks end with the same parameters.
///
/// `recorder` is that of rank 0, where the run has a folder. `on_report` sees each report, on every rank.
///
/// # Errors
/// Those of the trainer, of files, and of lost ranks. Where one rank fails, all fail with its reason.
///
/// The front page of the crate has an example.
pub fn run<T: Trainer>(
    trainer: &mut T,
    ranks: &mut Ranks<'_>,
    mut recorder: Option<&mut RunRecorder>,
    options: LoopOptions,
    on_report: &mut dyn FnMut(&T::Report),
) -> Result<(), T::Error> {
    ranks.fail_together(|ranks| {
        take_steps(trainer, ranks, recorder.as_deref_mut(), options, on_report)?;
        trainer.end(ranks)
    })?;
    finish(trainer, ranks, recorder.as_deref())
}

fn take_steps<T: Trainer>(
    trainer: &mut T,
    ranks: &mut Ranks<'_>,
    mut recorder: Option<&mut RunRecorder>,
    options: LoopOptions,
    on_report: &mut dyn FnMut(&T::Report),
) -> Result<(), T::Error> {
    let LoopOptions {
        until,
        mut schedule,
    } = options;
    while !trainer.is_over(until) {
        let before = trainer.step();
        let report = trainer.advance(ranks)?;
        if let Some(recorder) = recorder.as_deref_mut() {
            trainer.record(&report, recorder)?;
        }
        on_report(&report);
        let (step, is_over) = (trainer.step(), trainer.is_over(until));
        if let Some(schedule) = &mut schedule
            && (is_over || (step < until && schedule.is_due(before, step, ranks)?))
        {
            schedule.timed(|| match (trainer.checkpoint(ranks)?, &recorder) {
                (Some(checkpoint), Some(recorder)) => {
                    recorder.write_checkpoint(&checkpoint)?;
                    trainer.checkpoint_written(recorder.path())
                }
                _ => Ok::<(), T::Error>(()),
            })?;
        }
    }
    Ok(())
}

/// Compares the parameters of all ranks, and writes the results on rank 0; no rank reports what could not be written.
fn finish<T: Trainer>(
    trainer: &T,
    ranks: &mut Ranks<'_>,
    recorder: Option<&RunRecorder>,
) -> Result<(), T::Error> {
    if let Some(hash) = trainer.params_hash() {
        let facts = [("set of parameters", hash)];
        ranks.agree(&facts).map_err(|error| match error {
            Error::Disagreement { .. } => Error::DifferentParameters,
            error => error,
        })?;
    }
    ranks.fail_together(|_| -> Result<(), T::Error> {
        if let Some(recorder) = recorder {
            recorder.check_place()?;
            trainer.write_results(recorder.path())?;
            recorder.check_place()?;
        }
        Ok(())
    })?;
    Ok(ranks.barrier()?)
}

/// Folder of a run, and whether it goes on from there.
#[derive(Clone, Debug, Default)]
pub struct RunPlace {
    /// The folder; without one, nothing is kept.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// Files of each checkpoint.
    pub files: &'static [&'static str],
    /// Files that the run leaves at its end, which no new run overwrites.
    pub results: &'static [&'static str],
}

/// Folder of a run that goes on, held on rank 0; a new run has none before [`RunPlace::open`].
#[derive(Debug)]
pub struct TakenFolder(Option<Folder>);

impl RunPlace {
    /// Makes a trainer on every rank: a new one, or that of the newest checkpoint, which rank 0 reads and sends to the others.
    ///
    /// A new run makes no folder here, so that ranks which cannot begin leave none behind.
    ///
    /// # Errors
    /// Those of `new` and `old`, on all ranks; [`Error::Folder`] where there is no checkpoint, or another process holds the
    /// folder.
    pub fn load<T, E: JobError>(
        &self,
        ranks: &mut Ranks<'_>,
        new: impl FnOnce(&mut Ranks<'_>) -> Result<T, E>,
        old: impl FnOnce(&mut Ranks<'_>, &Checkpoint) -> Result<T, E>,
    ) -> Result<(T, TakenFolder), E> {
        ranks.fail_together(|ranks| {
            if !self.resume {
                return Ok((new(ranks)?, TakenFolder(None)));
            }
            let Some(path) = self.folder.as_deref() else {
                let message = "to resume, name the run's folder";
                return Err(Error::Options(message.to_owned()).into());
            };
            let taken = ranks
                .is_first()
                .then(|| Folder::of_old_run(path, self.files));
            let (folder, newest) = taken.transpose()?.unzip();
            let checkpoint = ranks.broadcast_checkpoint(newest)?;
            Ok((old(ranks, &checkpoint)?, TakenFolder(folder)))
        })
    }

    /// Opens the recorder on rank 0, and makes the folder of a new run, once all ranks are here.
    ///
    /// # Errors
    /// As [`Folder::of_new_run`] and [`Folder::open_metrics`], on all ranks.
    pub fn open(
        &self,
        ranks: &mut Ranks<'_>,
        taken: TakenFolder,
    ) -> Result<Option<RunRecorder>, Error> {
        ranks.barrier()?;
        ranks.fail_together(|ranks| {
            let path = self.folder.as_deref().filter(|_| ranks.is_first());
            match (taken.0, path) {
                (Some(folder), _) => RunRecorder::open(folder).map(Some),
                (None, Some(path)) => {
                    let folder = Folder::of_new_run(path, self.files, self.results)?;
                    RunRecorder::open(folder).map(Some)
                }
                (None, None) => Ok(None),
            }
        })
    }
}

/// Refuses a last step before the step of a run that goes on.
///
/// # Errors
/// [`Error::Options`], with the least step that is right.
pub fn check_until(step: u64, until: u64) -> Result<(), Error> {
    match until < step {
        true => Err(Error::Options(format!(
            "the run is at step {step} already: give at least that many steps, not {until}"
        ))),
        false => Ok(()),
    }
}
