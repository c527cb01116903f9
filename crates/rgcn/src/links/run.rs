//! Runs that predict links: their outcome, and one job for all ranks.

use std::sync::{Arc, Mutex};

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{CheckpointSchedule, LoopOptions, Ranks, RunRecorder, World};

use super::config::{LinkConfig, LinkLoss};
use super::data::LinkData;
use super::kvsall::N_BLOCKS;
use super::memory::{self, LinkMemory};
use super::options::LinkOptions;
use super::ranking::LinkScores;
use super::state::{self, LinkState};
use super::trainer::{LinkInputs, LinkReport, LinkTrainer, Tables, layout_of, message_graph};
use crate::Error;
use crate::model::comm::RankComm;
use crate::train::run;

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
    /// them; an encoder's with the messages along all edges.
    pub predicted_bytes: u64,
    /// Those that they held.
    pub peak_bytes: u64,
}

/// Trains an encoder and a decoder that predict links, and ranks those of the validation and the
/// test set.
///
/// With sampled losses a step takes a batch of the training triples, sends messages along those that
/// are not dropped, in both directions, and scores each against corrupted ones. With the loss over
/// all nodes it takes a batch of questions, and sends messages along the triples that are not asked
/// about. Rankings send messages along all training triples.
///
/// With a folder, writes `metrics.jsonl` (a [`LinkReport`] a line), the same values for TensorBoard,
/// and checkpoints. When resuming, only the encoder's epochs are taken from `config`.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, or
/// training diverges.
/// # Determinism
/// The same reports, parameters and files, bit for bit, for every number of ranks (an encoder's with
/// [`Sums::Exact`](crate::Sums::Exact)), also when the run was stopped and resumed at a checkpoint.
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
    let mut comm = Comm::solo();
    let alone = &mut Ranks::new(&mut comm, Timeout::default());
    let place = state::place(options);
    let epochs = config.encoder.epochs;
    let (resumed, taken) = place.load(
        alone,
        |_| Ok(None),
        |_, newest| state::resumed(newest, data, options, epochs).map(Some),
    )?;
    let (resumed, state) = resumed.unzip();
    let config = resumed.as_ref().unwrap_or(config);
    check_ranks(config, options.n_ranks)?;
    let graph = message_graph(data, config)?;
    let layout = graph
        .as_ref()
        .map(|graph| layout_of(graph, config, options.n_ranks));
    let layout = layout.transpose()?;
    let inputs = LinkInputs {
        data,
        config,
        layout: layout.as_ref(),
    };
    let tables = Arc::new(Tables::new(data, config));
    let memory = memory::check(inputs, &tables, options)?;
    // The folder comes last: a refused run leaves none behind.
    let recorder = Mutex::new(place.open(alone, taken)?);
    let progress = Mutex::new(progress);
    let job = LinkJob {
        inputs,
        options,
        state: state.as_ref(),
        tables,
        memory,
    };
    World::Threads(options.n_ranks).run(Timeout::default(), |ranks| {
        let is_first = ranks.is_first();
        let recorder = recorder.lock().ok().filter(|_| is_first);
        let recorder = recorder.and_then(|mut recorder| recorder.take());
        job.run(ranks.comm, recorder, &mut |report| {
            if is_first && let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    })
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
    inputs: LinkInputs<'a>,
    options: &'a LinkOptions,
    state: Option<&'a LinkState>,
    tables: Arc<Tables>,
    memory: LinkMemory,
}

impl LinkJob<'_> {
    /// One rank's run.
    fn run(
        &self,
        comm: &mut Comm,
        recorder: Option<RunRecorder>,
        progress: &mut dyn FnMut(&LinkReport),
    ) -> Result<LinkOutcome, Error> {
        let LinkInputs { data, config, .. } = self.inputs;
        let tables = Arc::clone(&self.tables);
        let mut trainer = LinkTrainer::with_tables(self.inputs, tables, comm, false)?;
        let ranks = &mut RankComm::new(comm, Timeout::default());
        let begin = match self.state {
            None => 0,
            Some(state) => trainer.load(state, ranks)?,
        };
        let options = self.options;
        let every = Some(options.checkpoint_epochs.into());
        let schedule = CheckpointSchedule::new(every, options.checkpoint_s);
        let steps = LoopOptions {
            until: config.encoder.epochs.into(),
            schedule: options.folder.is_some().then_some(schedule),
        };
        let reports = run::run(&mut trainer, begin, steps, recorder, ranks, progress)?;
        let last = reports.last().and_then(|report| report.valid);
        trainer.take_best(ranks)?;
        let (best_epoch, best) = match &trainer.best {
            Some(best) => (best.epoch, Some(best.scores)),
            None => (begin + reports.len() as u32, last),
        };
        let valid = match best {
            Some(valid) => Some(valid),
            None => trainer.rank(data.valid(), ranks)?,
        };
        let test = trainer.rank(data.test(), ranks)?;
        let peaks = ranks.gather(&[trainer.memory.peak().total()])?;
        Ok(LinkOutcome {
            best_epoch,
            valid,
            decoder_valid: trainer.decoder_alone.map(|best| best.scores),
            test,
            params_hash: trainer.params_hash(ranks)?,
            n_bytes: trainer.n_bytes(),
            predicted_bytes: self.memory.predicted_bytes,
            peak_bytes: self.memory.shared_bytes + peaks.iter().sum::<u64>(),
            config: config.clone(),
            reports,
        })
    }
}
