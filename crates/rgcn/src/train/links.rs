//! Training that predicts links: batches of triples, messages along some of them, a decoder over all nodes' units.

mod folder;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Deadline};
use shardgraph_device::Timer;

pub use folder::{Completion, SavedLinks};

use super::due::Due;
use super::state::{State, params_hash};
use crate::links::config::LinkConfig;
use crate::links::data::{Known, LinkData};
use crate::links::decoder::{Chunk, Decoder, DecoderGradients};
use crate::links::ranking::{LinkScores, rank};
use crate::links::sampling;
use crate::model::gradients::{Gradients, squares};
use crate::model::kernel::largest_magnitude;
use crate::model::network::{Network, Peers, diverged};
use crate::model::optimiser::Rule;
use crate::model::plan::{Extent, LayerPlan, Layout};
use crate::partition::{CostModel, Method};
use crate::{Edge, Error, RelationalGraph};

/// Where a run that predicts links is kept.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// Where checkpoints and metrics go; absent means nowhere.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// Epochs between two checkpoints; 0: none but those of `checkpoint_s`, and the last.
    pub checkpoint_epochs: u32,
    /// Seconds between two checkpoints, at least ten times what the last one took; absent: epochs decide alone.
    pub checkpoint_s: Option<f64>,
}

/// What an epoch did; without its time, one line of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Epochs done, this one included.
    pub step: u64,
    /// The mean loss of the training triples, each before its batch's step; without the decoder's L2.
    pub loss: f64,
    /// How well the validation triples rank, where they were ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<LinkScores>,
    /// Milliseconds of the epoch, rankings not among them.
    #[serde(skip)]
    pub epoch_ms: f64,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct LinkOutcome {
    /// The settings that held: after a resume those of the checkpoint.
    pub config: LinkConfig,
    /// The epochs that this call ran (after a resume: not those before).
    pub reports: Vec<LinkReport>,
    /// How well the validation triples rank at the end, where there are any.
    pub valid: Option<LinkScores>,
    /// How well the test triples rank, where there are any.
    pub test: Option<LinkScores>,
    /// A hash of all parameters: equal hashes are equal models.
    pub params_hash: u64,
    /// Bytes of parameters, moments, plans and units; without the triples and what a step takes and gives back.
    pub n_bytes: u64,
}

/// Trains an encoder and a decoder that predict links, and ranks those of the validation and the test set.
///
/// A step takes a batch of the training triples, sends messages along those that are not dropped, in both directions, and scores each
/// against corrupted ones. Rankings send messages along all training triples. With a folder, writes `metrics.jsonl` (a [`LinkReport`] a
/// line), the same values for TensorBoard, and checkpoints. When resuming, only the encoder's epochs are taken from `config`.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, or training diverges.
/// # Determinism
/// The same reports, parameters and files, bit for bit, also when the run was stopped and resumed at a checkpoint.
/// # Complexity
/// A step is O((pairs * units / blocks + batch * negatives) * width) and one pass over all parameters; memory is four times the embedding and the
/// relations' weights with Adam, and a few rows of units for each node.
/// # Source
/// Schlichtkrull et al., "Modeling relational data with graph convolutional networks", sections 4 and 5.2; Yang et al., "Embedding entities
/// and relations for learning and inference in knowledge bases", for DistMult.
///
/// ```
/// use shardgraph_rgcn::{Config, LinkConfig, LinkData, LinkOptions, RelationalGraph, train_links};
///
/// // Who is a neighbour of whom, on a ring; two links are kept for a test.
/// let (from, to): (Vec<u32>, Vec<u32>) = (0..8).map(|node| (node, (node + 1) % 8)).unzip();
/// let graph = RelationalGraph::new(8, 1, from, vec![0; 8], to)?;
/// let data = LinkData::new(&graph, 0..6, 0..0, 6..8)?;
/// let mut config = LinkConfig { width: 8, ..LinkConfig::default() };
/// config.encoder = Config { embedding: 8, hidden: vec![8], blocks: 2, epochs: 5, ..config.encoder };
/// let outcome = train_links(&data, &config, &LinkOptions::default(), &mut |_| ())?;
/// assert_eq!(outcome.test.unwrap().filtered.n_ranks, 4);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
pub fn train_links(
    data: &LinkData,
    config: &LinkConfig,
    options: &LinkOptions,
    progress: &mut dyn FnMut(&LinkReport),
) -> Result<LinkOutcome, Error> {
    config.check()?;
    let (config, mut folder, saved) = folder::begin(data, config, options)?;
    let graph = data.messages(data.train())?;
    let layout = layout_of(&graph, &config)?;
    let mut comm = Comm::solo();
    let peers = &mut Peers {
        comm: &mut comm,
        deadline: Deadline::default(),
    };
    let mut trainer = Trainer::new(data, &config, &layout)?;
    let begin = match saved {
        None => 0,
        Some(saved) => trainer.load(saved, peers)?,
    };
    let n_epochs = config.encoder.epochs;
    let mut due = Due::new(n_epochs, options.checkpoint_epochs, options.checkpoint_s);
    let mut reports = Vec::new();
    for epoch in begin..n_epochs {
        let report = trainer.reported(epoch, peers)?;
        progress(&report);
        if let Some(folder) = &mut folder {
            trainer.keep(&report, (folder, &mut due), peers)?;
        }
        reports.push(report);
    }
    trainer.check_finite(peers)?;
    let last = reports.last().and_then(|report| report.valid);
    Ok(LinkOutcome {
        valid: match last {
            Some(valid) => Some(valid),
            None => trainer.rank(data.valid(), peers)?,
        },
        test: trainer.rank(data.test(), peers)?,
        params_hash: trainer.params_hash(peers)?,
        n_bytes: trainer.n_bytes(),
        config: config.clone(),
        reports,
    })
}

/// The layout of the messages along some triples; all nodes are in all of its sets, because of the self loop.
fn layout_of<'g>(graph: &'g RelationalGraph, config: &LinkConfig) -> Result<Layout<'g>, Error> {
    let extent = Extent {
        n_layers: config.encoder.hidden.len() + 1,
        n_ranks: 1,
        max_blocks: 1,
        normaliser: config.encoder.normaliser,
        method: Method::Source,
        model: CostModel::of(&config.encoder),
    };
    Layout::new(graph, true, None, extent)
}

/// A model and what its steps work with.
struct Trainer<'a> {
    data: &'a LinkData,
    config: &'a LinkConfig,
    network: Network<'a>,
    decoder: Decoder,
    /// The messages along all training triples.
    whole: Vec<Arc<LayerPlan>>,
    known: Known,
}

impl<'a> Trainer<'a> {
    fn new(
        data: &'a LinkData,
        config: &'a LinkConfig,
        layout: &'a Layout<'a>,
    ) -> Result<Trainer<'a>, Error> {
        let network = Network::new(&config.encoder, layout, 0, config.width as u32)?;
        Ok(Trainer {
            data,
            config,
            decoder: Decoder::new(&config.encoder, data.n_relations(), config.width),
            whole: network.plans.clone(),
            known: Known::new(data.all()),
            network,
        })
    }

    /// Takes over a checkpoint's parameters; the epochs that it has done.
    fn load(&mut self, saved: SavedLinks, peers: &mut Peers<'_>) -> Result<u32, Error> {
        saved.state.load(&mut self.network, peers)?;
        saved.load_decoder(&mut self.decoder)?;
        Ok(saved.state.epochs_done)
    }

    /// Whether the validation triples are ranked after so many epochs.
    fn is_ranked(&self, n_done: u32) -> bool {
        let every = self.config.valid_epochs;
        n_done == self.config.encoder.epochs || (every > 0 && n_done.is_multiple_of(every))
    }

    /// An epoch, and the ranks of the validation triples where they are due.
    fn reported(&mut self, epoch: u32, peers: &mut Peers<'_>) -> Result<LinkReport, Error> {
        let mut report = self.epoch(epoch, peers)?;
        if self.is_ranked(epoch + 1) {
            report.valid = self.rank(self.data.valid(), peers)?;
        }
        Ok(report)
    }

    /// Appends an epoch to a folder's metrics, and writes a checkpoint where one is due; neither where a parameter is no number.
    fn keep(
        &mut self,
        report: &LinkReport,
        (folder, due): (&mut folder::LinkFolder, &mut Due),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        self.check_finite(peers)?;
        folder.append(report)?;
        let n_done = report.step as u32;
        match due.is_now(n_done, peers)? {
            false => Ok(()),
            true => due.keep(|| folder.checkpoint(self, n_done, peers)),
        }
    }

    /// Refuses parameters that are no numbers, the decoder's among them.
    fn check_finite(&self, peers: &mut Peers<'_>) -> Result<(), Error> {
        self.network.check_finite(peers)?;
        match largest_magnitude(&self.decoder.relations).is_finite() {
            true => Ok(()),
            false => Err(diverged()),
        }
    }

    /// A pass over the training triples.
    fn epoch(&mut self, epoch: u32, peers: &mut Peers<'_>) -> Result<LinkReport, Error> {
        let timer = Timer::wall();
        let train = self.data.train();
        let order = sampling::order(self.config.encoder.seed, epoch, train.len());
        let batch = match self.config.batch {
            0 => train.len(),
            batch => train.len().min(batch as usize),
        };
        let first = u64::from(epoch) * order.len().div_ceil(batch) as u64;
        let mut loss = 0.0;
        for (step, batch) in (first..).zip(order.chunks(batch)) {
            let triples: Vec<Edge> = batch.iter().map(|&idx| train[idx as usize]).collect();
            loss += self.step(step, &triples, peers)?;
        }
        Ok(LinkReport {
            step: u64::from(epoch) + 1,
            loss: loss / train.len() as f64,
            valid: None,
            epoch_ms: timer.elapsed_s() * 1e3,
        })
    }

    /// One batch: messages, scores, gradients, step. The sum of its triples' losses.
    fn step(&mut self, step: u64, triples: &[Edge], peers: &mut Peers<'_>) -> Result<f64, Error> {
        let seed = self.config.encoder.seed;
        let kept = sampling::kept(seed, step, triples, self.config.edge_dropout);
        let graph = self.data.messages(&kept)?;
        self.network.plans = layout_of(&graph, self.config)?.plans(0);
        let n_steps = u32::try_from(step + 1).map_err(|_| {
            let expected = "fewer than 2^32 steps in all";
            Error::config("epochs", self.config.encoder.epochs, expected)
        })?;
        self.network.forward(peers, Some(n_steps - 1))?;
        let (loss, decoded) = self.decode(step, triples);
        if !loss.is_finite() {
            return Err(diverged());
        }
        let (mut gradients, of_relations) = self.encoder_gradients(decoded, n_steps, peers)?;
        let factor = self.clip(&mut gradients, &of_relations);
        let rule = Rule::new(&self.config.encoder, n_steps);
        self.network.step_collected(rule, &gradients);
        self.decoder.step(rule, of_relations, factor);
        Ok(loss)
    }

    /// The sum of the losses of triples, and the gradient of their mean with the decoder's L2.
    fn decode(&self, step: u64, triples: &[Edge]) -> (f64, DecoderGradients) {
        let units = self.units();
        let mut gradients = DecoderGradients {
            units: vec![0.0; units.len()],
            relations: vec![0.0; self.decoder.relations.len()],
        };
        let LinkConfig {
            negatives,
            share,
            loss,
            ..
        } = *self.config;
        let seed = self.config.encoder.seed;
        let scale = 1.0 / triples.len() as f32;
        let mut sum = 0.0;
        for (idx, triples) in triples.chunks(share as usize).enumerate() {
            let drawn = sampling::negatives(seed, step, idx, (negatives, self.data.n_nodes()));
            let chunk = Chunk {
                triples,
                negatives: &drawn,
            };
            sum += self
                .decoder
                .chunk(units, chunk, (loss, scale), &mut gradients);
        }
        let l2 = self.config.decoder_l2;
        add_decay(l2, units, &mut gradients.units);
        add_decay(l2, &self.decoder.relations, &mut gradients.relations);
        (sum, gradients)
    }

    /// The units of all nodes that the last layer made.
    fn units(&self) -> &[f32] {
        self.network.made.last().map_or(&[], Vec::as_slice)
    }

    /// The encoder's gradients from those of its units, and the decoder's own.
    fn encoder_gradients(
        &mut self,
        decoded: DecoderGradients,
        n_steps: u32,
        peers: &mut Peers<'_>,
    ) -> Result<(Gradients, Vec<f32>), Error> {
        let n_layers = self.network.layers.len();
        self.network.collected = Some(Gradients::of_layers(n_layers));
        self.network.backward(peers, decoded.units, n_steps)?;
        let collected = self.network.collected.take().unwrap_or_default();
        Ok((collected, decoded.relations))
    }

    /// Cuts gradients to the greatest length; the factor for the decoder's, which is left to its step.
    fn clip(&self, gradients: &mut Gradients, of_relations: &[f32]) -> f32 {
        if self.config.clip <= 0.0 {
            return 1.0;
        }
        let length = (self.network.squares_of(gradients) + squares(of_relations)).sqrt();
        let factor = (f64::from(self.config.clip) / length).min(1.0) as f32;
        if factor < 1.0 {
            gradients.scale(factor);
        }
        factor
    }

    /// How well triples rank with messages along all training triples; none where there are no triples.
    fn rank(
        &mut self,
        triples: &[Edge],
        peers: &mut Peers<'_>,
    ) -> Result<Option<LinkScores>, Error> {
        if triples.is_empty() {
            return Ok(None);
        }
        self.encode_whole(peers)?;
        Ok(Some(rank(
            &self.decoder,
            self.units(),
            triples,
            &self.known,
        )))
    }

    /// The units of all nodes from all training triples.
    fn encode_whole(&mut self, peers: &mut Peers<'_>) -> Result<(), Error> {
        self.network.plans = self.whole.clone();
        self.network.forward(peers, None)
    }

    fn params_hash(&mut self, peers: &mut Peers<'_>) -> Result<u64, Error> {
        let encoder = params_hash(&mut self.network, peers)?;
        let words = self.decoder.relations.iter().map(|x| x.to_bits());
        let bytes = words.flat_map(u32::to_le_bytes);
        Ok(shardgraph_runs::fnv1a64(
            encoder.to_le_bytes().into_iter().chain(bytes),
        ))
    }

    fn n_bytes(&self) -> u64 {
        let moments = &self.decoder.moments;
        let n_floats = self.decoder.relations.len() + moments.first.len() + moments.second.len();
        self.network.n_bytes() + 4 * n_floats as u64
    }
}

impl Decoder {
    /// Steps the relations' vectors along `factor` times their gradient.
    fn step(&mut self, rule: Rule, mut gradient: Vec<f32>, factor: f32) {
        gradient.iter_mut().for_each(|value| *value *= factor);
        let whole = 0..gradient.len();
        rule.step(&mut self.relations, &gradient, 0.0, self.moments.of(whole));
    }
}

/// Adds the gradient of `l2` times the mean square.
fn add_decay(l2: f32, values: &[f32], gradient: &mut [f32]) {
    let factor = 2.0 * l2 / values.len() as f32;
    if factor > 0.0 {
        for (gradient, value) in gradient.iter_mut().zip(values) {
            *gradient += factor * value;
        }
    }
}
