//! Training that predicts links: batches of triples, messages along some of them, a decoder over
//! all nodes' outputs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Timer;
use shardgraph_job::Checkpoint;
use shardgraph_storage::Hasher;

use super::config::{LinkConfig, LinkLoss};
use super::data::{Known, LinkData};
use super::decoder::Decoder;
use super::embeddings::Embeddings;
use super::encoder::{Encoder, Messages};
use super::kvsall::{KvsAll, N_BLOCKS, NodeBlocks};
use super::memory;
use super::questions::Questions;
use super::ranking::{LinkScores, RankedModel};
use super::state::{self, Best, BestNodes, BestRanks, LinkState, Run};
use crate::error::diverged;
use crate::layer::values::largest_magnitude;
use crate::model::comm::RankComm;
use crate::model::layout::{Extent, Layout};
use crate::partition::Method;
use crate::train::run::{self, RunFolder, Trainer};
use crate::train::run_ranks;
use crate::train::schedule::CheckpointSchedule;
use crate::train::state::{Params, State, gather, params_hash};
use crate::{Edge, Error, RelationalGraph};

/// The folder of a run that predicts links.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Ranks that share a step, each a thread: up to 16 with the loss over all nodes, else 1; with
    /// an encoder they share its messages too.
    pub n_ranks: u32,
    /// The most bytes that the ranks may hold together; absent: what the machine has free.
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
}

impl Default for LinkOptions {
    /// One rank, no folder.
    fn default() -> LinkOptions {
        LinkOptions {
            n_ranks: 1,
            memory: None,
            folder: None,
            resume: false,
            checkpoint_epochs: 0,
            checkpoint_s: None,
        }
    }
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
    /// The best ranks of the validation triples before an encoder's layers joined: of the decoder
    /// alone.
    pub decoder_valid: Option<LinkScores>,
    /// The ranks of the test triples, where there are any.
    pub test: Option<LinkScores>,
    /// A hash of all parameters: equal hashes are equal models.
    pub params_hash: u64,
    /// Bytes of parameters, moments, plans and activations; without the triples and the buffers of
    /// a step.
    pub n_bytes: u64,
    /// Bytes that all ranks were predicted to hold at the fullest moment, triples and buffers among
    /// them.
    pub predicted_bytes: u64,
}

/// Trains an encoder and a decoder that predict links, and ranks those of the validation and the
/// test set.
///
/// With sampled losses a step takes a batch of the training triples, sends messages along those that
/// are not dropped, in both directions, and scores each against corrupted ones. With the loss over
/// all nodes it takes a batch of questions, and sends messages along the triples that are not asked
/// about. Rankings send messages along all training triples. With a folder, writes `metrics.jsonl` (a [`LinkReport`] a line), the same
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
/// use shardgraph_rgcn::{LinkConfig, LinkData, LinkOptions, RelationalGraph, train_links};
///
/// // Who is a neighbour of whom, on a ring; two links are kept for a test.
/// let (from, to): (Vec<u32>, Vec<u32>) = (0..8).map(|node| (node, (node + 1) % 8)).unzip();
/// let graph = RelationalGraph::new(8, 1, from, vec![0; 8], to)?;
/// let data = LinkData::new(&graph, 0..6, 0..0, 6..8)?;
/// let mut config = LinkConfig { width: 8, ..LinkConfig::default() };
/// config.encoder.epochs = 5;
/// let outcome = train_links(&data, &config, &LinkOptions::default(), &mut |_| ())?;
/// assert_eq!(outcome.test.unwrap().filtered.n_ranks, 4);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
pub fn train_links(
    data: &LinkData,
    config: &LinkConfig,
    options: &LinkOptions,
    progress: &mut (dyn FnMut(&LinkReport) + Send),
) -> Result<LinkOutcome, Error> {
    config.check()?;
    check_ranks(config, options.n_ranks)?;
    let opened = match options.resume {
        true => Some(state::begin(data, config, options)?),
        false => None,
    };
    let config = opened
        .as_ref()
        .map_or(config, |begun| &begun.config)
        .clone();
    check_ranks(&config, options.n_ranks)?;
    let graph = message_graph(data, &config)?;
    let layout = graph
        .as_ref()
        .map(|graph| layout_of(graph, &config, options.n_ranks));
    let layout = layout.transpose()?;
    let predicted_bytes = memory::check(data, &config, layout.as_ref(), options)?;
    // The folder comes last: a refused run leaves none behind.
    let begun = match opened {
        Some(begun) => begun,
        None => state::begin(data, &config, options)?,
    };
    let folder = Mutex::new(begun.folder);
    let progress = Mutex::new(progress);
    let job = LinkJob {
        data,
        config: &config,
        options,
        state: begun.state.as_ref(),
        layout: layout.as_ref(),
        tables: Arc::new(Tables::new(data, &config)),
        predicted_bytes,
    };
    let results = run_ranks(options.n_ranks, |comm| {
        let is_first = comm.rank() == 0;
        let mut folder: Option<RunFolder> = match is_first {
            true => folder.lock().ok().and_then(|mut folder| folder.take()),
            false => None,
        };
        job.run(comm, folder.as_mut(), &mut |report| {
            if is_first && let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    })?;
    let first = results.into_iter().next();
    first.ok_or_else(|| Error::new(Error::Rank, "no rank came back"))
}

/// Refuses numbers of ranks out of range, and several where a step is one rank's.
fn check_ranks(config: &LinkConfig, n_ranks: u32) -> Result<(), Error> {
    let most = match config.loss {
        LinkLoss::KvsAll => N_BLOCKS as u32,
        _ => 1,
    };
    match (1..=most).contains(&n_ranks) {
        true => Ok(()),
        false if most == 1 => {
            let expected = "1 with a loss of sampled nodes: several share the steps of k-vs-all";
            Err(Error::config("ranks", n_ranks, expected))
        }
        false => Err(Error::config("ranks", n_ranks, "1 to 16")),
    }
}

/// A run as all ranks see it.
struct LinkJob<'a> {
    data: &'a LinkData,
    config: &'a LinkConfig,
    options: &'a LinkOptions,
    state: Option<&'a LinkState>,
    /// That of the encoder's messages.
    layout: Option<&'a Layout<'a>>,
    tables: Arc<Tables>,
    predicted_bytes: u64,
}

/// What all ranks read alike: the ends that are known, and with the loss over all nodes the
/// questions.
pub(super) struct Tables {
    known: Known,
    pub(super) questions: Option<Questions>,
}

impl Tables {
    fn new(data: &LinkData, config: &LinkConfig) -> Tables {
        let is_over_all = config.loss == LinkLoss::KvsAll;
        Tables {
            known: Known::new(data.all()),
            questions: is_over_all.then(|| Questions::of(data.train(), data.n_relations())),
        }
    }
}

impl LinkJob<'_> {
    /// One rank's run.
    fn run(
        &self,
        comm: &mut Comm,
        folder: Option<&mut RunFolder>,
        progress: &mut dyn FnMut(&LinkReport),
    ) -> Result<LinkOutcome, Error> {
        let LinkJob { data, config, .. } = *self;
        let ranks = &mut RankComm::new(comm, Timeout::default());
        let tables = Arc::clone(&self.tables);
        let mut trainer = LinkTrainer::with_tables(data, config, self.layout, tables, ranks)?;
        let begin = match self.state {
            None => 0,
            Some(state) => trainer.load(state, ranks)?,
        };
        let schedule = CheckpointSchedule::new(
            config.encoder.epochs,
            self.options.checkpoint_epochs,
            self.options.checkpoint_s,
        );
        let reports = match trainer.is_stopped() {
            false => run::run(&mut trainer, begin, schedule, folder, ranks, progress)?,
            true => Vec::new(),
        };
        let last = reports.last().and_then(|report| report.valid);
        trainer.take_best(ranks)?;
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
            decoder_valid: trainer.decoder_alone.map(|best| best.scores),
            test: trainer.rank(data.test(), ranks)?,
            params_hash: trainer.params_hash(ranks)?,
            n_bytes: trainer.n_bytes(),
            predicted_bytes: self.predicted_bytes,
            config: config.clone(),
            reports,
        })
    }
}

/// The graph that an encoder's messages go through; none without an encoder.
pub(super) fn message_graph(
    data: &LinkData,
    config: &LinkConfig,
) -> Result<Option<RelationalGraph>, Error> {
    match config.encode {
        true => data.messages(data.train()).map(Some),
        false => Ok(None),
    }
}

/// The layout of the messages along some triples; all nodes are in all of its sets, because of the
/// self loop.
pub(super) fn layout_of<'g>(
    graph: &'g RelationalGraph,
    config: &LinkConfig,
    n_ranks: u32,
) -> Result<Layout<'g>, Error> {
    let n_units = config.width as u32;
    let mut extent = Extent::new(&config.encoder, n_units, graph, n_ranks, Method::Source);
    if config.loss != LinkLoss::KvsAll {
        extent.max_blocks = 1; // One rank has them all.
    }
    Layout::new(graph, true, None, extent)
}

/// A model and the data of its steps.
pub(super) struct LinkTrainer<'a> {
    pub(super) data: &'a LinkData,
    pub(super) config: &'a LinkConfig,
    pub(super) nodes: NodeVectors<'a>,
    pub(super) decoder: Decoder,
    pub(super) tables: Arc<Tables>,
    /// With the loss over all nodes.
    pub(super) all_nodes: Option<KvsAll>,
    /// The best parameters, where training waits for better ones.
    best: Option<Best>,
    /// The best ranks before the encoder's layers joined.
    pub(super) decoder_alone: Option<BestRanks>,
    pub(super) epochs_done: u32,
}

/// The source of the vectors of nodes that the decoder reads.
pub(super) enum NodeVectors<'a> {
    Encoded(Box<Encoder<'a>>),
    Embedded(Embeddings),
}

impl Trainer for LinkTrainer<'_> {
    type Report = LinkReport;

    /// A pass over the training triples, and the ranks of the validation triples where they are
    /// due.
    fn epoch(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<LinkReport, Error> {
        let timer = Timer::wall();
        if self.config.warm_epochs > 0 && epoch == self.config.warm_epochs {
            self.take_best(ranks)?;
            self.decoder_alone = self.best.as_ref().map(Best::ranks);
        }
        let loss = self.pass(epoch, ranks)?;
        let epoch_ms = timer.elapsed_s() * 1e3;
        self.check_finite(ranks)?;
        let valid = match self.is_ranked(epoch + 1) {
            true => self.rank(self.data.valid(), ranks)?,
            false => None,
        };
        self.epochs_done = epoch + 1;
        self.keep_best(valid);
        Ok(LinkReport {
            step: u64::from(epoch) + 1,
            loss: loss / self.data.train().len() as f64,
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
        let of_nodes = match &mut self.nodes {
            NodeVectors::Encoded(encoder) => {
                encoder.network.check_finite(ranks)?;
                0.0
            }
            NodeVectors::Embedded(embeddings) => largest_magnitude(&embeddings.values),
        };
        let largest = largest_magnitude(&self.decoder.relations).max(of_nodes);
        match largest.is_finite() {
            true => Ok(()),
            false => Err(diverged()),
        }
    }

    fn is_stopped(&self) -> bool {
        let LinkConfig {
            patience,
            warm_epochs,
            ..
        } = *self.config;
        let since = |best: &Best| best.epoch.max(warm_epochs);
        let waited = |best: &Best| self.epochs_done.saturating_sub(since(best)) >= patience;
        self.best.as_ref().is_some_and(waited)
    }

    fn checkpoint(
        &mut self,
        epochs_done: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Checkpoint>, Error> {
        let (mut encoder, embeddings) = match &mut self.nodes {
            NodeVectors::Encoded(encoder) => {
                (gather(&mut encoder.network, epochs_done, ranks)?, None)
            }
            NodeVectors::Embedded(embeddings) => {
                let state = State::empty(epochs_done, Vec::new());
                (Some(state), Some(embeddings.gather(ranks)?))
            }
        };
        if let (NodeVectors::Encoded(own), Some(best)) = (&mut self.nodes, &self.best)
            && let BestNodes::Encoded(params) = &best.nodes
        {
            params.gather_into(&mut own.network, encoder.as_mut(), ranks)?;
        }
        let Some(encoder) = encoder.filter(|_| ranks.comm.rank() == 0) else {
            return Ok(None);
        };
        let run = Run::new(self.data, self.config);
        let state = LinkState::new(encoder, &self.decoder, embeddings);
        run.checkpoint(&state, self.best.as_ref(), self.decoder_alone)
            .map(Some)
    }
}

impl<'a> LinkTrainer<'a> {
    /// A model before its first step; `layout` is that of the encoder's messages.
    pub(super) fn new(
        data: &'a LinkData,
        config: &'a LinkConfig,
        layout: Option<&'a Layout<'a>>,
        ranks: &RankComm<'_>,
    ) -> Result<LinkTrainer<'a>, Error> {
        let tables = Arc::new(Tables::new(data, config));
        LinkTrainer::with_tables(data, config, layout, tables, ranks)
    }

    /// The same with tables that are there already.
    fn with_tables(
        data: &'a LinkData,
        config: &'a LinkConfig,
        layout: Option<&'a Layout<'a>>,
        tables: Arc<Tables>,
        ranks: &RankComm<'_>,
    ) -> Result<LinkTrainer<'a>, Error> {
        let comm = &ranks.comm;
        let blocks = NodeBlocks::new(data.n_nodes(), comm.rank(), comm.size());
        let nodes = match layout {
            None => NodeVectors::Embedded(Embeddings::new(config, data.n_nodes(), blocks)),
            Some(layout) => {
                let encoder = Encoder::new(config, layout, comm.rank() as usize)?;
                NodeVectors::Encoded(Box::new(encoder))
            }
        };
        let is_over_all = config.loss == LinkLoss::KvsAll;
        Ok(LinkTrainer {
            data,
            config,
            decoder: Decoder::new(config, data.n_relations()),
            nodes,
            all_nodes: is_over_all.then(|| KvsAll::new(blocks)),
            best: None,
            decoder_alone: None,
            epochs_done: 0,
            tables,
        })
    }

    /// Takes over the parameters of a checkpoint; the epochs that it has done.
    pub(super) fn load(
        &mut self,
        state: &LinkState,
        ranks: &mut RankComm<'_>,
    ) -> Result<u32, Error> {
        state.load_decoder(&mut self.decoder)?;
        match &mut self.nodes {
            NodeVectors::Encoded(encoder) => {
                state.encoder.load(&mut encoder.network, ranks)?;
            }
            NodeVectors::Embedded(embeddings) => state.load_embeddings(embeddings)?,
        }
        self.best.clone_from(&state.best);
        if let (NodeVectors::Encoded(encoder), Some(best)) = (&mut self.nodes, &mut self.best) {
            let params = state.encoder.best(&mut encoder.network, ranks)?;
            best.nodes = BestNodes::Encoded(params.unwrap_or_default());
        }
        self.decoder_alone = state.decoder_alone;
        self.epochs_done = state.encoder.epochs_done;
        Ok(self.epochs_done)
    }

    /// Takes over the parameters of the best ranks, where they were kept.
    pub(super) fn take_best(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        let Some(best) = &self.best else {
            return Ok(());
        };
        best.check(
            &self.decoder,
            self.data.n_nodes() as usize * self.decoder.width,
        )?;
        self.decoder.relations.clone_from(&best.relations);
        match (&mut self.nodes, &best.nodes) {
            (NodeVectors::Encoded(encoder), BestNodes::Encoded(params)) => {
                params.restore(&mut encoder.network);
            }
            (NodeVectors::Embedded(embeddings), BestNodes::Embedded(units)) => {
                embeddings.values.clone_from(units);
            }
            _ => (),
        }
        self.check_finite(ranks)
    }

    /// The vectors of nodes that the decoder reads.
    pub(super) fn units(&self) -> &[f32] {
        match &self.nodes {
            NodeVectors::Encoded(encoder) => &encoder.units,
            NodeVectors::Embedded(embeddings) => &embeddings.values,
        }
    }

    /// Keeps the parameters of the best ranks, where training waits for better ones.
    fn keep_best(&mut self, valid: Option<LinkScores>) {
        let Some(scores) = valid.filter(|_| self.config.patience > 0) else {
            return;
        };
        let is_better = |best: &Best| scores.filtered.mrr > best.scores.filtered.mrr;
        if !self.best.as_ref().is_none_or(is_better) {
            return;
        }
        let epoch = self.epochs_done;
        self.best = Some(Best {
            epoch,
            scores,
            relations: self.decoder.relations.clone(),
            nodes: match &mut self.nodes {
                NodeVectors::Encoded(encoder) => {
                    BestNodes::Encoded(Params::of(&mut encoder.network))
                }
                NodeVectors::Embedded(embeddings) => BestNodes::Embedded(embeddings.values.clone()),
            },
        });
    }

    /// True if the validation triples are ranked after so many epochs.
    fn is_ranked(&self, n_done: u32) -> bool {
        let every = self.config.valid_epochs;
        n_done == self.config.encoder.epochs || (every > 0 && n_done.is_multiple_of(every))
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
        let model = RankedModel {
            decoder: &self.decoder,
            units: self.units(),
            known: &self.tables.known,
        };
        model.rank(triples, ranks).map(Some)
    }

    /// The units of all nodes from all training triples.
    pub(super) fn encode_whole(&mut self, ranks: &mut RankComm<'_>) -> Result<(), Error> {
        match &mut self.nodes {
            NodeVectors::Encoded(encoder) => encoder.encode(Messages::All, None, ranks),
            NodeVectors::Embedded(_) => Ok(()),
        }
    }

    /// The ends that are known to be true.
    pub(super) fn known(&self) -> &Known {
        &self.tables.known
    }

    fn params_hash(&mut self, ranks: &mut RankComm<'_>) -> Result<u64, Error> {
        let mut hasher = Hasher::new();
        match &mut self.nodes {
            NodeVectors::Encoded(encoder) => {
                hasher.numbers([params_hash(&mut encoder.network, ranks)?]);
                hasher.numbers(self.decoder.relations.iter().copied());
            }
            NodeVectors::Embedded(embeddings) => {
                hasher.numbers(self.decoder.relations.iter().copied());
                hasher.numbers(embeddings.values.iter().copied());
            }
        }
        Ok(hasher.finish())
    }

    fn n_bytes(&self) -> u64 {
        let decoder = self.decoder.relations.len() + self.decoder.moments.len();
        let of_nodes = match &self.nodes {
            NodeVectors::Encoded(encoder) => encoder.network.n_bytes(),
            NodeVectors::Embedded(embeddings) => 4 * embeddings.n_floats() as u64,
        };
        of_nodes + 4 * decoder as u64
    }
}
