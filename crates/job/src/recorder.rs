//! The folder of a run that takes steps, with its metrics.

use std::path::Path;

use serde::Serialize;

use crate::{Checkpoint, Error, Folder, Metrics, wall_time};

/// Folder and metrics of a run, open for its steps; rank 0 alone has one.
#[derive(Debug)]
pub struct RunRecorder {
    folder: Folder,
    metrics: Metrics,
}

impl RunRecorder {
    /// Opens the metrics of a folder, cut back to the checkpoint that the run goes on from.
    ///
    /// # Errors
    /// As [`Folder::open_metrics`].
    pub fn open(folder: Folder) -> Result<RunRecorder, Error> {
        let metrics = folder.open_metrics(wall_time())?;
        Ok(RunRecorder { folder, metrics })
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
        self.metrics.append(wall_time, report, scalars)
    }

    /// Writes a checkpoint, which promises the metrics before it.
    ///
    /// # Errors
    /// As [`Folder::write_checkpoint`].
    pub fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.folder.write_checkpoint(checkpoint, &self.metrics)
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
