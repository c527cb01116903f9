//! Lines of metrics.jsonl, and the scalars beside them: one for each trial of a choice, one for each pass of a training.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_job::{RunRecorder, tags};

use super::{PassReport, Progress};
use crate::{Component, Error, Trial};

/// The stage of the lines of passes.
const TRAINING: &str = "training";

const ROW_NORM: &str = "train/row_norm";
const AUC_UNIFORM: &str = "eval/auc_uniform";
const AUC_DEGREE_MATCHED: &str = "eval/auc_degree_matched";

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    step: u64,
    stage: Cow<'static, str>,
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

impl Line {
    fn of_trial(step: u64, trial: &Trial) -> Line {
        let tables = trial.components.iter().map(ToString::to_string);
        Line {
            step,
            stage: Cow::Borrowed("trial"),
            tables: tables.collect::<Vec<String>>().join(" + "),
            epoch: match trial.components[..] {
                [Component::Line { epochs, .. } | Component::Softmax { epochs, .. }] => {
                    Some(epochs)
                }
                _ => None,
            },
            row_norm: Some(trial.row_norm),
            auc_uniform: Some(trial.auc.uniform),
            auc_degree_matched: Some(trial.auc.degree_matched),
            seconds: Some(trial.seconds),
            ..Line::default()
        }
    }

    fn of_pass(step: u64, pass: &PassReport) -> Line {
        Line {
            step,
            stage: Cow::Borrowed(TRAINING),
            tables: pass.table().to_owned(),
            epoch: Some(pass.epoch),
            loss: pass.loss,
            row_norm: pass.row_norm,
            ..Line::default()
        }
    }

    /// The pass that the line tells of; none where it tells of a trial.
    fn pass(&self) -> Option<PassReport> {
        let epoch = self.epoch.filter(|_| self.stage == TRAINING)?;
        PassReport::of_table(&self.tables, epoch).map(|pass| PassReport {
            loss: self.loss,
            row_norm: self.row_norm,
            ..pass
        })
    }

    fn append_to(&self, recorder: &mut RunRecorder) -> Result<(), Error> {
        let values = [
            (tags::LOSS, self.loss),
            (ROW_NORM, self.row_norm),
            (AUC_UNIFORM, self.auc_uniform),
            (AUC_DEGREE_MATCHED, self.auc_degree_matched),
        ];
        let scalars = values
            .into_iter()
            .filter_map(|(tag, value)| Some((tag, value? as f32)));
        Ok(recorder.append(self, &scalars.collect::<Vec<_>>())?)
    }
}

impl Progress<'_> {
    /// True beside a trial or a pass that has just ended: metrics have a line for it.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.trial.is_some() || self.pass.is_some()
    }

    /// Appends the trial or the pass that has just ended to the metrics of a run, as that of a step.
    ///
    /// # Errors
    /// As [`RunRecorder::append`].
    pub fn append_to(&self, recorder: &mut RunRecorder, step: u64) -> Result<(), Error> {
        if let Some(trial) = self.trial {
            Line::of_trial(step, trial).append_to(recorder)?;
        }
        match &self.pass {
            Some(pass) => Line::of_pass(step, pass).append_to(recorder),
            None => Ok(()),
        }
    }
}

/// The passes that the metrics of a run tell of, those before it was broken off too.
///
/// # Errors
/// As [`shardgraph_job::read_lines`].
pub fn read_passes(folder: &Path) -> Result<Vec<PassReport>, Error> {
    let lines: Vec<Line> = shardgraph_job::read_lines(folder)?;
    Ok(lines.iter().filter_map(Line::pass).collect())
}
