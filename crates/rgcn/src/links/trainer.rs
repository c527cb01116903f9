//! Training that predicts links: batches of triples, messages along some of them, a decoder over
//! all nodes' outputs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::Comm;
use shardgraph_device::Timer;
use shardgraph_job::Checkpoint;
use shardgraph_storage::Hasher;

use super::config::{LinkConfig, LinkLoss};
use super::data::{Known, LinkData};
use super::decoder::Decoder;
use super::embeddings::Embeddings;
use super::encoder::{Encoder, Messages};
use super::kvsall::{KvsAll, NodeBlocks};
use super::questions::Questions;
use super::ranking::{LinkScores, RankedModel};
use super::state::{Best, BestNodes, BestRanks, LinkState, Run};
use crate::error::diverged;
use crate::layer::values::largest_magnitude;
use crate::memory::{Memory, Purpose};
use crate::model::comm::RankComm;
use crate::model::layout::{Extent, Layout};
use crate::partition::Method;
use crate::train::run::EpochTrainer;
use crate::train::state::{Params, State, gather, params_hash};
use crate::{Edge, Error, RelationalGraph};

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

/// What all ranks read alike: the ends that are known, and with the loss over all nodes the
/// questions.
pub(super) struct Tables {
    known: Known,
    pub(super) questions: Option<Questions>,
}

impl Tables {
    pub(super) fn new(data: &LinkData, config: &LinkConfig) -> Tables {
        let is_over_all = config.loss == LinkLoss::KvsAll;
        Tables {
            known: Known::new(data.all()),
            questions: is_over_all.then(|| Questions::of(data.train(), data.n_relations())),
        }
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.known.n_bytes() + self.questions.as_ref().map_or(0, Questions::n_bytes)
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

/// The data of a run, and the layout of its encoder's messages.
#[derive(Clone, Copy)]
pub(super) struct LinkInputs<'a> {
    pub(super) data: &'a LinkData,
    pub(super) config: &'a LinkConfig,
    pub(super) layout: Option<&'a Layout<'a>>,
}

/// A model and the data of its steps.
pub(super) struct LinkTrainer<'a> {
    pub(super) data: &'a LinkData,
    pub(super) config: &'a LinkConfig,
    /// The account of all arrays.
    pub(super) memory: Memory,
    pub(super) nodes: NodeVectors<'a>,
    pub(super) decoder: Decoder,
    pub(super) tables: Arc<Tables>,
    /// With the loss over all nodes.
    pub(super) all_nodes: Option<KvsAll>,
    /// The best parameters, where training waits for better ones.
    pub(super) best: Option<Best>,
    /// The best ranks before the encoder's layers joined.
    pub(super) decoder_alone: Option<BestRanks>,
    pub(super) epochs_done: u32,
}

/// The source of the vectors of nodes that the decoder reads.
pub(super) enum NodeVectors<'a> {
    Encoded(Box<Encoder<'a>>),
    Embedded(Box<Embeddings>),
}

impl EpochTrainer for LinkTrainer<'_> {
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
        // What ranks gather; rank 0 has the tensors' bytes and those of the files beside it.
        let n_copies = if ranks.comm.rank() == 0 { 3 } else { 1 };
        let _state = (self.memory).hold(Purpose::Copies, n_copies * self.saved_bytes());
        if self.memory.is_dry() {
            return Ok(None);
        }
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
        let inputs = LinkInputs {
            data,
            config,
            layout,
        };
        LinkTrainer::with_tables(inputs, tables, &*ranks.comm, false)
    }

    /// The same with tables that are there already, or the model of a dry run.
    pub(super) fn with_tables(
        inputs: LinkInputs<'a>,
        tables: Arc<Tables>,
        comm: &Comm,
        is_dry: bool,
    ) -> Result<LinkTrainer<'a>, Error> {
        let LinkInputs {
            data,
            config,
            layout,
        } = inputs;
        let blocks = NodeBlocks::new(data.n_nodes(), comm.rank(), comm.size());
        let mut memory = match is_dry {
            true => Memory::dry(),
            false => Memory::default(),
        };
        let nodes = match layout {
            None => {
                let embeddings = Embeddings::new(config, data.n_nodes(), blocks, &memory);
                NodeVectors::Embedded(Box::new(embeddings))
            }
            Some(layout) => {
                let encoder = Encoder::new(config, layout, comm.rank() as usize, is_dry)?;
                memory = encoder.network.memory.clone();
                NodeVectors::Encoded(Box::new(encoder))
            }
        };
        let is_over_all = config.loss == LinkLoss::KvsAll;
        Ok(LinkTrainer {
            data,
            config,
            decoder: Decoder::new(config, data.n_relations(), &memory),
            nodes,
            all_nodes: is_over_all.then(|| KvsAll::new(blocks, &memory)),
            memory,
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
        best.check(&self.decoder, self.n_units())?;
        self.decoder.relations.copy_from_slice(&best.relations);
        match (&mut self.nodes, &best.nodes) {
            (NodeVectors::Encoded(encoder), BestNodes::Encoded(params)) => {
                params.restore(&mut encoder.network);
            }
            (NodeVectors::Embedded(embeddings), BestNodes::Embedded(units)) => {
                embeddings.values.copy_from_slice(units);
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

    /// Numbers of all nodes' vectors.
    pub(super) fn n_units(&self) -> usize {
        self.data.n_nodes() as usize * self.decoder.width
    }

    /// Keeps the parameters of the best ranks, where training waits for better ones.
    pub(super) fn keep_best(&mut self, valid: Option<LinkScores>) {
        let Some(scores) = valid.filter(|_| self.config.patience > 0) else {
            return;
        };
        let is_better = |best: &Best| scores.filtered.mrr > best.scores.filtered.mrr;
        if !self.best.as_ref().is_none_or(is_better) {
            return;
        }
        self.best = None;
        let (epoch, memory) = (self.epochs_done, &self.memory);
        let copy = |array| memory.duplicate(Purpose::Copies, array);
        self.best = Some(Best {
            epoch,
            scores,
            relations: copy(&self.decoder.relations),
            nodes: match &mut self.nodes {
                NodeVectors::Encoded(encoder) => {
                    BestNodes::Encoded(Params::of(&mut encoder.network))
                }
                NodeVectors::Embedded(embeddings) => BestNodes::Embedded(copy(&embeddings.values)),
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
        self.ranked().rank(triples, ranks).map(Some)
    }

    /// The model that ranks triples by the units that there are.
    pub(super) fn ranked(&self) -> RankedModel<'_> {
        RankedModel {
            decoder: &self.decoder,
            n_nodes: self.data.n_nodes() as usize,
            units: self.units(),
            known: &self.tables.known,
        }
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

    pub(super) fn params_hash(&mut self, ranks: &mut RankComm<'_>) -> Result<u64, Error> {
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

    /// Bytes that a rank holds of parameters, moments, messages and activations; buffers of a step and copies are not
    /// among them.
    pub(super) fn n_bytes(&self) -> u64 {
        let held = self.memory.held();
        held.total() - held.gradients - held.copies
    }

    /// Bytes of all ranks' parameters and moments, and of the best parameters: what a checkpoint has.
    fn saved_bytes(&self) -> u64 {
        let decoder = self.decoder.relations.len();
        let with_moments = decoder + self.decoder.moments.len();
        let [nodes, all] = match &self.nodes {
            NodeVectors::Encoded(encoder) => encoder.network.n_params(),
            NodeVectors::Embedded(embeddings) => {
                [self.n_units(), embeddings.lengths().iter().sum()]
            }
        };
        let best = if self.best.is_some() {
            decoder + nodes
        } else {
            0
        };
        4 * (with_moments + all + best) as u64
    }
}
