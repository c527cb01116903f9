//! Reports of epochs, and what a finished run and a trained model give.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::evaluation::Evaluation;
use super::folder::Saved;
use super::memory::DeviceMemory;
use crate::Config;

/// The report of an epoch; without its times, one line of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Epochs done, this one included.
    pub step: u64,
    /// Mean cross entropy of the training nodes before the epoch's step; L2 is not in it.
    pub loss: f64,
    /// The share of the training nodes whose class was the likeliest.
    pub train_accuracy: f64,
    /// Of the nodes to validate on after the step, where they say when training ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<ValidScores>,
    /// Milliseconds of the messages forward and the loss.
    #[serde(skip)]
    pub forward_ms: f64,
    /// Milliseconds of the gradients and the step.
    #[serde(skip)]
    pub backward_ms: f64,
}

/// Scores of the nodes to validate on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidScores {
    /// The share whose class was the likeliest.
    pub accuracy: f64,
    /// The mean cross entropy, by the weights of the training's classes.
    pub loss: f64,
}

impl ValidScores {
    /// True if these are better: more are right, or as many at a lower loss.
    #[must_use]
    pub fn is_better_than(&self, other: &ValidScores) -> bool {
        match self.accuracy.total_cmp(&other.accuracy) {
            Ordering::Equal => self.loss < other.loss,
            order => order == Ordering::Greater,
        }
    }
}

/// The time of a rank in the epochs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankTime {
    /// Seconds of all epochs.
    pub epochs_seconds: f64,
    /// Of these the seconds in exchanges with other ranks, waits for them among these: ranks with
    /// less work than others have more.
    pub exchange_seconds: f64,
}

impl EpochReport {
    /// The values for TensorBoard.
    pub(super) fn scalars(&self) -> Vec<(&'static str, f32)> {
        let mut scalars = vec![
            ("train/loss", self.loss as f32),
            ("train/accuracy", self.train_accuracy as f32),
        ];
        if let Some(valid) = &self.valid {
            scalars.push(("eval/accuracy", valid.accuracy as f32));
            scalars.push(("eval/loss", valid.loss as f32));
        }
        scalars
    }

    /// Milliseconds of the whole epoch.
    #[must_use]
    pub fn epoch_ms(&self) -> f64 {
        self.forward_ms + self.backward_ms
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The settings that held: after a resume those of the checkpoint.
    pub config: Config,
    /// The epochs that this call ran (after a resume: not those before).
    pub reports: Vec<EpochReport>,
    /// The epoch whose parameters the model has: with patience the best one, else the last.
    pub best_epoch: u32,
    /// The scores of the labelled nodes.
    pub evaluation: Evaluation,
    /// A hash of all parameters in use: equal hashes are equal models.
    pub params_hash: u64,
    /// Bytes of parameters, plans, activations and sums that each rank held.
    pub bytes_per_rank: Vec<u64>,
    /// The time of each rank in this call's epochs.
    pub times: Vec<RankTime>,
    /// The memory of each rank on the device of the epochs.
    pub devices: Vec<DeviceMemory>,
    /// Ranks with neither a message nor a node: the graph has too few blocks of nodes for them.
    pub n_idle_ranks: usize,
    /// The model, where the run was to keep it.
    pub(super) model: Option<Saved>,
}

/// The classes of one node by a trained model.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The likeliest class.
    pub class: u32,
    /// The probability of each class; their sum is 1.
    pub probabilities: Vec<f64>,
}

/// A row of numbers for each node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUnits {
    /// Numbers of a row.
    pub width: usize,
    /// The rows in the order of the nodes.
    pub values: Vec<f32>,
}
