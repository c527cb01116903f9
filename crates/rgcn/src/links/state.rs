//! The state of a run that predicts links: the encoder's and the decoder's tensors, and the
//! description of the run in its folder.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_job::{Checkpoint, RunPlace, Tensors};
use shardgraph_storage::hash_numbers;

use super::config::LinkConfig;
use super::data::LinkData;
use super::decoder::Decoder;
use super::embeddings::Embeddings;
use super::options::LinkOptions;
use super::ranking::LinkScores;
use crate::Error;
use crate::memory::Array;
use crate::train::run::{check_epochs, refuse};
use crate::train::state::{Params, State};

/// The files of a checkpoint.
pub(super) const FILES: &[&str] = &["state.safetensors", DECODER, RUN];
pub(super) const RUN: &str = "links.json";
const DECODER: &str = "decoder.safetensors";
const SCHEMA_VERSION: u32 = 1;

/// The names of the decoder's tensors.
const TENSORS: [&str; 3] = ["relations", "relations.first", "relations.second"];
const BEST_RELATIONS: &str = "best.relations";
const BEST_UNITS: &str = "best.units";
/// Those of nodes' vectors, where nothing encodes.
const UNITS: [&str; 3] = ["units", "units.first", "units.second"];

/// The description of a run in its checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) config: LinkConfig,
    /// [`data_hash`] of the triples that the run learns from.
    data_hash: u64,
    /// Nodes and relations; none in older checkpoints.
    #[serde(default)]
    sizes: Option<[u32; 2]>,
    /// [`known_hash`] of the triples that its ranks were filtered by; none in older checkpoints.
    #[serde(default)]
    pub(super) known_hash: Option<u64>,
    /// The best ranks of the validation triples, whose parameters are kept beside the last ones.
    #[serde(default)]
    best: Option<BestRanks>,
    /// The best ranks before an encoder's layers joined.
    #[serde(default)]
    decoder_alone: Option<BestRanks>,
}

/// The epoch that ranked the validation triples best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BestRanks {
    pub(super) epoch: u32,
    pub(super) scores: LinkScores,
}

/// The parameters after the epoch that ranked the validation triples best.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) epoch: u32,
    pub(super) scores: LinkScores,
    pub(super) relations: Array<f32>,
    pub(super) nodes: BestNodes,
}

/// The encoder's parameters, or nodes' vectors.
#[derive(Clone, Debug)]
pub(super) enum BestNodes {
    /// Of one rank; as read, none: the encoder's own state has those of all ranks.
    Encoded(Params),
    Embedded(Array<f32>),
}

impl Best {
    pub(super) fn ranks(&self) -> BestRanks {
        BestRanks {
            epoch: self.epoch,
            scores: self.scores,
        }
    }

    /// Refuses parameters of other lengths than the model's.
    pub(super) fn check(&self, decoder: &Decoder, n_units: usize) -> Result<(), Error> {
        let (found, expected) = (self.relations.len(), decoder.relations.len());
        check_length(BEST_RELATIONS, found, expected)?;
        match &self.nodes {
            BestNodes::Encoded(_) => Ok(()),
            BestNodes::Embedded(units) => check_length(BEST_UNITS, units.len(), n_units),
        }
    }

    fn add_to(&self, tensors: &mut Tensors) -> Result<(), Error> {
        tensors.add_f32(BEST_RELATIONS, &self.relations)?;
        if let BestNodes::Embedded(units) = &self.nodes {
            tensors.add_f32(BEST_UNITS, units)?;
        }
        Ok(())
    }

    /// The best parameters in a checkpoint but those of an encoder.
    fn read(tensors: &Tensors<'_>, config: &LinkConfig, ranks: BestRanks) -> Result<Best, Error> {
        let nodes = match config.encode {
            false => BestNodes::Embedded(tensors.f32s(BEST_UNITS)?.into()),
            true => BestNodes::Encoded(Params::default()),
        };
        Ok(Best {
            epoch: ranks.epoch,
            scores: ranks.scores,
            relations: tensors.f32s(BEST_RELATIONS)?.into(),
            nodes,
        })
    }
}

impl Run {
    pub(super) fn new(data: &LinkData, config: &LinkConfig) -> Run {
        Run {
            config: config.clone(),
            data_hash: data_hash(data),
            known_hash: Some(known_hash(data)),
            sizes: Some(sizes(data)),
            best: None,
            decoder_alone: None,
        }
    }

    pub(super) fn checkpoint(
        mut self,
        state: &LinkState,
        best: Option<&Best>,
        decoder_alone: Option<BestRanks>,
    ) -> Result<Checkpoint, Error> {
        self.best = best.map(Best::ranks);
        self.decoder_alone = decoder_alone;
        let mut checkpoint = Checkpoint::new(state.encoder.epochs_done.into());
        state.encoder.write(&mut checkpoint, &[])?;
        let mut tensors = Tensors::new();
        for (name, values) in TENSORS.into_iter().zip(&state.decoder) {
            tensors.add_f32(name, values)?;
        }
        for (name, values) in UNITS.into_iter().zip(state.embeddings.iter().flatten()) {
            tensors.add_f32(name, values)?;
        }
        if let Some(best) = best {
            best.add_to(&mut tensors)?;
        }
        checkpoint.add(DECODER, tensors.to_bytes()?)?;
        checkpoint.add_json(RUN, SCHEMA_VERSION, &self)?;
        Ok(checkpoint)
    }

    /// Refuses other training triples than the run's.
    pub(super) fn check_data(&self, data: &LinkData, path: &Path) -> Result<(), Error> {
        match self.data_hash == data_hash(data) {
            true => Ok(()),
            false => {
                let [n_nodes, n_relations] = sizes(data);
                let found = format!("{n_nodes} nodes and {n_relations} relations");
                let what = match self.sizes.filter(|of_run| *of_run != sizes(data)) {
                    None => "expected the same files, read in the same way".to_owned(),
                    Some([n_nodes, n_relations]) => format!(
                        "these files have {found}, the run had {n_nodes} and {n_relations}: expected its files, and to test on triples of its nodes and relations"
                    ),
                };
                let what = &format!("a run on other triples: {what}");
                Err(refuse(path, what))
            }
        }
    }
}

/// The parameters of a model that predicts links.
#[derive(Clone, Debug)]
pub(super) struct LinkState {
    pub(super) encoder: State,
    /// The relations' vectors and their two means.
    decoder: [Vec<f32>; 3],
    /// Nodes' vectors and their two means, where nothing encodes.
    embeddings: Option<[Array<f32>; 3]>,
    pub(super) best: Option<Best>,
    pub(super) decoder_alone: Option<BestRanks>,
}

impl LinkState {
    pub(super) fn new(
        encoder: State,
        decoder: &Decoder,
        embeddings: Option<[Array<f32>; 3]>,
    ) -> LinkState {
        let moments = &decoder.moments;
        let tensors = [&decoder.relations[..], &moments.first, &moments.second];
        LinkState {
            encoder,
            decoder: tensors.map(<[f32]>::to_vec),
            embeddings,
            best: None,
            decoder_alone: None,
        }
    }

    /// Puts the decoder's tensors in their place.
    pub(super) fn load_decoder(&self, decoder: &mut Decoder) -> Result<(), Error> {
        let moments = &mut decoder.moments;
        let places = [
            &mut decoder.relations[..],
            &mut moments.first,
            &mut moments.second,
        ];
        for ((place, values), name) in places.into_iter().zip(&self.decoder).zip(TENSORS) {
            check_length(name, values.len(), place.len())?;
            place.copy_from_slice(values);
        }
        Ok(())
    }

    /// Puts nodes' vectors in their place.
    pub(super) fn load_embeddings(&self, embeddings: &mut Embeddings) -> Result<(), Error> {
        let empty = Default::default();
        let saved = self.embeddings.as_ref().unwrap_or(&empty);
        for ((values, expected), name) in saved.iter().zip(embeddings.lengths()).zip(UNITS) {
            check_length(name, values.len(), expected)?;
        }
        embeddings.load(saved);
        Ok(())
    }
}

fn check_length(name: &str, n: usize, expected: usize) -> Result<(), Error> {
    match n == expected {
        true => Ok(()),
        false => {
            let message = format!("checkpoint: tensor {name} has {n} numbers, expected {expected}");
            Err(Error::new(Error::Checkpoint, message))
        }
    }
}

/// The description and the state in a checkpoint.
pub(super) fn read(checkpoint: &Checkpoint) -> Result<(Run, LinkState), Error> {
    let run: Run = checkpoint.json(RUN, SCHEMA_VERSION)?;
    run.config.check()?;
    let encoder = match run.config.encode {
        true => State::read(checkpoint, &run.config.encoder, run.best.is_some())?.0,
        false => State::empty(
            u32::try_from(checkpoint.step()).unwrap_or(u32::MAX),
            Vec::new(),
        ),
    };
    let tensors = checkpoint.tensors(DECODER)?;
    let mut decoder = [const { Vec::new() }; 3];
    for (values, name) in decoder.iter_mut().zip(TENSORS) {
        *values = tensors.f32s(name)?;
    }
    let mut embeddings = None;
    if !run.config.encode {
        let mut units: [Array<f32>; 3] = Default::default();
        for (values, name) in units.iter_mut().zip(UNITS) {
            *values = tensors.f32s(name)?.into();
        }
        embeddings = Some(units);
    }
    let best = run
        .best
        .map(|ranks| Best::read(&tensors, &run.config, ranks))
        .transpose()?;
    let state = LinkState {
        encoder,
        decoder,
        embeddings,
        best,
        decoder_alone: run.decoder_alone,
    };
    Ok((run, state))
}

/// The hash of the sizes and of the training triples in their order.
fn data_hash(data: &LinkData) -> u64 {
    let triples = data.train().iter();
    let words = triples.flat_map(|triple| [triple.source, triple.relation, triple.target]);
    hash_numbers(sizes(data).into_iter().chain(words))
}

/// Nodes and relations.
fn sizes(data: &LinkData) -> [u32; 2] {
    [data.n_nodes(), data.n_relations()]
}

/// The hash of all triples that are known, in whichever set and order.
pub(super) fn known_hash(data: &LinkData) -> u64 {
    hash_numbers(data.known().into_iter().flatten())
}

/// The epochs that the run in a folder was to have, by its newest checkpoint; none without one.
///
/// # Errors
/// A checkpoint that cannot be read.
pub fn target_link_epochs(path: &Path) -> Result<Option<u32>, Error> {
    let newest = Checkpoint::newest_files(path, &[RUN])?;
    let run = newest.map(|newest| newest.json::<Run>(RUN, SCHEMA_VERSION));
    Ok(run.transpose()?.map(|run| run.config.encoder.epochs))
}

/// The folder of a run that predicts links.
pub(super) fn place(options: &LinkOptions) -> RunPlace {
    RunPlace {
        folder: options.folder.clone(),
        resume: options.resume,
        files: FILES,
        results: &[],
    }
}

/// The settings and the state of a checkpoint, for these triples to go on with to so many epochs.
pub(super) fn resumed(
    checkpoint: &Checkpoint,
    data: &LinkData,
    options: &LinkOptions,
    epochs: u32,
) -> Result<(LinkConfig, LinkState), Error> {
    let (mut run, state) = read(checkpoint)?;
    let path = options.folder.as_deref().unwrap_or(Path::new(""));
    run.check_data(data, path)?;
    check_epochs(path, state.encoder.epochs_done, epochs)?;
    run.config.encoder.epochs = epochs;
    Ok((run.config, state))
}
