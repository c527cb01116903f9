//! What a training run puts into its folder: a report a step, checkpoints, and at last the policy.

use serde::Serialize;
use shardgraph_graph::write_atomic;
use shardgraph_runs::{Folder, Metrics, wall_time};

use super::trainer::Trainer;
use super::{StepReport, TrainConfig, checkpoint};
use crate::Error;

/// What the folder of a finished run has beside its checkpoints and metrics.
pub(super) const RESULTS: &[&str] = &[POLICY, SETTINGS];
const POLICY: &str = "policy.safetensors";
const SETTINGS: &str = "policy.json";

/// What `policy.json` says of the run that made a policy.
#[derive(Serialize)]
struct Provenance<'a> {
    policy: &'a crate::PolicyConfig,
    train: &'a TrainConfig,
    steps: u64,
}

/// The folder of a run that takes steps. Rank 0 alone has one.
pub(super) struct RunFolder {
    folder: Folder,
    metrics: Metrics,
}

impl RunFolder {
    /// Opens the metrics of a folder.
    pub(super) fn open(folder: Folder) -> Result<RunFolder, Error> {
        let metrics = folder.open_metrics(wall_time())?;
        Ok(RunFolder { folder, metrics })
    }

    /// Appends a step to the metrics.
    pub(super) fn append(&mut self, report: &StepReport) -> Result<(), Error> {
        let mut scalars = vec![("charts/epsilon", report.epsilon)];
        scalars.extend(report.loss.map(|loss| ("losses/loss", loss)));
        scalars.extend(report.cover.map(|size| ("charts/cover_size", size as f32)));
        let objective = report.objective.map(|objective| objective as f32);
        scalars.extend(objective.map(|objective| ("charts/objective", objective)));
        Ok(self.metrics.append(wall_time(), report, &scalars)?)
    }

    /// Writes a checkpoint, which promises the metrics before it.
    pub(super) fn checkpoint(&mut self, trainer: &Trainer) -> Result<(), Error> {
        let checkpoint = checkpoint::of_trainer(trainer)?;
        Ok(self.folder.write_checkpoint(&checkpoint, &self.metrics)?)
    }

    /// Writes the policy and where it comes from.
    pub(super) fn finish(&self, trainer: &Trainer) -> Result<(), Error> {
        let folder = self.folder.path();
        trainer.policy.write(&folder.join(POLICY))?;
        let provenance = Provenance {
            policy: &trainer.policy.config,
            train: &trainer.config,
            steps: trainer.step,
        };
        let text = serde_json::to_string_pretty(&provenance)
            .map_err(|e| Error::internal(format!("settings without JSON form: {e}")))?;
        let path = folder.join(SETTINGS);
        write_atomic(&path, |out| writeln!(out, "{text}")).map_err(Error::io(&path))
    }
}
