//! What a training run puts into its folder: a report a step, and at last the policy.

use std::path::Path;

use serde::Serialize;
use shardgraph_job::{RunRecorder, tags};
use shardgraph_storage::write_atomic;

use super::trainer::Trainer;
use super::{Evaluation, StepReport, TrainConfig};
use crate::Error;

/// Files of a finished run's folder beside its checkpoints and metrics.
pub(super) const RESULTS: &[&str] = &[POLICY, SETTINGS];
const POLICY: &str = "policy.safetensors";
const SETTINGS: &str = "policy.json";

/// `policy.json`: the run that made a policy.
#[derive(Serialize)]
struct Provenance<'a> {
    policy: &'a crate::PolicyConfig,
    train: &'a TrainConfig,
    steps: u64,
    /// The step that the policy is of, where held-back graphs chose it, and what it found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval: Option<Evaluation>,
}

/// Appends a step to the metrics.
pub(super) fn append(recorder: &mut RunRecorder, report: &StepReport) -> Result<(), Error> {
    let mut scalars = vec![(tags::EPSILON, report.epsilon)];
    scalars.extend(report.loss.map(|loss| (tags::LOSS, loss)));
    scalars.extend(report.cover.map(|size| (tags::OBJECTIVE, size as f32)));
    let objective = report.objective.map(|objective| objective as f32);
    scalars.extend(objective.map(|objective| (tags::OBJECTIVE, objective)));
    if let Some(eval) = report.eval {
        scalars.extend([
            (tags::EVAL_OBJECTIVE, eval.objective as f32),
            (tags::EVAL_BASELINE, eval.baseline as f32),
            (tags::EVAL_RATIO, eval.ratio as f32),
        ]);
    }
    Ok(recorder.append(report, &scalars)?)
}

/// Writes the policy and its provenance.
pub(super) fn write_results(folder: &Path, trainer: &Trainer) -> Result<(), Error> {
    trainer.chosen_policy()?.write(&folder.join(POLICY))?;
    let best = trainer.best.as_ref();
    let provenance = Provenance {
        policy: &trainer.policy.config,
        train: &trainer.config,
        steps: trainer.step,
        best_step: best.map(|best| best.step),
        eval: best.map(|best| best.evaluation),
    };
    let text = serde_json::to_string_pretty(&provenance)
        .map_err(|e| Error::internal(format!("settings without JSON form: {e}")))?;
    let path = folder.join(SETTINGS);
    write_atomic(&path, |out| writeln!(out, "{text}")).map_err(Error::io(&path))
}
