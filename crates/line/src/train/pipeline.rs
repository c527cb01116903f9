//! Steps on a device: sampling threads fill small queues, and a stream of the device drains some.
//!
//! Buckets that are in the device's memory already pass by the queues.
//!
//! The jobs of a step touch different parts, so streams never wait for one another. Rows go from
//! the stream that had them to the one that needs them with an event between. Where that is another
//! device's, they go by a copy, or all rows of a round at once through NCCL.
//!
//! # Source
//! The second figure of the paper that `docs/method/line.md` names.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, Builder, Scope};
use std::time::Duration;

use shardgraph_device::{Device, Event};

use super::bucket_trainer::LoadedJob;
use super::context::{OrderContext, Stream};
use super::exchange::{Moving, exchange};
use super::scalar::Scalar;
use super::worker_pool::{panicked, spawn};
use crate::Error;
use crate::edges::Bucket;
use crate::schedule::BucketPass;

/// Buckets whose kernels a stream has and that are not waited for: one runs while the next is sent.
const IN_FLIGHT: usize = 2;
/// Longest wait for a bucket that a thread prepares.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A bucket of a sampling thread.
type Prepared = Result<Bucket, Error>;

/// Trains on all jobs and gives the rows back, in no particular order.
pub(super) fn train<T: Scalar>(
    context: &OrderContext<'_>,
    mut jobs: Vec<LoadedJob<T>>,
) -> Result<Vec<LoadedJob<T>>, Error> {
    // The longest first, so that no stream is left alone with it at the end.
    jobs.sort_by_key(|loaded| loaded.job.n_samples());
    let n_queues = context.streams.len();
    let mut queues: Vec<Vec<LoadedJob<T>>> = (0..n_queues).map(|_| Vec::new()).collect();
    let mut n_jobs = vec![0; context.run.devices.each().len()];
    for loaded in jobs.into_iter().rev() {
        let n_parts = context.run.store.n_parts();
        let rank = (context.run.devices).rank_of(&loaded.job, n_parts);
        let of_rank = n_queues / n_jobs.len();
        queues[rank * of_rank + n_jobs[rank] % of_rank].push(loaded);
        n_jobs[rank] += 1;
    }
    let mut all = Vec::new();
    for (queue, jobs) in queues.iter_mut().enumerate() {
        let to = context.streams[queue].rank;
        let rows = jobs.iter_mut().flat_map(LoadedJob::rows_mut);
        all.extend(rows.map(|rows| Moving { rows, to }));
    }
    let exchanged = exchange(context.run.devices, all)?;
    context.clock.add_exchanged(exchanged);
    let n_samplers = (context.run.config.threads / n_queues).max(1);
    thread::scope(|scope| {
        let queues = queues.into_iter().zip(context.streams);
        let queues: Vec<_> = queues
            .map(|(jobs, stream)| {
                let passes = jobs.iter().flat_map(|loaded| &loaded.job.bucket_passes);
                let is_missing = |pass: &&BucketPass| {
                    pass.n_samples > 0 && !context.run.resident.has(stream.rank_bucket(**pass))
                };
                let missing: Vec<BucketPass> = passes.filter(is_missing).copied().collect();
                let samplers = sampling_threads(scope, context, &missing, n_samplers)?;
                let queue = move || device_queue(context, stream, jobs, &samplers);
                spawn(Builder::new(), scope, queue)
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

/// Starts threads that prepare the buckets of a device's queue: bucket k goes to small queue
/// k modulo their number.
fn sampling_threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: &'scope OrderContext<'_>,
    passes: &[BucketPass],
    n_samplers: usize,
) -> Result<Vec<Receiver<Prepared>>, Error> {
    let start = |first: usize| {
        let (queue, prepared) = sync_channel(context.run.config.queue_length);
        let own = passes.iter().skip(first).step_by(n_samplers).copied();
        let own: Vec<BucketPass> = own.collect();
        let sampling = move || prepare(context, &own, &queue);
        spawn(Builder::new(), scope, sampling).map(|_| prepared)
    };
    (0..n_samplers.min(passes.len())).map(start).collect()
}

fn prepare(context: &OrderContext<'_>, passes: &[BucketPass], queue: &SyncSender<Prepared>) {
    for &bucket_pass in passes {
        if queue.send(context.bucket(bucket_pass)).is_err() {
            return; // the device's queue has failed and reports why
        }
    }
}

/// Trains on the buckets of a queue, in the order of the jobs.
fn device_queue<T: Scalar>(
    context: &OrderContext<'_>,
    stream: &Stream,
    mut jobs: Vec<LoadedJob<T>>,
    samplers: &[Receiver<Prepared>],
) -> Result<Vec<LoadedJob<T>>, Error> {
    let mut events = VecDeque::new();
    let mut n_taken = 0;
    for loaded in &mut jobs {
        context
            .clock
            .add_exchanged(move_to(loaded, &stream.device)?);
        for bucket_pass in loaded.job.bucket_passes.clone() {
            if bucket_pass.n_samples == 0 {
                continue;
            }
            let edges = match context.run.resident.take(stream.rank_bucket(bucket_pass)) {
                Some(mut edges) => {
                    edges.adopt(&stream.device)?;
                    edges
                }
                None => {
                    let bucket = next(&samplers[n_taken % samplers.len()])?;
                    n_taken += 1;
                    context.upload(stream, bucket)?.list
                }
            };
            let begin = stream.device.record()?;
            let permuted = context.permuted(stream, bucket_pass, &edges)?;
            let in_order = permuted.as_ref().unwrap_or(&edges);
            context.train_bucket(stream, bucket_pass, in_order, loaded)?;
            context
                .run
                .resident
                .keep(stream.rank_bucket(bucket_pass), edges);
            events.push_back((begin, stream.device.record()?));
            if events.len() == IN_FLIGHT {
                wait_for(context, events.pop_front())?;
            }
        }
    }
    while let Some(pair) = events.pop_front() {
        wait_for(context, Some(pair))?;
    }
    Ok(jobs)
}

/// Waits for the work between two events of a stream, and counts its time.
fn wait_for(context: &OrderContext<'_>, events: Option<(Event, Event)>) -> Result<(), Error> {
    if let Some((begin, end)) = events {
        context.clock.add_update_ms(end.elapsed_ms(&begin)?);
    }
    Ok(())
}

fn next(queue: &Receiver<Prepared>) -> Prepared {
    match queue.recv_timeout(TIMEOUT) {
        Ok(prepared) => prepared,
        Err(RecvTimeoutError::Timeout) => Err(Error::Timeout(format!(
            "no bucket was prepared within {} s",
            TIMEOUT.as_secs()
        ))),
        Err(RecvTimeoutError::Disconnected) => Err(panicked()),
    }
}

/// Makes a job's rows those of a stream; gives the bytes that other devices had.
fn move_to<T: Scalar>(loaded: &mut LoadedJob<T>, stream: &Device) -> Result<u64, Error> {
    let mut rows = loaded.rows_mut();
    rows.try_fold(0, |bytes, rows| Ok(bytes + rows.move_to(stream)?))
}
