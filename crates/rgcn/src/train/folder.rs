//! The folder of a run that learns classes: the description of the run beside its state.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_device::DeviceKind;
use shardgraph_job::{Checkpoint, RunPlace};
use shardgraph_storage::hash_numbers;

use super::inputs::Inputs;
use super::options::RunOptions;
use super::report::ValidScores;
use super::run::{check_epochs, newest, refuse};
use super::state::State;
use crate::model::comm::RankComm;
use crate::model::network::Network;
use crate::{Config, Error, Features, Labels, RelationalGraph};

/// The files of a checkpoint.
const FILES: &[&str] = &["state.safetensors", RUN];
pub(crate) const RUN: &str = "run.json";
const SCHEMA_VERSION: u32 = 1;
const OTHER_GRAPH: &str = "a run on another graph: expected the same file, read in the same way; models with --features alone know nodes that training did not have";

/// The description of a run in its checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    config: Config,
    n_classes: u32,
    class_names: Vec<String>,
    /// Names of the graph's relations, without inverse ones; may be empty.
    #[serde(default)]
    relation_names: Vec<String>,
    /// Relations of the graph, inverse ones too.
    #[serde(default)]
    n_relations: u32,
    /// [`graph_hash`] of the run's graph.
    graph_hash: u64,
    /// [`labels_hash`] of the run's training labels.
    labels_hash: u64,
    /// The best epoch until now, whose parameters are kept beside the last ones.
    #[serde(default)]
    best: Option<BestEpoch>,
    /// The kind of device of the epochs.
    #[serde(default = "host")]
    device: String,
}

/// The device of runs whose description names none.
fn host() -> String {
    DeviceKind::Host.family().to_owned()
}

/// The epoch whose validation scores were the best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BestEpoch {
    pub(super) epoch: u32,
    pub(super) scores: ValidScores,
}

impl Run {
    pub(super) fn new(inputs: Inputs<'_>) -> Run {
        let Inputs {
            graph,
            labels,
            config,
            options,
        } = inputs;
        Run {
            config: config.clone(),
            n_classes: labels.n_classes(),
            class_names: options.class_names.clone(),
            relation_names: options.relation_names.clone(),
            n_relations: graph.n_relations(),
            graph_hash: graph_hash(graph),
            labels_hash: labels_hash(labels, config),
            best: None,
            device: options.device.kind().family().to_owned(),
        }
    }

    /// The same with the best epoch until now.
    pub(super) fn with_best(self, best: Option<BestEpoch>) -> Run {
        Run { best, ..self }
    }

    /// The checkpoint of a state, with the nodes whose outputs training makes in ascending order.
    pub(super) fn checkpoint(&self, state: &State, outputs: &[u32]) -> Result<Checkpoint, Error> {
        let mut checkpoint = Checkpoint::new(state.epochs_done.into());
        state.write(&mut checkpoint, outputs)?;
        checkpoint.add_json(RUN, SCHEMA_VERSION, self)?;
        Ok(checkpoint)
    }
}

/// A trained model, as read from a folder or as training left it.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) best: Option<BestEpoch>,
    /// The nodes whose outputs training made.
    pub(super) outputs: Vec<u32>,
    pub(super) n_classes: u32,
    pub(super) class_names: Vec<String>,
    pub(super) relation_names: Vec<String>,
    /// Relations of the graph, inverse ones too.
    n_relations: u32,
    /// [`graph_hash`] of the run's graph.
    graph_hash: u64,
}

impl Saved {
    /// The model that a run ended with, for the parameters in `state`.
    pub(super) fn of_run(run: Run, state: State, outputs: &[u32]) -> Saved {
        Saved {
            config: run.config,
            state,
            best: None,
            outputs: outputs.to_vec(),
            n_classes: run.n_classes,
            class_names: run.class_names,
            relation_names: run.relation_names,
            n_relations: run.n_relations,
            graph_hash: run.graph_hash,
        }
    }

    /// Refuses graphs that the model is not for: with features those of other numbers of relations,
    /// nodes may be others; else all but its own.
    pub(super) fn check_graph(&self, graph: &RelationalGraph, whose: &str) -> Result<(), Error> {
        let (found, expected) = (graph.n_relations(), self.n_relations);
        let what = match self.config.features {
            true if found == expected => return Ok(()),
            true => format!("a graph of {found} relations: expected the {expected} of the run"),
            false if self.graph_hash == graph_hash(graph) => return Ok(()),
            false if self.graph_hash == bare_hash(graph) => {
                "a model that reads no features: expected a graph without any".to_owned()
            }
            false => OTHER_GRAPH.to_owned(),
        };
        Err(Error::new(Error::Checkpoint, format!("{whose}: {what}")))
    }

    /// Gives a network the best parameters where they are kept, else the last ones.
    pub(super) fn load(
        &self,
        network: &mut Network<'_>,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        self.state.load(network, ranks)?;
        if let Some(best) = self.state.best(network, ranks)? {
            best.restore(network);
        }
        Ok(())
    }

    /// The epochs after which the model had its parameters.
    pub(super) fn params_epoch(&self) -> u32 {
        self.best.map_or(self.state.epochs_done, |best| best.epoch)
    }
}

/// The hash of a graph's sizes and edges in their order, and of its features.
pub(super) fn graph_hash(graph: &RelationalGraph) -> u64 {
    hash_with(graph, graph.features().map(Features::hash))
}

/// The same for a graph without its features.
fn bare_hash(graph: &RelationalGraph) -> u64 {
    hash_with(graph, None)
}

fn hash_with(graph: &RelationalGraph, features: Option<u64>) -> u64 {
    let (sources, relations, targets) = graph.columns();
    let sizes = [graph.n_nodes(), graph.n_relations()];
    let words = sizes.iter().chain(sources).chain(relations).chain(targets);
    let halves = features
        .into_iter()
        .flat_map(|hash| [(hash >> 32) as u32, hash as u32]);
    hash_numbers(words.copied().chain(halves))
}

/// The hash of the labels that decide what is learnt, in the order of their nodes: those to learn
/// from, and with patience those to validate on.
fn labels_hash(labels: &Labels, config: &Config) -> u64 {
    let valid = labels.valid().iter().filter(|_| config.patience > 0);
    let sets = [labels.train().to_vec(), valid.copied().collect()];
    let sorted = sets.into_iter().flat_map(|mut set| {
        set.sort_unstable();
        set
    });
    let words = sorted.flat_map(|(node, class)| [node, class]);
    hash_numbers([labels.n_classes()].into_iter().chain(words))
}

/// The folder of a run that learns classes.
pub(super) fn place(options: &RunOptions) -> RunPlace {
    RunPlace {
        folder: options.folder.clone(),
        resume: options.resume,
        files: FILES,
        results: &[],
    }
}

/// The run of a checkpoint, for these inputs to go on with.
pub(super) fn resumed(checkpoint: &Checkpoint, inputs: Inputs<'_>) -> Result<Saved, Error> {
    let Inputs {
        graph,
        labels,
        config,
        options,
    } = inputs;
    let (run, mut saved) = read(checkpoint)?;
    let path = options.folder.as_deref().unwrap_or(Path::new(""));
    check_graph(&run, graph, path)?;
    if run.labels_hash != labels_hash(labels, &run.config) {
        let what = "labels that are not the run's: expected those it began with";
        return Err(refuse(path, what));
    }
    checkpoint.check_device(&run.device, options.device.kind().family())?;
    check_epochs(path, saved.state.epochs_done, config.epochs)?;
    saved.config.epochs = config.epochs;
    Ok(saved)
}

/// The epochs that the run in a folder was to have, by its newest checkpoint; none without one.
///
/// # Errors
/// A checkpoint that cannot be read.
pub fn target_epochs(path: &Path) -> Result<Option<u32>, Error> {
    let newest = Checkpoint::newest_files(path, &[RUN])?;
    let run = newest.map(|newest| newest.json::<Run>(RUN, SCHEMA_VERSION));
    Ok(run.transpose()?.map(|run| run.config.epochs))
}

/// The newest model of a folder.
pub(super) fn newest_model(path: &Path) -> Result<Saved, Error> {
    let (_, saved) = read(&newest(path, FILES, "a run's folder")?)?;
    Ok(saved)
}

/// The newest model of a folder, for this graph.
pub(super) fn saved(graph: &RelationalGraph, path: &Path) -> Result<Saved, Error> {
    let (_, saved) = read(&newest(path, FILES, "a run's folder")?)?;
    saved.check_graph(graph, &path.display().to_string())?;
    Ok(saved)
}

fn check_graph(run: &Run, graph: &RelationalGraph, path: &Path) -> Result<(), Error> {
    match run.graph_hash == graph_hash(graph) {
        true => Ok(()),
        false => Err(refuse(path, OTHER_GRAPH)),
    }
}

fn read(checkpoint: &Checkpoint) -> Result<(Run, Saved), Error> {
    let run: Run = checkpoint.json(RUN, SCHEMA_VERSION)?;
    run.config.check()?;
    let (state, outputs) = State::read(checkpoint, &run.config, run.best.is_some())?;
    let saved = Saved {
        config: run.config.clone(),
        state,
        best: run.best,
        outputs,
        n_classes: run.n_classes,
        class_names: run.class_names.clone(),
        relation_names: run.relation_names.clone(),
        n_relations: run.n_relations,
        graph_hash: run.graph_hash,
    };
    Ok((run, saved))
}
