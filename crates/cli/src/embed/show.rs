//! A training as it goes on: the bar of its samples, its passes, and the metrics of its run.

use serde::Serialize;
use shardgraph_job::Metrics;
use shardgraph_line::PassReport;

use super::run_metrics::RunMetrics;
use crate::progress::Progress;
use crate::report::ReportArgs;

/// Progress in samples, whose number is known only once a run has begun, the passes so far, and the
/// metrics of the run, as far as they could be written.
pub(super) struct Show {
    samples: Progress,
    n_trials: usize,
    passes: Vec<PassReport>,
    metrics: Option<RunMetrics>,
    failure: Option<anyhow::Error>,
}

impl Show {
    pub(super) fn new(
        report: &ReportArgs,
        time_limit: Option<f64>,
        metrics: Option<RunMetrics>,
    ) -> Show {
        Show {
            samples: Progress::new(report, 0, "samples").within(time_limit),
            n_trials: 0,
            passes: Vec::new(),
            metrics,
            failure: None,
        }
    }

    pub(super) fn step(&mut self, progress: shardgraph_line::Progress<'_>) {
        self.samples.set_part(progress.is_choice);
        match progress.trial {
            Some(trial) => {
                self.n_trials += 1;
                let (n_trials, auc) = (self.n_trials, trial.auc.uniform);
                self.samples
                    .update(0, || format!("trial {n_trials}, AUC {auc:.4}"));
            }
            None => {
                let n_trials = self.n_trials + 1;
                self.samples.set_length(progress.n_samples);
                self.passes.extend(progress.pass);
                let pass = self.passes.last();
                self.samples
                    .update(progress.samples, || match progress.is_choice {
                        true => format!("trial {n_trials}"),
                        false => pass.map(message_of_pass).unwrap_or_default(),
                    });
            }
        }
        if let (Some(metrics), None) = (&mut self.metrics, &self.failure) {
            self.failure = metrics.step(progress).err();
        }
    }

    /// Metrics for the recorder of the run's checkpoints; steps add nothing to them here from then on.
    pub(super) fn take_metrics(&mut self) -> Option<Metrics> {
        self.metrics.as_mut()?.take()
    }

    /// The passes so far.
    pub(super) fn passes(&self) -> &[PassReport] {
        &self.passes
    }

    /// Writes the answer to the run's folder, or tells why the metrics are not whole.
    pub(super) fn finish(&mut self, answer: &impl Serialize) -> anyhow::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.context("the embedding is written, the metrics of the run are not"));
        }
        match self.metrics.take() {
            Some(metrics) => metrics.finish(answer),
            None => Ok(()),
        }
    }
}

fn message_of_pass(pass: &PassReport) -> String {
    let loss = pass.loss.map(|loss| format!(", loss {loss:.4}"));
    let loss = loss.unwrap_or_default();
    format!("{}, epoch {}{loss}", pass.table(), pass.epoch)
}
