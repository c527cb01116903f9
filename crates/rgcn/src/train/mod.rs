//! Training on P ranks, evaluation of what was learnt, and the classes of nodes.

mod batches;
mod classes;
mod classifier;
mod evaluation;
mod execution;
pub(crate) mod folder;
mod inputs;
mod job;
pub(crate) mod memory;
mod model;
mod processes;
pub(crate) mod run;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Device;

pub use classes::MAX_RANKS;
pub use classifier::RelationalClassifier;
pub use evaluation::{Evaluation, SetScores};
pub use execution::Execution;
pub use folder::target_epochs;
pub use memory::DeviceMemory;
pub use processes::train_as_rank;

use crate::partition::Method;
use crate::{Config, Error, Labels, RelationalGraph};
use folder::Saved;

/// The ranks, memory and folder of a run; with exact sums nothing here changes a bit of what it
/// computes.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Ranks that share the sources; threads of this process.
    pub n_ranks: u32,
    /// The partition of the messages.
    pub partition: Method,
    /// The execution of the first layer.
    pub execution: Execution,
    /// The device of the epochs: the host, or one that one rank trains on without batches, dropout,
    /// blocks and Adagrad. The scores at the end are computed on the host.
    pub device: Device,
    /// The most bytes that a rank's device may hold, the graph not counted; what does not fit is
    /// taken in tiles. Absent: everything stays.
    pub budget_per_device: Option<u64>,
    /// The most bytes that this process' ranks may hold together; absent: what the machine has
    /// free.
    pub memory: Option<u64>,
    /// The folder for checkpoints and metrics; absent: none are written.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// Epochs between two checkpoints; 0: none but those of `checkpoint_s`, and the last.
    pub checkpoint_epochs: u32,
    /// Seconds between two checkpoints, at least ten times what the last one took; absent: epochs
    /// decide alone.
    pub checkpoint_s: Option<f64>,
    /// The longest wait for another rank.
    pub deadline: Timeout,
    /// The names of the classes, which the folder keeps; may be empty.
    pub class_names: Vec<String>,
    /// The names of the relations without inverse ones, which the folder keeps; may be empty.
    pub relation_names: Vec<String>,
    /// True if the outcome has the model, for [`RelationalClassifier::from_outcome`].
    pub keeps_model: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            n_ranks: 1,
            partition: Method::Source,
            execution: Execution::Grouped,
            device: Device::host(),
            budget_per_device: None,
            memory: None,
            folder: None,
            resume: false,
            checkpoint_epochs: 0,
            checkpoint_s: None,
            deadline: Timeout::default(),
            class_names: Vec::new(),
            relation_names: Vec::new(),
            keeps_model: false,
        }
    }
}

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
    fn scalars(&self) -> Vec<(&'static str, f32)> {
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
    /// The memory of each rank's share of the host; empty where epochs ran on another device.
    pub devices: Vec<DeviceMemory>,
    /// Ranks with neither a message nor a node: the graph has too few blocks of nodes for them.
    pub n_idle_ranks: usize,
    /// The model, where the run was to keep it.
    model: Option<Saved>,
}

/// Trains a model and evaluates it.
///
/// With a folder, writes `metrics.jsonl` (an [`EpochReport`] a line), the same values as a
/// TensorBoard event file, and checkpoints. When resuming, only [`Config::epochs`] is taken from
/// `config`, the rest from the checkpoint.
///
/// # Errors
/// When a setting or a label cannot be right, the folder has another run, a file cannot be written,
/// training diverges, or a rank is lost.
/// # Determinism
/// With [`Sums::Exact`](crate::Sums::Exact) the same reports, parameters and files, bit for bit,
/// for every number of ranks on the host; and in any case whether or not the run was stopped and resumed at a
/// checkpoint.
/// # Complexity
/// An epoch is O(pairs * bases * width + edges * width), where a pair is a node and a relation in
/// which it sends; memory is one row of bases * width numbers for each node (without bases: of
/// width for each pair), three times that with Adam.
/// # Source
/// Schlichtkrull et al., "Modeling relational data with graph convolutional networks".
///
/// ```
/// use shardgraph_rgcn::{Config, Labels, RelationalGraph, RunOptions, train};
///
/// // Papers 0..4 are written by authors 4 and 5; each author has a subject.
/// let graph = RelationalGraph::new(6, 1, vec![0, 1, 2, 3], vec![0; 4], vec![4, 4, 5, 5])?.with_inverses()?;
/// let labels = Labels::new(2, vec![(0, 0), (2, 1)], vec![(1, 0), (3, 1)], vec![])?;
/// let outcome = train(&graph, &labels, &Config::default(), &RunOptions::default(), &mut |_| ())?;
/// assert_eq!(outcome.reports.len(), 50);
/// assert_eq!(outcome.evaluation.test.unwrap().n_right, 2);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
pub fn train(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&EpochReport) + Send),
) -> Result<Outcome, Error> {
    train_as_rank(&mut Comm::solo(), graph, labels, config, options, progress)
}

/// The likeliest class of each of some nodes by the model in a run's folder. A model with
/// [`Config::features`] takes any graph of the run's relations, with nodes that training did not
/// have.
///
/// # Errors
/// When the folder has no whole checkpoint, the graph is not the run's, or a node is not in it.
pub fn predict(
    graph: &RelationalGraph,
    folder: &Path,
    nodes: &[u32],
    deadline: Timeout,
) -> Result<Vec<u32>, Error> {
    classes::predict(graph, &folder::saved(graph, folder)?, nodes, deadline)
}

/// The classes of one node by a trained model.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The likeliest class.
    pub class: u32,
    /// The probability of each class; their sum is 1.
    pub probabilities: Vec<f64>,
}

/// As [`predict`], with the probabilities of all classes.
///
/// # Errors
/// As [`predict`].
pub fn predict_probabilities(
    graph: &RelationalGraph,
    folder: &Path,
    nodes: &[u32],
    deadline: Timeout,
) -> Result<Vec<Prediction>, Error> {
    classes::probabilities(graph, &folder::saved(graph, folder)?, nodes, deadline)
}

/// A row of numbers for each node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUnits {
    /// Numbers of a row.
    pub width: usize,
    /// The rows in the order of the nodes.
    pub values: Vec<f32>,
}

/// The units of the last hidden layer of all nodes by the model in a run's folder; zeros for nodes
/// that no message reaches where there is no self loop.
///
/// # Errors
/// As [`predict`], and when the model has no hidden layer.
pub fn hidden_units(
    graph: &RelationalGraph,
    folder: &Path,
    deadline: Timeout,
) -> Result<NodeUnits, Error> {
    classes::hidden_units(graph, &folder::saved(graph, folder)?, deadline)
}

/// The names of a run's classes; empty where it was given none.
///
/// # Errors
/// When the folder has no whole checkpoint.
pub fn class_names(folder: &Path) -> Result<Vec<String>, Error> {
    Ok(folder::newest_model(folder)?.class_names)
}

/// The names of a run's relations, without inverse ones; empty where it was given none.
///
/// # Errors
/// When the folder has no whole checkpoint.
pub fn relation_names(folder: &Path) -> Result<Vec<String>, Error> {
    Ok(folder::newest_model(folder)?.relation_names)
}

/// The settings of a run's folder, with the epochs that its parameters had.
///
/// # Errors
/// When the folder has no whole checkpoint.
pub fn run_config(folder: &Path) -> Result<Config, Error> {
    let saved = folder::newest_model(folder)?;
    Ok(Config {
        epochs: saved.params_epoch(),
        ..saved.config
    })
}

/// The scores of labelled nodes by the model in a run's folder.
///
/// # Errors
/// As [`predict`], and when the labels have other classes than the run's.
pub fn evaluate(
    graph: &RelationalGraph,
    folder: &Path,
    labels: &Labels,
    deadline: Timeout,
) -> Result<Evaluation, Error> {
    labels.check_nodes(graph)?;
    let saved = folder::saved(graph, folder)?;
    if saved.n_classes != labels.n_classes() {
        let message = format!(
            "labels of {} classes: expected {}, as the model of {} has",
            labels.n_classes(),
            saved.n_classes,
            folder.display()
        );
        return Err(Error::new(Error::Labels, message));
    }
    let nodes = evaluation::labelled(labels);
    let predicted = classes::predict(graph, &saved, &nodes, deadline)?;
    Ok(Evaluation::new(labels, &nodes, &predicted))
}
