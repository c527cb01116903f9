//! The folder of a run that learns classes: the description of the run beside its state.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_job::Checkpoint;
use shardgraph_storage::hash_numbers;

use super::RunOptions;
use super::run::{RunFolder, check_epochs, newest, refuse};
use super::state::State;
use crate::{Config, Error, Features, Labels, RelationalGraph};

/// The files of a checkpoint.
const FILES: &[&str] = &["state.safetensors", RUN];
pub(crate) const RUN: &str = "run.json";
const SCHEMA_VERSION: u32 = 1;

/// The description of a run in its checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    config: Config,
    n_classes: u32,
    class_names: Vec<String>,
    /// [`graph_hash`] of the run's graph.
    graph_hash: u64,
    /// [`labels_hash`] of the run's training labels.
    labels_hash: u64,
}

impl Run {
    pub(super) fn new(
        graph: &RelationalGraph,
        labels: &Labels,
        config: &Config,
        class_names: &[String],
    ) -> Run {
        Run {
            config: config.clone(),
            n_classes: labels.n_classes(),
            class_names: class_names.to_vec(),
            graph_hash: graph_hash(graph),
            labels_hash: labels_hash(labels),
        }
    }

    /// The checkpoint of a state, with the nodes to learn from in ascending order.
    pub(super) fn checkpoint(
        &self,
        state: &State,
        train_nodes: &[u32],
    ) -> Result<Checkpoint, Error> {
        let mut checkpoint = Checkpoint::new(state.epochs_done.into());
        state.write(&mut checkpoint, train_nodes)?;
        checkpoint.add_json(RUN, SCHEMA_VERSION, self)?;
        Ok(checkpoint)
    }
}

/// A trained model as read from a folder.
pub(super) struct Saved {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) train_nodes: Vec<u32>,
    pub(super) n_classes: u32,
    pub(super) class_names: Vec<String>,
}

/// The start of a run: the settings that hold, the folder if one is wanted, and the state to go on
/// from.
pub(super) struct Begun {
    pub(super) config: Config,
    pub(super) folder: Option<RunFolder>,
    pub(super) state: Option<State>,
}

/// The hash of a graph's sizes and edges in their order.
pub(super) fn graph_hash(graph: &RelationalGraph) -> u64 {
    let (sources, relations, targets) = graph.columns();
    let sizes = [graph.n_nodes(), graph.n_relations()];
    let words = sizes.iter().chain(sources).chain(relations).chain(targets);
    let features = graph.features().map_or(&[][..], Features::values);
    let features = features.iter().map(|x| x.to_bits());
    hash_numbers(words.copied().chain(features))
}

/// The hash of the training labels in the order of their nodes.
fn labels_hash(labels: &Labels) -> u64 {
    let mut train = labels.train().to_vec();
    train.sort_unstable();
    let words = train.iter().flat_map(|&(node, class)| [node, class]);
    hash_numbers([labels.n_classes()].into_iter().chain(words))
}

/// Begins a run, or goes on with that of its folder.
pub(super) fn begin(
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    options: &RunOptions,
) -> Result<Begun, Error> {
    let Some(path) = &options.folder else {
        if options.resume {
            return Err(Error::config("resume", true, "a folder to resume from"));
        }
        return Ok(Begun {
            config: config.clone(),
            folder: None,
            state: None,
        });
    };
    // Before the folder exists: a refused run leaves none behind.
    config.check()?;
    labels.check_nodes(graph)?;
    let (folder, checkpoint) = RunFolder::open(path, options.resume, FILES)?;
    let mut config = config.clone();
    let mut state = None;
    if let Some(checkpoint) = checkpoint {
        let (run, saved) = read(&checkpoint)?;
        check_graph(&run, graph, path)?;
        if run.labels_hash != labels_hash(labels) {
            let what = "training labels that are not the run's: expected those it began with";
            return Err(refuse(path, what));
        }
        check_epochs(path, saved.state.epochs_done, config.epochs)?;
        config = Config {
            epochs: config.epochs,
            ..run.config
        };
        state = Some(saved.state);
    }
    Ok(Begun {
        config,
        folder: Some(folder),
        state,
    })
}

/// The newest model of a folder.
pub(super) fn newest_model(path: &Path) -> Result<Saved, Error> {
    let (_, saved) = read(&newest(path, FILES, "a run's folder")?)?;
    Ok(saved)
}

/// The newest model of a folder, for this graph.
pub(super) fn saved(graph: &RelationalGraph, path: &Path) -> Result<Saved, Error> {
    let (run, saved) = read(&newest(path, FILES, "a run's folder")?)?;
    check_graph(&run, graph, path)?;
    Ok(saved)
}

fn check_graph(run: &Run, graph: &RelationalGraph, path: &Path) -> Result<(), Error> {
    match run.graph_hash == graph_hash(graph) {
        true => Ok(()),
        false => {
            let what = "a run on another graph: expected the same file, read in the same way";
            Err(refuse(path, what))
        }
    }
}

fn read(checkpoint: &Checkpoint) -> Result<(Run, Saved), Error> {
    let run: Run = checkpoint.json(RUN, SCHEMA_VERSION)?;
    run.config.check()?;
    let (state, train_nodes) = State::read(checkpoint, &run.config)?;
    let saved = Saved {
        config: run.config.clone(),
        state,
        train_nodes,
        n_classes: run.n_classes,
        class_names: run.class_names.clone(),
    };
    Ok((run, saved))
}
