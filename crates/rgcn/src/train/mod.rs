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
mod options;
mod processes;
mod report;
pub(crate) mod run;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::path::Path;

use shardgraph_collectives::{Comm, Timeout};

pub use classes::MAX_RANKS;
pub use classifier::RelationalClassifier;
pub use evaluation::{Evaluation, SetScores};
pub use execution::Execution;
pub use folder::target_epochs;
pub use memory::DeviceMemory;
pub use options::RunOptions;
pub use processes::train_as_rank;
pub use report::{EpochReport, NodeUnits, Outcome, Prediction, RankTime, ValidScores};

use crate::{Config, Error, Labels, RelationalGraph};

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
