//! What all jobs share, and one job: on one thread, with the rows of its parts to itself (see `turns` for how jobs follow one another,
//! `together` for threads that share rows, and `pipeline` for devices).

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use shardgraph_device::sgns::{
    AliasTable, EdgeList, EdgeOrder, Samples, Settings, Tables, Trainer,
};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::random::Stream;

use super::cell::Cell;
use super::plan::{Job, Leg};
use super::rows::Rows;
use crate::store::Bucket;
use crate::{Config, Error, ErrorKind, Mode, Store};

/// Samples with one learning rate.
const CHUNK: u64 = 1 << 13;

/// A stream of a device with what its kernels read; the host has one.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) device: Device,
    /// The noise of each part; none where no row of it has an edge.
    pub(crate) negatives: Vec<Option<AliasTable>>,
}

/// What all jobs of an order share.
#[derive(Debug)]
pub(crate) struct Shared<'s> {
    pub(crate) store: &'s Store,
    pub(crate) config: &'s Config,
    /// Where rows are between steps.
    pub(crate) device: &'s Device,
    pub(crate) settings: Settings,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) first_rate: f32,
    /// Samples of the run.
    pub(crate) n_samples: u64,
    pub(crate) clock: &'s Clock,
}

/// Where the time went, summed over threads or streams.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    preparation_ns: AtomicU64,
    update_ns: AtomicU64,
    /// On the wall, of all passes.
    training_ns: AtomicU64,
}

impl Clock {
    /// Seconds of preparation, of updates, and of the passes on the wall.
    pub(crate) fn seconds(&self) -> [f64; 3] {
        let each = [&self.preparation_ns, &self.update_ns, &self.training_ns];
        each.map(|ns| ns.load(Ordering::Relaxed) as f64 / 1e9)
    }

    pub(super) fn passes<R>(&self, work: impl FnOnce() -> R) -> R {
        Clock::timed(&self.training_ns, work)
    }

    pub(super) fn add_update_ms(&self, ms: f64) {
        let ns = (ms * 1e6) as u64;
        self.update_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn timed<R>(sum: &AtomicU64, work: impl FnOnce() -> R) -> R {
        let timer = Timer::wall();
        let result = work();
        sum.fetch_add(timer.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

/// A job with the rows that it works on.
#[derive(Debug)]
pub(crate) struct Work<T: Cell> {
    pub(crate) job: Job,
    pub(crate) firsts: Vec<Rows<T>>,
    pub(crate) second: Option<Rows<T>>,
}

impl Shared<'_> {
    /// Does the jobs of a round and gives the rows back, in no particular order: for threads that share rows, and for devices.
    pub(crate) fn round<T: Cell>(
        &self,
        mut jobs: Vec<Work<T>>,
        n_threads: usize,
    ) -> Result<Vec<Work<T>>, Error> {
        if self.device.kind() != DeviceKind::Host {
            // The longest first, so that no stream is left alone with it at the end.
            jobs.sort_by_key(|work| work.job.n_samples());
            return super::pipeline::run(self, jobs);
        }
        super::together::run(self, &mut jobs, n_threads)?;
        Ok(jobs)
    }

    /// Threads that have rows to themselves: all, or the one that asks for steps.
    pub(crate) fn n_own_threads(&self) -> usize {
        match self.has_turns() {
            true => self.config.threads.min(self.store.n_parts() as usize),
            false => 1,
        }
    }

    /// Whether threads have rows to themselves.
    pub(crate) fn has_turns(&self) -> bool {
        self.device.kind() == DeviceKind::Host
            && self.config.mode_on(DeviceKind::Host) == Mode::Deterministic
    }

    /// Trains on the buckets of a job.
    pub(crate) fn job<T: Cell>(&self, work: &mut Work<T>) -> Result<(), Error> {
        // A bucket without samples may have no weight either, and weights whose sum is 0 are refused.
        let mut legs = work.job.legs.clone();
        legs.retain(|leg| leg.n_samples > 0);
        for leg in legs {
            let edges = self.upload(&self.lanes[0], self.bucket(leg)?)?;
            let clock = &self.clock.update_ns;
            Clock::timed(clock, || self.leg(&self.lanes[0], leg, &edges, work))?;
        }
        Ok(())
    }

    /// Trains on one bucket.
    pub(super) fn leg<T: Cell>(
        &self,
        lane: &Lane,
        leg: Leg,
        edges: &EdgeList,
        work: &mut Work<T>,
    ) -> Result<(), Error> {
        let at = work.job.firsts.iter().position(|&part| part == leg.vertex);
        let (vertex, mut context) = match (at, &mut work.second) {
            (Some(at), second) => (&mut work.firsts[at], second.as_mut()),
            (None, Some(second)) => (second, work.firsts.first_mut()),
            (None, None) => return Err(panicked()), // no plan has such a leg
        };
        self.chunks(
            lane,
            leg,
            edges,
            0..leg.n_samples,
            &mut |trainer, samples, rate| {
                step_rows(trainer, samples, rate, vertex, context.as_deref_mut())
            },
        )
    }

    /// Takes some of a bucket's samples in chunks, each with its rate.
    pub(super) fn chunks(
        &self,
        lane: &Lane,
        leg: Leg,
        edges: &EdgeList,
        range: Range<u64>,
        step: &mut StepChunk<'_>,
    ) -> Result<(), Error> {
        let Some(negatives) = &lane.negatives[leg.context as usize] else {
            return Ok(()); // no edge ends there
        };
        let settings = Settings {
            group: self.config.share_in(negatives.len() as u32),
            ..self.settings
        };
        let mut trainer = Trainer::new(&lane.device, settings)?;
        if let Some(most) = self.config.edges_in_flight {
            trainer.limit_samples_in_flight(most / self.lanes.len() as u32);
        }
        for first in range.clone().step_by(CHUNK as usize) {
            let order = match self.store.is_weighted() {
                false => EdgeOrder::Listed { first },
                true => EdgeOrder::Drawn,
            };
            let samples = Samples {
                edges,
                negatives,
                order,
                reversed: leg.is_reversed,
                // A bucket has fewer than 2^32 samples (see `Planner::check`), so no number serves twice.
                first: (leg.number << 32) + first,
                count: CHUNK.min(range.end - first),
            };
            step(&mut trainer, &samples, self.rate(leg.first_sample + first))?;
        }
        Ok(())
    }

    /// Reads a bucket; without weights, its edges come in an order of this visit's own.
    pub(super) fn bucket(&self, leg: Leg) -> Result<Bucket, Error> {
        Clock::timed(&self.clock.preparation_ns, || {
            let (i, j) = leg.bucket();
            let mut bucket = self.store.bucket(i, j)?;
            if !self.store.is_weighted() {
                let mut stream = Stream::new(self.settings.seed, "line edges", leg.number);
                stream.shuffle(&mut bucket.pairs);
            }
            Ok(bucket)
        })
    }

    pub(super) fn upload(&self, lane: &Lane, bucket: Bucket) -> Result<EdgeList, Error> {
        Clock::timed(&self.clock.preparation_ns, || {
            let pairs = bucket.pairs.as_flattened();
            if self.store.is_weighted() {
                let weights: Vec<f64> = bucket.weights.iter().map(|&w| f64::from(w)).collect();
                return Ok(EdgeList::upload_weighted(&lane.device, pairs, &weights)?);
            }
            Ok(EdgeList::upload(&lane.device, pairs)?)
        })
    }

    pub(super) fn update_clock<R>(&self, work: impl FnOnce() -> R) -> R {
        Clock::timed(&self.clock.update_ns, work)
    }

    /// Falls in a line from the first rate to a ten-thousandth of it.
    pub(super) fn rate(&self, sample: u64) -> f32 {
        let left = 1.0 - sample as f64 / self.n_samples as f64;
        (f64::from(self.first_rate) * left.max(1e-4)) as f32
    }
}

/// Trains on the samples of a chunk, at a rate.
pub(super) type StepChunk<'s> =
    dyn FnMut(&mut Trainer, &Samples<'_>, f32) -> Result<(), Error> + 's;

/// A step on rows that nobody else has; without context rows, the vertex rows have both roles.
fn step_rows<T: Cell>(
    trainer: &mut Trainer,
    samples: &Samples<'_>,
    rate: f32,
    vertex: &mut Rows<T>,
    context: Option<&mut Rows<T>>,
) -> Result<(), Error> {
    let (tables, squares) = match context {
        None => (
            Tables::Order1(&mut vertex.cells),
            vertex.squares.as_mut().map(Tables::Order1),
        ),
        Some(context) => {
            let squares = vertex.squares.as_mut().zip(context.squares.as_mut());
            let tables = Tables::Order2 {
                vertex: &mut vertex.cells,
                context: &mut context.cells,
            };
            let squares = squares.map(|(vertex, context)| Tables::Order2 { vertex, context });
            (tables, squares)
        }
    };
    match squares {
        None => trainer.step(samples, rate, tables, None)?,
        Some(squares) => trainer.step_adagrad(samples, rate, tables, squares)?,
    }
    Ok(())
}

/// Does all items, from the last to the first, each on the thread that is free.
pub(super) fn in_turn<I: Send>(
    items: Vec<I>,
    n_threads: usize,
    work: impl Fn(I) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let n_threads = n_threads.min(items.len());
    let queue = Mutex::new(items);
    // A function of its own: the lock is free again when it returns, and not when the item is done.
    let next = || locked(&queue).pop();
    let worker = || -> Result<(), Error> {
        while let Some(item) = next() {
            work(item)?;
        }
        Ok(())
    };
    if n_threads <= 1 {
        return worker();
    }
    thread::scope(|scope| {
        let others = (1..n_threads).map(|_| started(Builder::new(), scope, worker));
        let others = others.collect::<Result<Vec<_>, Error>>()?;
        let mut result = worker();
        for other in others {
            let ended = other.join().unwrap_or_else(|_| Err(panicked()));
            result = result.and(ended);
        }
        result
    })
}

/// A lock whose holder cannot panic between two states that belong together: a push or a pop is whole.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|held| held.into_inner())
}

/// Starts a thread, or says that the system has none left.
pub(super) fn started<'scope, R: Send + 'scope>(
    builder: Builder,
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> R + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, R>, Error> {
    builder.spawn_scoped(scope, work).map_err(|e| {
        let message = format!("cannot start a training thread: {e}: take fewer (`--threads`)");
        Error::new(ErrorKind::Device, message)
    })
}

pub(super) fn panicked() -> Error {
    Error::new(ErrorKind::Device, "a training thread panicked")
}
