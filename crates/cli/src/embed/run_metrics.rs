//! Folder of an embedding's run: metrics of the trials of a choice and of the training's passes as
//! they end, and the answer.

use std::path::Path;

use serde::Serialize;
use shardgraph_job::{Folder, RunRecorder, tags};
use shardgraph_line::{Component, Order, PassReport, Progress, Trial};

use crate::output_file;

/// A line of metrics.jsonl.
#[derive(Default, Serialize)]
struct Line {
    step: u64,
    stage: &'static str,
    /// Tables side by side.
    tables: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    row_norm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auc_uniform: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auc_degree_matched: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

/// The printed answer as JSON; a folder that has it has a run that ended.
const ANSWER: &str = "result.json";

/// Metrics of a run in its folder, which is held until the run ends.
pub(super) struct RunMetrics {
    recorder: RunRecorder,
    step: u64,
}

impl RunMetrics {
    /// Takes the folder of a run whose tables have a checkpoint after so many passes: a new run has 0.
    pub(super) fn new(path: &Path, n_passes: u64) -> anyhow::Result<RunMetrics> {
        let folder = match n_passes {
            0 => Folder::of_new_run(path, &[], &[ANSWER])?,
            _ => Folder::of_run_resumed_elsewhere(path, n_passes, &[ANSWER])?,
        };
        Ok(RunMetrics {
            recorder: RunRecorder::open(folder)?,
            step: n_passes,
        })
    }

    /// Appends a line for a trial or a pass that has just ended.
    pub(super) fn step(&mut self, progress: Progress<'_>) -> anyhow::Result<()> {
        if let Some(trial) = progress.trial {
            self.append(line_of_trial(trial))?;
        }
        match progress.pass {
            Some(pass) => self.append(line_of_pass(&pass)),
            None => Ok(()),
        }
    }

    /// Writes the answer: the run has ended.
    pub(super) fn finish(self, answer: &impl Serialize) -> anyhow::Result<()> {
        self.recorder.check_place()?;
        let text = serde_json::to_string_pretty(answer)? + "\n";
        let path = self.recorder.path().join(ANSWER);
        Ok(output_file::write_all(&[(&path, text)])?)
    }

    fn append(&mut self, line: Line) -> anyhow::Result<()> {
        self.step += 1;
        let line = Line {
            step: self.step,
            ..line
        };
        let values = [
            (tags::LOSS, line.loss),
            ("train/row_norm", line.row_norm),
            ("eval/auc_uniform", line.auc_uniform),
            ("eval/auc_degree_matched", line.auc_degree_matched),
        ];
        let scalars: Vec<(&str, f32)> = values
            .into_iter()
            .filter_map(|(tag, value)| Some((tag, value? as f32)))
            .collect();
        Ok(self.recorder.append(&line, &scalars)?)
    }
}

fn line_of_trial(trial: &Trial) -> Line {
    let tables = trial.components.iter().map(ToString::to_string);
    Line {
        stage: "trial",
        tables: tables.collect::<Vec<String>>().join(" + "),
        epoch: match trial.components[..] {
            [Component::Line { epochs, .. } | Component::Softmax { epochs, .. }] => Some(epochs),
            _ => None,
        },
        row_norm: Some(trial.row_norm),
        auc_uniform: Some(trial.auc.uniform),
        auc_degree_matched: Some(trial.auc.degree_matched),
        seconds: Some(trial.seconds),
        ..Line::default()
    }
}

fn line_of_pass(pass: &PassReport) -> Line {
    Line {
        stage: "training",
        tables: table_of(pass).to_owned(),
        epoch: Some(pass.epoch),
        loss: pass.loss,
        row_norm: pass.row_norm,
        ..Line::default()
    }
}

/// The kind of table that a pass trained.
pub(super) fn table_of(pass: &PassReport) -> &'static str {
    match pass.order {
        None => "softmax",
        Some(Order::First) => "order 1",
        Some(_) => "order 2",
    }
}
