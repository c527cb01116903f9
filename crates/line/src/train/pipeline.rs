//! A step on a device: sampling threads fill small queues, each queue of the device joins some of them and has a stream of its own.
//!
//! The jobs of a step touch different parts, so streams never wait for one another; rows go from the stream that had them to the
//! one that wants them with an event between, and back when the step is over.
//!
//! # Source
//! The second figure of the paper that `docs/line.md` names.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, Builder, Scope};
use std::time::Duration;

use shardgraph_device::{Device, Event};

use super::cell::Cell;
use super::plan::Leg;
use super::rows::Rows;
use super::step::{Lane, Shared, Work, panicked, started};
use crate::store::Bucket;
use crate::{Error, ErrorKind};

/// Buckets whose kernels a stream has been given and that are not waited for yet: one is worked on while the next is sent.
const UNDER_WAY: usize = 2;
/// The longest wait for a bucket that a thread prepares.
const DEADLINE: Duration = Duration::from_secs(600);

/// What a sampling thread prepares.
type Prepared = Result<Bucket, Error>;

/// Does all jobs and gives the rows back, in no particular order.
pub(super) fn run<T: Cell>(shared: &Shared<'_>, jobs: Vec<Work<T>>) -> Result<Vec<Work<T>>, Error> {
    let n_queues = shared.lanes.len();
    let mut queues: Vec<Vec<Work<T>>> = (0..n_queues).map(|_| Vec::new()).collect();
    for (at, job) in jobs.into_iter().rev().enumerate() {
        queues[at % n_queues].push(job);
    }
    let n_small = (shared.config.threads / n_queues).max(1);
    thread::scope(|scope| {
        let queues = queues.into_iter().zip(&shared.lanes);
        let queues: Vec<_> = queues
            .map(|(jobs, lane)| {
                let legs: Vec<Leg> = jobs.iter().flat_map(|work| work.job.legs.clone()).collect();
                let small = sampling_threads(scope, shared, &legs, n_small)?;
                let queue = move || device_queue(shared, lane, jobs, &small);
                started(Builder::new(), scope, queue)
            })
            .collect::<Result<_, Error>>()?;
        let mut done = Vec::new();
        let mut result = Ok(());
        for queue in queues {
            match queue.join().unwrap_or_else(|_| Err(panicked())) {
                Ok(jobs) => done.extend(jobs),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| done)
    })
}

/// Starts threads that prepare the buckets of a device's queue: the k-th is in small queue k modulo their number.
fn sampling_threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    legs: &[Leg],
    n_small: usize,
) -> Result<Vec<Receiver<Prepared>>, Error> {
    let start = |first: usize| {
        let (queue, prepared) = sync_channel(shared.config.queue_length);
        let legs: Vec<Leg> = legs.iter().skip(first).step_by(n_small).copied().collect();
        let sampling = move || prepare(shared, &legs, &queue);
        started(Builder::new(), scope, sampling).map(|_| prepared)
    };
    (0..n_small).map(start).collect()
}

fn prepare(shared: &Shared<'_>, legs: &[Leg], queue: &SyncSender<Prepared>) {
    for &leg in legs {
        if queue.send(shared.bucket(leg)).is_err() {
            return; // the device's queue has failed, and says why
        }
    }
}

/// Trains on the buckets of a queue, in the order of the jobs.
fn device_queue<T: Cell>(
    shared: &Shared<'_>,
    lane: &Lane,
    mut jobs: Vec<Work<T>>,
    small: &[Receiver<Prepared>],
) -> Result<Vec<Work<T>>, Error> {
    let mut marks = VecDeque::new();
    let mut n_taken = 0;
    for work in &mut jobs {
        each_rows(work, &lane.device)?;
        for leg in work.job.legs.clone() {
            let bucket = next(&small[n_taken % small.len()])?;
            n_taken += 1;
            if leg.n_samples == 0 {
                continue;
            }
            let edges = shared.upload(lane, bucket)?;
            let begin = lane.device.record()?;
            shared.leg(lane, leg, &edges, work)?;
            marks.push_back((begin, lane.device.record()?));
            if marks.len() == UNDER_WAY {
                settle(shared, marks.pop_front())?;
            }
        }
    }
    while let Some(pair) = marks.pop_front() {
        settle(shared, Some(pair))?;
    }
    for work in &mut jobs {
        each_rows(work, shared.device)?;
    }
    Ok(jobs)
}

/// Waits for the work between two points of a stream, and counts its time.
fn settle(shared: &Shared<'_>, marks: Option<(Event, Event)>) -> Result<(), Error> {
    if let Some((begin, end)) = marks {
        shared.clock.add_update_ms(end.elapsed_ms(&begin)?);
    }
    Ok(())
}

fn next(queue: &Receiver<Prepared>) -> Prepared {
    match queue.recv_timeout(DEADLINE) {
        Ok(prepared) => prepared,
        Err(RecvTimeoutError::Timeout) => Err(Error::new(
            ErrorKind::Deadline,
            format!("no bucket was prepared within {} s", DEADLINE.as_secs()),
        )),
        Err(RecvTimeoutError::Disconnected) => Err(panicked()),
    }
}

/// Makes a job's rows those of a stream.
fn each_rows<T: Cell>(work: &mut Work<T>, stream: &Device) -> Result<(), Error> {
    let mut rows = work.firsts.iter_mut().chain(&mut work.second);
    rows.try_for_each(|rows| adopt(rows, stream))
}

fn adopt<T: Cell>(rows: &mut Rows<T>, stream: &Device) -> Result<(), Error> {
    Ok(stream.adopt(&mut rows.cells)?)
}
