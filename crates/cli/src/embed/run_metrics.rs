//! Folder of an embedding's run: metrics of the trials of a choice and of the training's passes.

use std::path::Path;

use serde::Serialize;
use shardgraph_job::{Folder, Metrics, tags, wall_time};
use shardgraph_line::{Component, Order, PassReport, Selection, Trial};

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
    row_norm: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    auc_uniform: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auc_degree_matched: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

/// Metrics of a run in its folder, which is held until they are written.
pub(super) struct RunMetrics {
    _folder: Folder,
    metrics: Metrics,
    step: u64,
}

impl RunMetrics {
    /// Makes the folder of a new run.
    pub(super) fn new(path: &Path) -> anyhow::Result<RunMetrics> {
        let folder = Folder::of_new_run(path, &[], &[])?;
        let metrics = folder.open_metrics(wall_time())?;
        Ok(RunMetrics {
            _folder: folder,
            metrics,
            step: 0,
        })
    }

    /// Appends a line for each trial, then for each pass.
    pub(super) fn write(
        &mut self,
        selection: Option<&Selection>,
        passes: &[PassReport],
    ) -> anyhow::Result<()> {
        for trial in selection.iter().flat_map(|selection| &selection.trials) {
            self.append(line_of_trial(trial))?;
        }
        for pass in passes {
            self.append(line_of_pass(pass))?;
        }
        Ok(())
    }

    fn append(&mut self, line: Line) -> anyhow::Result<()> {
        self.step += 1;
        let line = Line {
            step: self.step,
            ..line
        };
        let values = [
            (tags::LOSS, line.loss),
            ("train/row_norm", Some(line.row_norm)),
            ("eval/auc_uniform", line.auc_uniform),
            ("eval/auc_degree_matched", line.auc_degree_matched),
        ];
        let scalars: Vec<(&str, f32)> = values
            .into_iter()
            .filter_map(|(tag, value)| Some((tag, value? as f32)))
            .collect();
        Ok(self.metrics.append(wall_time(), &line, &scalars)?)
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
        row_norm: trial.row_norm,
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
