//! The folder of a run that takes steps, with its metrics.

use std::path::Path;

use serde::Serialize;

use crate::{Checkpoint, Error, Folder, Metrics, manifest, wall_time};

/// Folder and metrics of a run, open for its steps; rank 0 alone has one.
#[derive(Debug)]
pub struct RunRecorder {
    folder: Folder,
    metrics: Option<Metrics>,
}

impl RunRecorder {
    /// Opens the metrics of a folder, cut back to the checkpoint that the run goes on from.
    ///
    /// # Errors
    /// As [`Folder::open_metrics`].
    pub fn open(folder: Folder) -> Result<RunRecorder, Error> {
        let metrics = Some(folder.open_metrics(wall_time())?);
        Ok(RunRecorder { folder, metrics })
    }

    /// Recorder of a run whose checkpoints lie in `folder`, and whose metrics lie in another.
    #[must_use]
    pub fn with_metrics(folder: Folder, metrics: Metrics) -> RunRecorder {
        let metrics = Some(metrics);
        RunRecorder { folder, metrics }
    }

    /// Gives the metrics to the recorder of another folder's checkpoints; what is appended here from then on is dropped.
    pub fn take_metrics(&mut self) -> Option<Metrics> {
        self.metrics.take()
    }

    /// Appends a line to the metrics and its scalars to the event file, with the time of now.
    ///
    /// # Errors
    /// As [`Metrics::append`].
    pub fn append<T: Serialize>(
        &mut self,
        report: &T,
        scalars: &[(&str, f32)],
    ) -> Result<(), Error> {
        self.append_at(wall_time(), report, scalars)
    }

    /// As [`RunRecorder::append`], with a time in seconds of the Unix epoch that the caller has read.
    ///
    /// # Errors
    /// As [`Metrics::append`].
    pub fn append_at<T: Serialize>(
        &mut self,
        wall_time: f64,
        report: &T,
        scalars: &[(&str, f32)],
    ) -> Result<(), Error> {
        match &mut self.metrics {
            Some(metrics) => metrics.append(wall_time, report, scalars),
            None => Ok(()),
        }
    }

    /// Writes a checkpoint, which promises the metrics before it.
    ///
    /// # Errors
    /// As [`Folder::write_checkpoint`].
    pub fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.metrics.as_ref().map_or(Ok(()), Metrics::sync)?;
        self.folder.write_files(checkpoint)
    }

    /// Removes all checkpoints: the answer lies elsewhere, and nobody is to go on from here.
    ///
    /// # Errors
    /// When one cannot be removed; as [`Folder::check_place`].
    pub fn remove_checkpoints(&self) -> Result<(), Error> {
        self.check_place()?;
        manifest::remove_all(self.path())
    }

    /// As [`Folder::check_place`].
    ///
    /// # Errors
    /// As there.
    pub fn check_place(&self) -> Result<(), Error> {
        self.folder.check_place()
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
