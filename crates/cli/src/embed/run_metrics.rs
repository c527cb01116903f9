//! Folder of an embedding's run: metrics of the trials of a choice and of the training's passes as
//! they end, and the answer.

use std::path::Path;

use serde::Serialize;
use shardgraph_job::{Folder, Metrics, RunRecorder};
use shardgraph_line::Progress;

use crate::output_file;

/// The printed answer as JSON; a folder that has it has a run that ended.
const ANSWER: &str = "result.json";

/// Metrics of a run in its folder, which is held until the run ends.
pub(super) struct RunMetrics {
    recorder: RunRecorder,
    step: u64,
}

impl RunMetrics {
    /// Takes the folder of a new run, or of one whose tables go on from a checkpoint elsewhere.
    pub(super) fn new(path: &Path, resumed_at: Option<u64>) -> anyhow::Result<RunMetrics> {
        let folder = match resumed_at {
            None => Folder::of_new_run(path, &[], &[ANSWER])?,
            Some(step) => Folder::of_run_resumed_elsewhere(path, step, &[ANSWER])?,
        };
        Ok(RunMetrics {
            recorder: RunRecorder::open(folder)?,
            step: 0,
        })
    }

    /// Appends a line for a trial or a pass that has just ended.
    pub(super) fn step(&mut self, progress: Progress<'_>) -> anyhow::Result<()> {
        self.step += u64::from(progress.has_line());
        Ok(progress.append_to(&mut self.recorder, self.step)?)
    }

    /// As [`RunRecorder::take_metrics`].
    pub(super) fn take(&mut self) -> Option<Metrics> {
        self.recorder.take_metrics()
    }

    /// Writes the answer: the run has ended.
    pub(super) fn finish(self, answer: &impl Serialize) -> anyhow::Result<()> {
        self.recorder.check_place()?;
        let text = serde_json::to_string_pretty(answer)? + "\n";
        let path = self.recorder.path().join(ANSWER);
        Ok(output_file::write_all(&[(&path, text)])?)
    }
}
