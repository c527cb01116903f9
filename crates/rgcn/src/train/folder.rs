//! What a run keeps in its folder, and what is read back from there.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_runs::{Checkpoint, Folder, Metrics, fnv1a64, wall_time};

use super::state::State;
use super::{EpochReport, RunOptions};
use crate::{Config, Error, ErrorKind, Features, Labels, RelationalGraph};

/// The files of a checkpoint.
const FILES: &[&str] = &["state.safetensors", "run.json"];
const RUN: &str = "run.json";
const SCHEMA_VERSION: u32 = 1;

/// What a checkpoint says of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    config: Config,
    n_classes: u32,
    class_names: Vec<String>,
    /// [`graph_hash`] of the run's graph.
    graph_hash: u64,
    /// [`labels_hash`] of the run's training labels.
    labels_hash: u64,
}

/// A trained model as read from a folder.
pub(super) struct Saved {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) train_nodes: Vec<u32>,
    n_classes: u32,
}

impl Saved {
    pub(super) fn n_classes(&self) -> u32 {
        self.n_classes
    }
}

/// The folder of a run that takes steps. Rank 0 alone has one.
pub(super) struct RunFolder {
    folder: Folder,
    metrics: Metrics,
    graph_hash: u64,
    class_names: Vec<String>,
}

impl RunFolder {
    /// Appends an epoch to the metrics.
    pub(super) fn append(&mut self, report: &EpochReport) -> Result<(), Error> {
        let scalars = [
            ("losses/loss", report.loss as f32),
            ("charts/train_accuracy", report.train_accuracy as f32),
        ];
        Ok(self.metrics.append(wall_time(), report, &scalars)?)
    }

    /// Writes a checkpoint, which promises the metrics before it.
    pub(super) fn checkpoint(
        &mut self,
        state: &State,
        config: &Config,
        labels: &Labels,
    ) -> Result<(), Error> {
        let mut checkpoint = Checkpoint::new(state.epochs_done.into());
        let mut nodes: Vec<u32> = labels.train().iter().map(|&(node, _)| node).collect();
        nodes.sort_unstable();
        state.write(&mut checkpoint, &nodes)?;
        let run = Run {
            config: config.clone(),
            n_classes: labels.n_classes(),
            class_names: self.class_names.clone(),
            graph_hash: self.graph_hash,
            labels_hash: labels_hash(labels),
        };
        checkpoint.add_json(RUN, SCHEMA_VERSION, &run)?;
        Ok(self.folder.write_checkpoint(&checkpoint, &self.metrics)?)
    }
}

/// The hash of a graph's sizes and edges in their order.
pub(super) fn graph_hash(graph: &RelationalGraph) -> u64 {
    let (sources, relations, targets) = graph.columns();
    let sizes = [graph.n_nodes(), graph.n_relations()];
    let words = sizes.iter().chain(sources).chain(relations).chain(targets);
    let features = graph.features().map_or(&[][..], Features::values);
    let features = features.iter().map(|x| x.to_bits());
    fnv1a64(words.copied().chain(features).flat_map(u32::to_le_bytes))
}

/// The hash of the training labels in the order of their nodes.
fn labels_hash(labels: &Labels) -> u64 {
    let mut train = labels.train().to_vec();
    train.sort_unstable();
    let words = train.iter().flat_map(|&(node, class)| [node, class]);
    fnv1a64(
        [labels.n_classes()]
            .into_iter()
            .chain(words)
            .flat_map(u32::to_le_bytes),
    )
}

/// The settings that hold, the folder if one is wanted, and the state to go on from.
pub(super) fn begin(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    options: &RunOptions,
) -> Result<(Config, Option<RunFolder>, Option<State>), Error> {
    let Some(path) = &options.folder else {
        if options.resume {
            return Err(Error::config("resume", true, "a folder to resume from"));
        }
        return Ok((config.clone(), None, None));
    };
    // Before the folder exists: what is refused leaves none behind.
    config.check()?;
    labels.check_nodes(graph)?;
    let hash = graph_hash(graph);
    let opened = |folder: Folder| -> Result<RunFolder, Error> {
        let metrics = folder.open_metrics(wall_time())?;
        Ok(RunFolder {
            folder,
            metrics,
            graph_hash: hash,
            class_names: options.class_names.clone(),
        })
    };
    if !options.resume {
        let folder = opened(Folder::of_new_run(path, FILES, &[])?)?;
        return Ok((config.clone(), Some(folder), None));
    }
    let (folder, checkpoint) = Folder::of_old_run(path, FILES)?;
    let (run, saved) = read(&checkpoint)?;
    check_graph(&run, hash, path)?;
    check_progress(&run, &saved, (labels_hash(labels), config.epochs), path)?;
    let config = Config {
        epochs: config.epochs,
        ..run.config
    };
    Ok((config, Some(opened(folder)?), Some(saved.state)))
}

/// Refuses to go on with other training labels, or to fewer epochs than are done.
fn check_progress(
    run: &Run,
    saved: &Saved,
    (labels, epochs): (u64, u32),
    path: &Path,
) -> Result<(), Error> {
    let n_done = saved.state.epochs_done;
    let what: String = match (run.labels_hash == labels, n_done <= epochs) {
        (true, true) => return Ok(()),
        (false, _) => "training labels that are not the run's: expected those it began with".into(),
        _ => format!("{n_done} epochs are done: expected --epochs of at least as many"),
    };
    let message = format!("{}: {what}", path.display());
    Err(Error::new(ErrorKind::Checkpoint, message))
}

/// The newest model of a folder, for this graph.
pub(super) fn saved(graph: &RelationalGraph, path: &Path) -> Result<Saved, Error> {
    let checkpoint = newest(path)?;
    let (run, saved) = read(&checkpoint)?;
    check_graph(&run, graph_hash(graph), path)?;
    Ok(saved)
}

/// What the classes of the newest model of a folder are called.
pub(super) fn class_names(path: &Path) -> Result<Vec<String>, Error> {
    let (run, _) = read(&newest(path)?)?;
    Ok(run.class_names)
}

/// The settings of the newest model of a folder, with the epochs that are done.
pub(super) fn config(path: &Path) -> Result<Config, Error> {
    let (run, saved) = read(&newest(path)?)?;
    Ok(Config {
        epochs: saved.state.epochs_done,
        ..run.config
    })
}

/// The newest checkpoint of a folder.
fn newest(path: &Path) -> Result<Checkpoint, Error> {
    Checkpoint::newest(path, FILES)?.ok_or_else(|| {
        let what = "there is no complete checkpoint: expected a run's folder";
        let message = format!("{}: {what}", path.display());
        Error::new(ErrorKind::Checkpoint, message)
    })
}

fn check_graph(run: &Run, hash: u64, path: &Path) -> Result<(), Error> {
    if run.graph_hash == hash {
        return Ok(());
    }
    let message = format!(
        "{}: a run on another graph: expected the same file, read in the same way",
        path.display()
    );
    Err(Error::new(ErrorKind::Checkpoint, message))
}

fn read(checkpoint: &Checkpoint) -> Result<(Run, Saved), Error> {
    let run: Run = checkpoint.json(RUN, SCHEMA_VERSION)?;
    run.config.check()?;
    let (state, train_nodes) = State::read(
        checkpoint,
        run.config.hidden.len() + 1,
        run.config.has_first_table(),
    )?;
    let saved = Saved {
        config: run.config.clone(),
        state,
        train_nodes,
        n_classes: run.n_classes,
    };
    Ok((run, saved))
}
