//! One rank of a run whose ranks are processes: all have read the same, and rank 0 alone touches
//! the folder.

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Op, SliceMut};
use shardgraph_storage::hash;

use super::classes;
use super::folder::{self, Begun, BestEpoch};
use super::inputs::Inputs;
use super::job::Job;
use super::memory::Here;
use super::model::Start;
use super::state::State;
use super::{EpochReport, Outcome, RunOptions};
use crate::model::comm::RankComm;
use crate::{Config, Error, Labels, RelationalGraph};

/// The run that rank 0 read in the folder, without the numbers themselves.
#[derive(Serialize, Deserialize)]
struct BegunRun {
    config: Config,
    epochs_done: Option<u32>,
    best: Option<BestEpoch>,
    /// Name and length of each tensor.
    tensors: Vec<(String, usize)>,
}

/// As [`train`](super::train), as one rank of `comm`, whose ranks may be processes: each calls this
/// with the same graph, labels and settings. Rank 0 alone reads and writes the folder, and calls
/// `progress`; all get the outcome.
///
/// # Errors
/// As [`train`](super::train); on all ranks where they were not given the same.
/// # Determinism
/// As [`train`](super::train): processes give the bits of threads.
///
/// ```
/// use shardgraph_collectives::Comm;
/// use shardgraph_rgcn::{Config, Labels, RelationalGraph, RunOptions, train_as_rank};
///
/// let graph = RelationalGraph::new(3, 1, vec![0, 1], vec![0; 2], vec![1, 2])?.with_inverses()?;
/// let labels = Labels::new(2, vec![(0, 0), (2, 1)], vec![], vec![])?;
/// let (config, options) = (Config::default(), RunOptions::default());
/// let outcome = train_as_rank(&mut Comm::solo(), &graph, &labels, &config, &options, &mut |_| ())?;
/// assert_eq!(outcome.evaluation.train.n_right, 2);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
pub fn train_as_rank(
    comm: &mut Comm,
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    options: &RunOptions,
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    let options = RunOptions {
        n_ranks: comm.size(),
        ..options.clone()
    };
    classes::check_ranks(options.n_ranks)?;
    let ranks = &mut RankComm::new(comm, options.deadline);
    let inputs = Inputs {
        graph,
        labels,
        config,
        options: &options,
    };
    check_same(ranks, inputs.fingerprint())?;
    let result = inputs.run(ranks, progress);
    if let Err(error) = &result
        && !error.is_of_other_rank()
    {
        ranks.comm.abort_as(error.class(), &error.to_string());
    }
    result
}

impl<'a> Inputs<'a> {
    fn run(
        self,
        ranks: &mut RankComm<'_>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Outcome, Error> {
        if self.options.resume {
            let begun = self.begin(ranks)?;
            let config = &begun.config.clone();
            let job = Inputs { config, ..self }.prepare(ranks)?;
            return run_job(&job, ranks, begun, progress);
        }
        // Before there is a folder: a refused run leaves none behind.
        let job = self.prepare(ranks)?;
        let begun = self.begin(ranks)?;
        run_job(&job, ranks, begun, progress)
    }

    /// The job, or an error on all ranks.
    fn prepare(self, ranks: &mut RankComm<'_>) -> Result<Job<'a>, Error> {
        let here = Here::One(ranks.comm.rank() as usize);
        agree(Job::new(self, here), ranks)
    }

    /// The hash of all settings and data that decide what a run computes.
    fn fingerprint(self) -> u64 {
        let sets = [self.labels.train(), self.labels.test(), self.labels.valid()];
        let text = format!(
            "{} {:?} {:?} {:?} {:?} {} {:?} {} {:?} {:?} {:x} {} {sets:?}",
            env!("CARGO_PKG_VERSION"),
            self.config,
            self.options.partition,
            self.options.execution,
            self.options.budget_per_device,
            self.options.resume,
            self.options.folder,
            self.options.checkpoint_epochs,
            self.options.checkpoint_s,
            self.options.class_names,
            folder::graph_hash(self.graph),
            self.labels.n_classes()
        );
        hash(text.as_bytes())
    }

    /// Opens the folder on rank 0, and sends the others what is in it; all end alike where it
    /// cannot.
    fn begin(self, ranks: &mut RankComm<'_>) -> Result<Begun, Error> {
        let opened = match ranks.comm.rank() {
            0 => folder::begin(self).map(Some),
            _ => Ok(None),
        };
        match agree(opened, ranks)? {
            None => receive(ranks),
            Some(mut begun) => {
                send(ranks, &mut begun)?;
                Ok(begun)
            }
        }
    }
}

fn run_job(
    job: &Job<'_>,
    ranks: &mut RankComm<'_>,
    mut begun: Begun,
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    let is_first = ranks.comm.rank() == 0;
    job.run(
        ranks.comm,
        Start {
            state: begun.state,
            best: begun.best,
        },
        begun.folder.as_mut(),
        &mut |report| {
            if is_first {
                progress(report);
            }
        },
    )
}

/// Ends on all ranks alike where one of them cannot begin.
fn agree<T>(result: Result<T, Error>, ranks: &mut RankComm<'_>) -> Result<T, Error> {
    let met = ranks.gather(&[u64::from(result.is_err())]);
    let value = result?;
    match met?.iter().position(|&failed| failed != 0) {
        None => Ok(value),
        Some(rank) => {
            let message = format!("rank {rank} cannot begin; it says why in its own output");
            Err(Error::new(Error::Config, message))
        }
    }
}

/// Refuses to begin, on all ranks, where some were given other things than rank 0.
fn check_same(ranks: &mut RankComm<'_>, fingerprint: u64) -> Result<(), Error> {
    let all = ranks.gather(&[fingerprint])?;
    match all.iter().position(|&other| other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let message = format!(
                "rank {rank} was given another graph, other labels or settings than rank 0: expected the same for all, version and folder too"
            );
            Err(Error::new(Error::Config, message))
        }
    }
}

fn send(ranks: &mut RankComm<'_>, begun: &mut Begun) -> Result<(), Error> {
    let run = BegunRun {
        config: begun.config.clone(),
        epochs_done: begun.state.as_ref().map(|state| state.epochs_done),
        best: begun.best,
        tensors: begun.state.iter().flat_map(State::lengths).collect(),
    };
    let mut text = serde_json::to_vec(&run)
        .map_err(|error| Error::new(Error::Checkpoint, error.to_string()))?;
    let mut length = [text.len() as u64];
    broadcast(ranks, (&mut length).into())?;
    broadcast(ranks, (&mut text).into())?;
    for tensor in begun.state.iter_mut().flat_map(State::values) {
        broadcast(ranks, tensor.into())?;
    }
    Ok(())
}

fn receive(ranks: &mut RankComm<'_>) -> Result<Begun, Error> {
    let mut length = [0u64];
    broadcast(ranks, (&mut length).into())?;
    let mut text = vec![0u8; length[0] as usize];
    broadcast(ranks, (&mut text).into())?;
    let run: BegunRun = serde_json::from_slice(&text)
        .map_err(|error| Error::new(Error::Checkpoint, error.to_string()))?;
    let empty = |epochs_done| State::empty(epochs_done, run.tensors);
    let mut state = run.epochs_done.map(empty);
    for tensor in state.iter_mut().flat_map(State::values) {
        broadcast(ranks, tensor.into())?;
    }
    Ok(Begun {
        config: run.config,
        folder: None,
        state,
        best: run.best,
    })
}

fn broadcast(ranks: &mut RankComm<'_>, buf: SliceMut<'_>) -> Result<(), Error> {
    ranks.run(Op::Broadcast { buf, root: 0 })
}
