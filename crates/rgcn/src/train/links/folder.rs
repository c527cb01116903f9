//! What a run that predicts links keeps in its folder, and what is read back from there.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Deadline};
use shardgraph_runs::{Checkpoint, Folder, Metrics, Tensors, fnv1a64, wall_time};

use super::super::state::gather;
use super::{LinkOptions, LinkReport, Peers, State, Trainer, layout_of};
use crate::links::config::LinkConfig;
use crate::links::data::{LinkData, Side};
use crate::links::decoder::Decoder;
use crate::links::ranking::{LinkScores, score_block};
use crate::{Edge, Error, ErrorKind};

/// The files of a checkpoint.
const FILES: &[&str] = &["state.safetensors", DECODER, RUN];
const RUN: &str = "links.json";
/// Of a run that predicts classes.
const CLASS_RUN: &str = "run.json";
const DECODER: &str = "decoder.safetensors";
const SCHEMA_VERSION: u32 = 1;

/// What a checkpoint says of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    config: LinkConfig,
    /// [`data_hash`] of what the run learns from.
    data_hash: u64,
    /// [`known_hash`] of what its ranks were filtered by; none in older checkpoints.
    #[serde(default)]
    known_hash: Option<u64>,
}

/// The names of the decoder's tensors.
const TENSORS: [&str; 3] = ["relations", "relations.first", "relations.second"];

/// A model that was trained to predict links, as read from its folder.
#[derive(Clone, Debug)]
pub struct SavedLinks {
    config: LinkConfig,
    pub(super) state: State,
    /// The relations' vectors and their two means.
    decoder: Vec<Vec<f32>>,
    known_hash: Option<u64>,
}

impl SavedLinks {
    /// The newest model of a folder, for the training triples that it learnt from.
    ///
    /// # Errors
    /// When the folder has no whole checkpoint of such a run, or the triples are not the run's.
    pub fn read(data: &LinkData, path: &Path) -> Result<SavedLinks, Error> {
        let newest = Checkpoint::newest(path, FILES)?.ok_or_else(|| {
            let what =
                "there is no complete checkpoint: expected the folder of a run that predicts links";
            Error::new(ErrorKind::Checkpoint, format!("{}: {what}", path.display()))
        })?;
        let (run, saved) = read(&newest)?;
        check_data(&run, data, path)?;
        Ok(saved)
    }

    /// Whether the newest checkpoint of a folder is that of a run that predicts links.
    ///
    /// # Errors
    /// When the folder cannot be read, or its checkpoints are damaged.
    pub fn is_in(path: &Path) -> Result<bool, Error> {
        match Checkpoint::newest_files(path, &[RUN]) {
            Ok(newest) => Ok(newest.is_some()),
            // The file of another kind of run, whatever became of its other files.
            Err(error) => match Checkpoint::newest_files(path, &[CLASS_RUN]) {
                Ok(_) => Ok(false),
                Err(_) => Err(error.into()),
            },
        }
    }

    /// The settings that the model was trained with.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Whether filtered ranks leave out the same triples as those of the run; none where its checkpoint does not say.
    #[must_use]
    pub fn has_filter_of_run(&self, data: &LinkData) -> Option<bool> {
        self.known_hash.map(|hash| hash == known_hash(data))
    }

    /// The epochs that it was trained for.
    #[must_use]
    pub fn epochs_done(&self) -> u32 {
        self.state.epochs_done
    }

    /// How well the validation and the test triples rank, where there are any.
    ///
    /// # Errors
    /// When the checkpoint does not fit its settings.
    pub fn rank(&self, data: &LinkData) -> Result<(Option<LinkScores>, Option<LinkScores>), Error> {
        self.with_trainer(data, |trainer, peers| {
            let valid = trainer.rank(data.valid(), peers)?;
            Ok((valid, trainer.rank(data.test(), peers)?))
        })
    }

    /// The nodes that score highest at the other end of a relation from `given`: the head of each candidate triple where `is_head` is set, else its
    /// tail; the best first, equal ones in the order of their ids.
    ///
    /// # Errors
    /// When the checkpoint does not fit its settings, or the node or the relation is not in the data.
    /// # Complexity
    /// One pass over all nodes' units after they are made from all training triples.
    pub fn complete(
        &self,
        data: &LinkData,
        (given, relation, is_head): (u32, u32, bool),
        n_best: usize,
    ) -> Result<Vec<Completion>, Error> {
        if given >= data.n_nodes() || relation >= data.n_relations() {
            let (n_nodes, n_relations) = (data.n_nodes(), data.n_relations());
            let message = format!(
                "node {given}, relation {relation}: expected ones below {n_nodes} and {n_relations}"
            );
            return Err(Error::new(ErrorKind::Graph, message));
        }
        let side = if is_head { Side::Head } else { Side::Tail };
        let triple = Edge {
            source: given,
            relation,
            target: given,
        };
        self.with_trainer(data, |trainer, peers| {
            trainer.encode_whole(peers)?;
            let mut scores = Vec::new();
            score_block(
                &trainer.decoder,
                trainer.units(),
                (&[triple], side),
                &mut scores,
            );
            let known: Vec<u32> = trainer.known.ends(triple, side).collect();
            let mut found: Vec<Completion> = (0..)
                .zip(scores)
                .map(|(node, score)| Completion {
                    node,
                    score,
                    is_known: known.binary_search(&node).is_ok(),
                })
                .collect();
            found.sort_by(|a, b| b.score.total_cmp(&a.score));
            found.truncate(n_best);
            Ok(found)
        })
    }

    /// Runs `body` with the model as it was when it was saved.
    pub(super) fn with_trainer<R>(
        &self,
        data: &LinkData,
        body: impl FnOnce(&mut Trainer<'_>, &mut Peers<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let graph = data.messages(data.train())?;
        let layout = layout_of(&graph, &self.config)?;
        let mut comm = Comm::solo();
        let peers = &mut Peers {
            comm: &mut comm,
            deadline: Deadline::default(),
        };
        let mut trainer = Trainer::new(data, &self.config, &layout)?;
        trainer.load(self.clone(), peers)?;
        body(&mut trainer, peers)
    }

    /// Puts the decoder's tensors in their place.
    pub(super) fn load_decoder(&self, decoder: &mut Decoder) -> Result<(), Error> {
        let moments = &mut decoder.moments;
        let places = [
            &mut decoder.relations,
            &mut moments.first,
            &mut moments.second,
        ];
        for ((place, values), name) in places.into_iter().zip(&self.decoder).zip(TENSORS) {
            if place.len() != values.len() {
                let (n, expected) = (values.len(), place.len());
                let message =
                    format!("checkpoint: tensor {name} has {n} numbers, expected {expected}");
                return Err(Error::new(ErrorKind::Checkpoint, message));
            }
            place.clone_from(values);
        }
        Ok(())
    }
}

/// A node that may be at the other end of a relation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// The node.
    pub node: u32,
    /// The score of the triple; higher is likelier.
    pub score: f32,
    /// Whether the triple is among those to learn from, to choose by or to test on.
    pub is_known: bool,
}

/// The folder of a run that takes steps.
pub(super) struct LinkFolder {
    folder: Folder,
    metrics: Metrics,
    data_hash: u64,
    known_hash: u64,
}

impl LinkFolder {
    /// Appends an epoch to the metrics.
    pub(super) fn append(&mut self, report: &LinkReport) -> Result<(), Error> {
        let mut scalars = vec![("losses/loss", report.loss as f32)];
        if let Some(valid) = &report.valid {
            scalars.push(("charts/valid_mrr", valid.filtered.mrr as f32));
            scalars.push(("charts/valid_hits_at_10", valid.filtered.hits_at_10 as f32));
        }
        Ok(self.metrics.append(wall_time(), report, &scalars)?)
    }

    /// Writes a checkpoint, which promises the metrics before it.
    pub(super) fn checkpoint(
        &mut self,
        trainer: &mut Trainer<'_>,
        n_done: u32,
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        let Some(state) = gather(&mut trainer.network, n_done, peers)? else {
            return Ok(()); // There is one rank, which has it.
        };
        let mut checkpoint = Checkpoint::new(n_done.into());
        state.write(&mut checkpoint, &[])?;
        let decoder = &trainer.decoder;
        let moments = &decoder.moments;
        let mut tensors = Tensors::new();
        let values = [&decoder.relations, &moments.first, &moments.second];
        for (name, values) in TENSORS.into_iter().zip(values) {
            tensors.add_f32(name, values)?;
        }
        checkpoint.add(DECODER, tensors.to_bytes()?)?;
        let run = Run {
            config: trainer.config.clone(),
            data_hash: self.data_hash,
            known_hash: Some(self.known_hash),
        };
        checkpoint.add_json(RUN, SCHEMA_VERSION, &run)?;
        Ok(self.folder.write_checkpoint(&checkpoint, &self.metrics)?)
    }
}

/// The hash of the sizes and of the training triples in their order.
fn data_hash(data: &LinkData) -> u64 {
    let triples = data.train().iter();
    let words = triples.flat_map(|triple| [triple.source, triple.relation, triple.target]);
    let sizes = [data.n_nodes(), data.n_relations()];
    fnv1a64(sizes.into_iter().chain(words).flat_map(u32::to_le_bytes))
}

/// The hash of all triples that are known, in whichever set and order.
fn known_hash(data: &LinkData) -> u64 {
    let words = data.known().into_iter().flatten();
    fnv1a64(words.flat_map(u32::to_le_bytes))
}

/// The settings that hold, the folder if one is wanted, and the model to go on from.
pub(super) fn begin(
    data: &LinkData,
    config: &LinkConfig,
    options: &LinkOptions,
) -> Result<(LinkConfig, Option<LinkFolder>, Option<SavedLinks>), Error> {
    let Some(path) = &options.folder else {
        if options.resume {
            return Err(Error::config("resume", true, "a folder to resume from"));
        }
        return Ok((config.clone(), None, None));
    };
    let opened = |folder: Folder| -> Result<LinkFolder, Error> {
        Ok(LinkFolder {
            metrics: folder.open_metrics(wall_time())?,
            folder,
            data_hash: data_hash(data),
            known_hash: known_hash(data),
        })
    };
    if !options.resume {
        let folder = opened(Folder::of_new_run(path, FILES, &[])?)?;
        return Ok((config.clone(), Some(folder), None));
    }
    let (folder, checkpoint) = Folder::of_old_run(path, FILES)?;
    let (run, saved) = read(&checkpoint)?;
    check_data(&run, data, path)?;
    let (n_done, epochs) = (saved.epochs_done(), config.encoder.epochs);
    if n_done > epochs {
        let what = format!("{n_done} epochs are done: expected --epochs of at least as many");
        let message = format!("{}: {what}", path.display());
        return Err(Error::new(ErrorKind::Checkpoint, message));
    }
    let mut config = run.config;
    config.encoder.epochs = epochs;
    Ok((config, Some(opened(folder)?), Some(saved)))
}

fn check_data(run: &Run, data: &LinkData, path: &Path) -> Result<(), Error> {
    if run.data_hash == data_hash(data) {
        return Ok(());
    }
    let what = "a run on other triples: expected the same files, read in the same way";
    let message = format!("{}: {what}", path.display());
    Err(Error::new(ErrorKind::Checkpoint, message))
}

fn read(checkpoint: &Checkpoint) -> Result<(Run, SavedLinks), Error> {
    let run: Run = checkpoint.json(RUN, SCHEMA_VERSION)?;
    run.config.check()?;
    let n_layers = run.config.encoder.hidden.len() + 1;
    let (state, _) = State::read(checkpoint, n_layers, run.config.encoder.has_first_table())?;
    let tensors = checkpoint.tensors(DECODER)?;
    let mut decoder = Vec::new();
    for name in TENSORS {
        decoder.push(tensors.f32s(name)?);
    }
    let saved = SavedLinks {
        config: run.config.clone(),
        state,
        decoder,
        known_hash: run.known_hash,
    };
    Ok((run, saved))
}
