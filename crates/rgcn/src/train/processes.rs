//! One rank of a run whose ranks are processes: all have read the same, and rank 0 alone touches the folder.

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Deadline, Op};
use shardgraph_runs::fnv1a64;

use super::folder::{self, RunFolder};
use super::job::{self, Job};
use super::memory::{Here, agree};
use super::state::State;
use super::{EpochReport, Outcome, RunOptions};
use crate::{Config, Error, ErrorKind, Labels, RelationalGraph};

/// What rank 0 read in the folder, without the numbers themselves.
#[derive(Serialize, Deserialize)]
struct Begun {
    config: Config,
    epochs_done: Option<u32>,
    /// Name and length of each tensor.
    tensors: Vec<(String, usize)>,
}

/// As [`train`](super::train), as one rank of `comm`, whose ranks may be processes: each calls this with the same graph, labels and
/// settings. Rank 0 alone reads and writes the folder, and calls `progress`; all get the outcome.
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
/// let outcome = train_as_rank(&mut Comm::solo(), (&graph, &labels), &config, &options, &mut |_| ())?;
/// assert_eq!(outcome.evaluation.train.n_right, 2);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
pub fn train_as_rank(
    comm: &mut Comm,
    (graph, labels): (&RelationalGraph, &Labels),
    config: &Config,
    options: &RunOptions,
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    let options = RunOptions {
        n_ranks: comm.size(),
        ..options.clone()
    };
    job::check_ranks(options.n_ranks)?;
    check_same(
        comm,
        fingerprint((graph, labels), config, &options),
        options.deadline,
    )?;
    let result = run(comm, (graph, labels), config, &options, progress);
    if let Err(error) = &result
        && error.kind() != ErrorKind::Rank
    {
        comm.abort(&error.to_string());
    }
    result
}

fn run(
    comm: &mut Comm,
    given: (&RelationalGraph, &Labels),
    config: &Config,
    options: &RunOptions,
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    if options.resume {
        let (config, folder, state) = begin(comm, given, config, options)?;
        let job = prepare(comm, given, &config, options)?;
        return run_job(&job, comm, (folder, state), progress);
    }
    // Before there is a folder: what is refused leaves none behind.
    let job = prepare(comm, given, config, options)?;
    let (_, folder, state) = begin(comm, given, config, options)?;
    run_job(&job, comm, (folder, state), progress)
}

/// The job, or an error on all ranks.
fn prepare<'a>(
    comm: &mut Comm,
    (graph, labels): (&'a RelationalGraph, &'a Labels),
    config: &'a Config,
    options: &RunOptions,
) -> Result<Job<'a>, Error> {
    let here = Here::One(comm.rank() as usize);
    let job = job::check(graph, labels, config)
        .and_then(|()| Job::new(graph, labels, config, (options, here)));
    agree(job, comm, options.deadline)
}

fn run_job(
    job: &Job<'_>,
    comm: &mut Comm,
    (mut folder, state): (Option<RunFolder>, Option<State>),
    progress: &mut dyn FnMut(&EpochReport),
) -> Result<Outcome, Error> {
    let is_first = comm.rank() == 0;
    let mut outcome = job.run(comm, state, folder.as_mut(), &mut |report| {
        if is_first {
            progress(report);
        }
    })?;
    let mut bytes = vec![0u64; comm.size() as usize];
    let op = Op::AllGather {
        send: outcome.bytes_per_rank[..].into(),
        recv: (&mut bytes).into(),
    };
    comm.run(op, job.deadline())?;
    outcome.bytes_per_rank = bytes;
    Ok(outcome)
}

/// All that decides what a run computes.
fn fingerprint(
    (graph, labels): (&RelationalGraph, &Labels),
    config: &Config,
    options: &RunOptions,
) -> u64 {
    let sets = [labels.train(), labels.test(), labels.valid()];
    let text = format!(
        "{} {config:?} {:?} {:?} {:?} {} {:?} {} {:?} {:?} {:x} {} {sets:?}",
        env!("CARGO_PKG_VERSION"),
        options.partition,
        options.execution,
        options.budget_per_device,
        options.resume,
        options.folder,
        options.checkpoint_epochs,
        options.checkpoint_s,
        options.class_names,
        folder::graph_hash(graph),
        labels.n_classes()
    );
    fnv1a64(text.bytes())
}

/// Refuses to begin, on all ranks, where some were given other things than rank 0.
fn check_same(comm: &mut Comm, fingerprint: u64, deadline: Deadline) -> Result<(), Error> {
    let mut all = vec![0u64; comm.size() as usize];
    comm.run(
        Op::AllGather {
            send: (&[fingerprint]).into(),
            recv: (&mut all).into(),
        },
        deadline,
    )?;
    match all.iter().position(|&other| other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let message = format!(
                "rank {rank} was given another graph, other labels or settings than rank 0: expected the same for all, version and folder too"
            );
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

/// Opens the folder on rank 0, and tells the others what is in it; all end alike where it cannot.
fn begin(
    comm: &mut Comm,
    (graph, labels): (&RelationalGraph, &Labels),
    config: &Config,
    options: &RunOptions,
) -> Result<(Config, Option<RunFolder>, Option<State>), Error> {
    let deadline = options.deadline;
    let opened = match comm.rank() {
        0 => folder::begin(graph, labels, config, options).map(Some),
        _ => Ok(None),
    };
    match agree(opened, comm, deadline)? {
        None => {
            let (config, state) = receive(comm, deadline)?;
            Ok((config, None, state))
        }
        Some((config, folder, mut state)) => {
            send(comm, (&config, &mut state), deadline)?;
            Ok((config, folder, state))
        }
    }
}

fn send(
    comm: &mut Comm,
    (config, state): (&Config, &mut Option<State>),
    deadline: Deadline,
) -> Result<(), Error> {
    let begun = Begun {
        config: config.clone(),
        epochs_done: state.as_ref().map(|state| state.epochs_done),
        tensors: state.iter().flat_map(State::lengths).collect(),
    };
    let mut text = serde_json::to_vec(&begun)
        .map_err(|error| Error::new(ErrorKind::Checkpoint, error.to_string()))?;
    let mut length = [text.len() as u64];
    broadcast(comm, (&mut length).into(), deadline)?;
    broadcast(comm, (&mut text).into(), deadline)?;
    for tensor in state.iter_mut().flat_map(State::values) {
        broadcast(comm, tensor.into(), deadline)?;
    }
    Ok(())
}

fn receive(comm: &mut Comm, deadline: Deadline) -> Result<(Config, Option<State>), Error> {
    let mut length = [0u64];
    broadcast(comm, (&mut length).into(), deadline)?;
    let mut text = vec![0u8; length[0] as usize];
    broadcast(comm, (&mut text).into(), deadline)?;
    let begun: Begun = serde_json::from_slice(&text)
        .map_err(|error| Error::new(ErrorKind::Checkpoint, error.to_string()))?;
    let mut state = begun
        .epochs_done
        .map(|epochs_done| State::empty(epochs_done, begun.tensors));
    for tensor in state.iter_mut().flat_map(State::values) {
        broadcast(comm, tensor.into(), deadline)?;
    }
    Ok((begun.config, state))
}

fn broadcast(
    comm: &mut Comm,
    buf: shardgraph_collectives::SliceMut<'_>,
    deadline: Deadline,
) -> Result<(), Error> {
    Ok(comm.run(Op::Broadcast { buf, root: 0 }, deadline)?)
}
