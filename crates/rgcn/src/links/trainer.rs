//! Training that predicts links: batches of triples, messages along some of them, a decoder over
//! all nodes' outputs.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Timer;
use shardgraph_job::Checkpoint;
use shardgraph_random::KeyedRng;
use shardgraph_storage::Hasher;

use super::config::LinkConfig;
use super::data::{Known, LinkData};
use super::decoder::{Chunk, Decoder, DecoderGradients, LossScale};
use super::ranking::{LinkScores, rank};
use super::sampling;
use super::state::{self, LinkState, Run};
use crate::error::diverged;
use crate::layer::coefficients::glorot;
use crate::layer::optimiser::{Moments, Rule};
use crate::layer::plan::LayerPlan;
use crate::layer::values::{largest_magnitude, squares};
use crate::model::comm::RankComm;
use crate::model::layout::{Extent, Layout, RankContext};
use crate::model::network::{Gradients, Network};
use crate::partition::Method;
use crate::train::run::{self, Trainer};
use crate::train::schedule::CheckpointSchedule;
use crate::train::state::{gather, params_hash};
use crate::{Edge, Error, RelationalGraph};

/// The folder of a run that predicts links.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// The folder for checkpoints and metrics; absent: none are written.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// Epochs between two checkpoints; 0: none but those of `checkpoint_s`, and the last.
    pub checkpoint_epochs: u32,
    /// Seconds between two checkpoints, at least ten times what the last one took; absent: epochs
    /// decide alone.
    pub checkpoint_s: Option<f64>,
}

/// The report of an epoch; without its time, one line of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Epochs done, this one included.
    pub step: u64,
    /// The mean loss of the training triples, each before its batch's step; without the decoder's
    /// L2.
    pub loss: f64,
    /// The ranks of the validation triples, where they were ranked.
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
    /// The epoch whose parameters the model has: with patience the best one, else the last.
    pub best_epoch: u32,
    /// The ranks of the validation triples by these parameters, where there are any.
    pub valid: Option<LinkScores>,
    /// The ranks of the test triples, where there are any.
    pub test: Option<LinkScores>,
    /// A hash of all parameters: equal hashes are equal models.
    pub params_hash: u64,
    /// Bytes of parameters, moments, plans and activations; without the triples and the buffers of
    /// a step.
    pub n_bytes: u64,
}

/// Trains an encoder and a decoder that predict links, and ranks those of the validation and the
/// test set.
///
/// A step takes a batch of the training triples, sends messages along those that are not dropped,
/// in both directions, and scores each against corrupted ones. Rankings send messages along all
/// training triples. With a folder, writes `metrics.jsonl` (a [`LinkReport`] a line), the same
/// values for TensorBoard, and checkpoints. When resuming, only the encoder's epochs are taken from
/// `config`.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, or
/// training diverges.
/// # Determinism
/// The same reports, parameters and files, bit for bit, also when the run was stopped and resumed
/// at a checkpoint.
/// # Complexity
/// A step is O((pairs * units / blocks + batch * negatives) * width) and one pass over all
/// parameters; memory is four times the embedding and the relations' weights with Adam, and a few
/// rows of units for each node.
/// # Source
/// Schlichtkrull et al., "Modeling relational data with graph convolutional networks", sections 4
/// and 5.2; Yang et al., "Embedding entities and relations for learning and inference in knowledge
/// bases", for DistMult.
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
    let mut begun = state::begin(data, config, options)?;
    let config = &begun.config;
    let graph = data.messages(data.train())?;
    let layout = layout_of(&graph, config)?;
    let ranks = &mut RankComm {
        comm: &mut Comm::solo(),
        deadline: Timeout::default(),
    };
    let mut trainer = LinkTrainer::new(data, config, &layout)?;
    let begin = match &begun.state {
        None => 0,
        Some(state) => trainer.load(state, ranks)?,
    };
    let schedule = CheckpointSchedule::new(
        config.encoder.epochs,
        options.checkpoint_epochs,
        options.checkpoint_s,
    );
    let folder = begun.folder.as_mut();
    let reports = run::run(&mut trainer, begin, schedule, folder, ranks, progress)?;
    let last = reports.last().and_then(|report| report.valid);
    let (best_epoch, best) = match &trainer.best {
        Some(best) => (best.epoch, Some(best.scores)),
        None => (begin + reports.len() as u32, last),
    };
    Ok(LinkOutcome {
        best_epoch,
        valid: match best {
            Some(valid) => Some(valid),
            None => trainer.rank(data.valid(), ranks)?,
        },
        test: trainer.rank(data.test(), ranks)?,
        params_hash: trainer.params_hash(ranks)?,
        n_bytes: trainer.n_bytes(),
        config: config.clone(),
        reports,
    })
}

/// The layout of the messages along some triples; all nodes are in all of its sets, because of the
/// self loop.
pub(super) fn layout_of<'g>(
    graph: &'g RelationalGraph,
    config: &LinkConfig,
) -> Result<Layout<'g>, Error> {
    let extent = Extent {
        max_blocks: 1,
        ..Extent::new(
            &config.encoder,
            config.width as u32,
            graph,
            1,
            Method::Source,
        )
    };
    Layout::new(graph, true, None, extent)
}

/// A model and the data of its steps.
pub(super) struct LinkTrainer<'a> {
    pub(super) data: &'a LinkData,
    config: &'a LinkConfig,
    pub(super) network: Network<'a>,
    pub(super) decoder: Decoder,
    /// The messages along all training triples.
    whole: Vec<Arc<LayerPlan>>,
    pub(super) known: Known,
    /// Vectors of nodes that are parameters, where nothing encodes.
    pub(super) free: Option<FreeUnits>,
    /// The best parameters, where training waits for better ones.
    best: Option<Best>,
    epochs_done: u32,
}

/// Vectors of nodes that are parameters themselves.
#[derive(Clone, Debug)]
pub(super) struct FreeUnits {
    pub(super) values: Vec<f32>,
    pub(super) moments: Moments,
}

impl FreeUnits {
    fn new(config: &LinkConfig, n_nodes: u32) -> FreeUnits {
        let mut values = vec![0.0; n_nodes as usize * config.width];
        let mut stream = KeyedRng::new(config.encoder.seed, "rgcn links units", 0);
        glorot(&mut stream, [n_nodes as usize, config.width], &mut values);
        FreeUnits {
            moments: Moments::new(config.encoder.optimiser, values.len()),
            values,
        }
    }
}

/// The parameters after the epoch that ranked the validation triples best.
struct Best {
    epoch: u32,
    scores: LinkScores,
    state: LinkState,
}

impl Trainer for LinkTrainer<'_> {
    type Report = LinkReport;

    /// A pass over the training triples, and the ranks of the validation triples where they are
    /// due.
    fn epoch(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<LinkReport, Error> {
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
            loss += self.step(step, &triples, ranks)?;
        }
        let epoch_ms = timer.elapsed_s() * 1e3;
        self.check_finite(ranks)?;
        let valid = match self.is_ranked(epoch + 1) {
            true => self.rank(self.data.valid(), ranks)?,
            false => None,
        };
        self.epochs_done = epoch + 1;
        self.keep_best(valid, ranks)?;
        Ok(LinkReport {
            step: u64::from(epoch) + 1,
            loss: loss / train.len() as f64,
            valid,
            epoch_ms,
        })
    }

    fn scalars(report: &LinkReport) -> Vec<(&'static str, f32)> {
        let mut scalars = vec![("train/loss", report.loss as f32)];
        if let Some(valid) = &report.valid {
            scalars.push(("eval/mrr", valid.filtered.mrr as f32));
            scalars.push(("eval/hits_at_10", valid.filtered.hits_at_10 as f32));
        }
        scalars
    }

    /// The decoder's parameters are checked too.
    fn check_finite(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        self.network.check_finite(ranks)?;
        let free = self.free.as_ref().map_or(&[][..], |free| &free.values);
        let largest = largest_magnitude(&self.decoder.relations).max(largest_magnitude(free));
        match largest.is_finite() {
            true => Ok(()),
            false => Err(diverged()),
        }
    }

    fn is_stopped(&self) -> bool {
        let waited = |best: &Best| self.epochs_done - best.epoch >= self.config.patience;
        self.best.as_ref().is_some_and(waited)
    }

    fn finish(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        if let Some(best) = self.best.take() {
            self.load(&best.state, ranks)?;
            self.best = Some(best);
        }
        self.check_finite(ranks)
    }

    fn checkpoint(
        &mut self,
        epochs_done: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Checkpoint>, Error> {
        let Some(encoder) = gather(&mut self.network, epochs_done, ranks)? else {
            return Ok(None);
        };
        let run = Run::new(self.data, self.config);
        run.checkpoint(&LinkState::new(encoder, &self.decoder, self.free.as_ref()))
            .map(Some)
    }
}

impl<'a> LinkTrainer<'a> {
    pub(super) fn new(
        data: &'a LinkData,
        config: &'a LinkConfig,
        layout: &'a Layout<'a>,
    ) -> Result<LinkTrainer<'a>, Error> {
        let network = Network::new(RankContext {
            config: &config.encoder,
            layout,
            rank: 0,
            n_classes: config.width as u32,
        })?;
        Ok(LinkTrainer {
            data,
            config,
            decoder: Decoder::new(config, data.n_relations()),
            free: (!config.encode).then(|| FreeUnits::new(config, data.n_nodes())),
            best: None,
            epochs_done: 0,
            whole: network.plans.clone(),
            known: Known::new(data.all()),
            network,
        })
    }

    /// Takes over the parameters of a checkpoint; the epochs that it has done.
    pub(super) fn load(
        &mut self,
        state: &LinkState,
        ranks: &mut RankComm<'_>,
    ) -> Result<u32, Error> {
        state.load_decoder(&mut self.decoder, self.free.as_mut())?;
        state.encoder.load(&mut self.network, ranks)
    }

    /// The vectors of nodes that the decoder reads.
    pub(super) fn units(&self) -> &[f32] {
        match &self.free {
            Some(free) => &free.values,
            None => self.network.logits(),
        }
    }

    /// Keeps the parameters of the best ranks, where training waits for better ones.
    fn keep_best(
        &mut self,
        valid: Option<LinkScores>,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let Some(scores) = valid.filter(|_| self.config.patience > 0) else {
            return Ok(());
        };
        let is_better = |best: &Best| scores.filtered.mrr > best.scores.filtered.mrr;
        if !self.best.as_ref().is_none_or(is_better) {
            return Ok(());
        }
        let epoch = self.epochs_done;
        if let Some(encoder) = gather(&mut self.network, epoch, ranks)? {
            let state = LinkState::new(encoder, &self.decoder, self.free.as_ref());
            self.best = Some(Best {
                epoch,
                scores,
                state,
            });
        }
        Ok(())
    }

    /// True if the validation triples are ranked after so many epochs.
    fn is_ranked(&self, n_done: u32) -> bool {
        let every = self.config.valid_epochs;
        n_done == self.config.encoder.epochs || (every > 0 && n_done.is_multiple_of(every))
    }

    /// One batch: messages, scores, gradients, step. The sum of its triples' losses.
    pub(super) fn step(
        &mut self,
        step: u64,
        triples: &[Edge],
        ranks: &mut RankComm<'_>,
    ) -> Result<f64, Error> {
        let seed = self.config.encoder.seed;
        let n_steps = u32::try_from(step + 1).map_err(|_| {
            let expected = "fewer than 2^32 steps in all";
            Error::config("epochs", self.config.encoder.epochs, expected)
        })?;
        if self.free.is_some() {
            return self.step_decoder(step, n_steps, triples);
        }
        let kept = sampling::kept(seed, step, triples, self.config.edge_dropout);
        let graph = self.data.messages(&kept)?;
        self.network.plans = layout_of(&graph, self.config)?.plans(0);
        self.network.forward(ranks, Some(n_steps - 1))?;
        let (loss, decoded) = self.decode(step, triples);
        if !loss.is_finite() {
            return Err(diverged());
        }
        let DecoderGradients {
            units,
            relations: of_relations,
        } = decoded;
        let mut gradients = self.network.gradients(ranks, units, n_steps)?;
        let factor = self.clip(&mut gradients, &of_relations);
        let rule = Rule::new(&self.config.encoder, n_steps);
        self.network.step_along(rule, &gradients);
        self.decoder.step(rule, of_relations, factor);
        Ok(loss)
    }

    /// One batch without an encoder: the vectors of nodes take a step of their own.
    fn step_decoder(&mut self, step: u64, n_steps: u32, triples: &[Edge]) -> Result<f64, Error> {
        let (loss, decoded) = self.decode(step, triples);
        if !loss.is_finite() {
            return Err(diverged());
        }
        let DecoderGradients {
            mut units,
            relations,
        } = decoded;
        let factor = match self.config.clip > 0.0 {
            true => {
                let length = (squares(&units) + squares(&relations)).sqrt();
                (f64::from(self.config.clip) / length).min(1.0) as f32
            }
            false => 1.0,
        };
        let rule = Rule::new(&self.config.encoder, n_steps);
        if let Some(FreeUnits { values, moments }) = &mut self.free {
            units.iter_mut().for_each(|gradient| *gradient *= factor);
            let whole = 0..units.len();
            rule.step(values, &units, moments.of(whole));
        }
        self.decoder.step(rule, relations, factor);
        Ok(loss)
    }

    /// The triples that a step asks about: with reciprocal relations each in both directions.
    fn asked(&self, triples: &[Edge]) -> Vec<Edge> {
        let Some(n_relations) = self.decoder.n_reciprocal else {
            return triples.to_vec();
        };
        let both = |&triple: &Edge| {
            let inverse = Edge {
                source: triple.target,
                relation: triple.relation + n_relations,
                target: triple.source,
            };
            [triple, inverse]
        };
        triples.iter().flat_map(both).collect()
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
        let asked = self.asked(triples);
        for (idx, triples) in asked.chunks(share as usize).enumerate() {
            let n_nodes = self.data.n_nodes();
            let drawn = sampling::negatives(seed, step, idx, negatives, n_nodes);
            let chunk = Chunk {
                triples,
                negatives: &drawn,
            };
            let scale = LossScale { loss, scale };
            sum += self.decoder.chunk(units, chunk, scale, &mut gradients);
        }
        let n3 = self.config.n3 / asked.len() as f32;
        if n3 > 0.0 {
            self.decoder.add_n3(n3, units, &asked, &mut gradients);
        }
        let l2 = self.config.decoder_l2;
        add_decay(l2, units, &mut gradients.units);
        add_decay(l2, &self.decoder.relations, &mut gradients.relations);
        (sum, gradients)
    }

    /// Cuts gradients to the greatest length; the factor for the decoder's, which is left to its
    /// step.
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

    /// The ranks of triples with messages along all training triples; none where there are no
    /// triples.
    pub(super) fn rank(
        &mut self,
        triples: &[Edge],
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<LinkScores>, Error> {
        if triples.is_empty() {
            return Ok(None);
        }
        self.encode_whole(ranks)?;
        Ok(Some(rank(
            &self.decoder,
            self.units(),
            triples,
            &self.known,
        )))
    }

    /// The units of all nodes from all training triples.
    pub(super) fn encode_whole(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        if self.free.is_some() {
            return Ok(());
        }
        self.network.plans = self.whole.clone();
        self.network.forward(ranks, None)
    }

    fn params_hash(&mut self, ranks: &mut RankComm<'_>) -> Result<u64, Error> {
        let encoder = params_hash(&mut self.network, ranks)?;
        let mut hasher = Hasher::new();
        hasher.numbers([encoder]);
        hasher.numbers(self.decoder.relations.iter().copied());
        if let Some(free) = &self.free {
            hasher.numbers(free.values.iter().copied());
        }
        Ok(hasher.finish())
    }

    fn n_bytes(&self) -> u64 {
        let of_free = |free: &FreeUnits| free.values.len() + free.moments.len();
        let n_free = self.free.as_ref().map_or(0, of_free);
        let n_floats = self.decoder.relations.len() + self.decoder.moments.len() + n_free;
        self.network.n_bytes() + 4 * n_floats as u64
    }
}

impl Decoder {
    /// Steps the relations' vectors along `factor` times their gradient.
    fn step(&mut self, rule: Rule, mut gradient: Vec<f32>, factor: f32) {
        gradient.iter_mut().for_each(|value| *value *= factor);
        let whole = 0..gradient.len();
        rule.step(&mut self.relations, &gradient, self.moments.of(whole));
    }
}

impl Decoder {
    /// Adds the gradient of `n3` times the sums of cubes of the triples' vectors.
    ///
    /// # Source
    /// Lacroix et al., "Canonical tensor decomposition for knowledge base completion" (2018).
    fn add_n3(&self, n3: f32, units: &[f32], triples: &[Edge], gradients: &mut DecoderGradients) {
        let width = self.width;
        let add = |values: &[f32], idx: u32, gradient: &mut [f32]| {
            let begin = idx as usize * width;
            let values = &values[begin..][..width];
            for (gradient, x) in gradient[begin..][..width].iter_mut().zip(values) {
                *gradient += 3.0 * n3 * x * x.abs();
            }
        };
        for triple in triples {
            add(units, triple.source, &mut gradients.units);
            add(units, triple.target, &mut gradients.units);
            add(&self.relations, triple.relation, &mut gradients.relations);
        }
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
