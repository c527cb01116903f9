//! One step: jobs on different parts, each on one thread, with the rows of its parts to itself.

use std::sync::Mutex;
use std::thread;

use shardgraph_device::sgns::{
    AliasTable, EdgeList, EdgeOrder, Samples, Settings, Tables, Trainer,
};
use shardgraph_device::{Buffer, Device};
use shardgraph_graph::random::Stream;

use super::cell::Cell;
use super::plan::{Job, Leg};
use crate::{Error, ErrorKind, Store};

/// Samples with one learning rate.
const CHUNK: u64 = 1 << 13;

/// What all jobs of an order share.
#[derive(Debug)]
pub(crate) struct Shared<'s> {
    pub(crate) store: &'s Store,
    pub(crate) device: &'s Device,
    pub(crate) settings: Settings,
    /// The noise of each part; none where no row of it has an edge.
    pub(crate) negatives: Vec<Option<AliasTable>>,
    pub(crate) first_rate: f32,
    /// Samples of the run.
    pub(crate) n_samples: u64,
}

/// A job with the rows that it works on: its pair's first part, and its second one where that is another.
#[derive(Debug)]
pub(crate) struct Work<'j, T: Cell> {
    pub(crate) job: &'j Job,
    pub(crate) first: Buffer<T>,
    pub(crate) second: Option<Buffer<T>>,
}

impl Shared<'_> {
    /// Does all jobs and gives the rows back, in no particular order.
    pub(crate) fn run<'j, T: Cell>(
        &self,
        mut jobs: Vec<Work<'j, T>>,
        n_threads: usize,
    ) -> Result<Vec<Work<'j, T>>, Error> {
        // The longest first, so that no thread is left alone with it at the end.
        jobs.sort_by_key(|work| work.job.n_samples());
        let n_threads = n_threads.min(jobs.len());
        if n_threads <= 1 {
            for work in &mut jobs {
                self.job(work)?;
            }
            return Ok(jobs);
        }
        let (queue, done) = (Mutex::new(jobs), Mutex::new(Vec::new()));
        let worker = || -> Result<(), Error> {
            while let Some(mut work) = locked(&queue).pop() {
                self.job(&mut work)?;
                locked(&done).push(work);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..n_threads).map(|_| scope.spawn(worker)).collect();
            let mut result = worker();
            for other in others {
                let ended = other.join().unwrap_or_else(|_| Err(panicked()));
                result = result.and(ended);
            }
            result
        })?;
        Ok(done.into_inner().unwrap_or_else(|held| held.into_inner()))
    }

    fn job<T: Cell>(&self, work: &mut Work<'_, T>) -> Result<(), Error> {
        for leg in &work.job.legs {
            let is_first = leg.vertex == work.job.pair.0;
            let tables = |work: &mut Work<'_, T>| -> Result<(), Error> {
                match &mut work.second {
                    None => self.leg(*leg, &mut work.first, None),
                    Some(second) if is_first => self.leg(*leg, &mut work.first, Some(second)),
                    Some(second) => self.leg(*leg, second, Some(&mut work.first)),
                }
            };
            tables(work)?;
        }
        Ok(())
    }

    /// Trains on one bucket, its edges in an order of this visit's own.
    fn leg<T: Cell>(
        &self,
        leg: Leg,
        vertex: &mut Buffer<T>,
        mut context: Option<&mut Buffer<T>>,
    ) -> Result<(), Error> {
        let Some(negatives) = &self.negatives[leg.context as usize] else {
            return Ok(()); // no edge ends there
        };
        if leg.n_samples == 0 {
            return Ok(());
        }
        let edges = self.edges(leg)?;
        let mut trainer = Trainer::new(self.device, self.settings)?;
        let mut done = 0;
        while done < leg.n_samples {
            let count = CHUNK.min(leg.n_samples - done);
            let order = match self.store.is_weighted() {
                false => EdgeOrder::Listed { first: done },
                true => EdgeOrder::Drawn,
            };
            let samples = Samples {
                edges: &edges,
                negatives,
                order,
                reversed: leg.is_reversed,
                // A bucket has fewer than 2^32 samples, so no number serves twice.
                first: (leg.number << 32) + done,
                count,
            };
            let tables = match &mut context {
                None => Tables::Order1(&mut *vertex),
                Some(context) => Tables::Order2 {
                    vertex: &mut *vertex,
                    context,
                },
            };
            trainer.step(&samples, self.rate(leg.first_sample + done), tables, None)?;
            done += count;
        }
        Ok(())
    }

    fn edges(&self, leg: Leg) -> Result<EdgeList, Error> {
        let (i, j) = leg.bucket();
        let mut bucket = self.store.bucket(i, j)?;
        if self.store.is_weighted() {
            let weights: Vec<f64> = bucket.weights.iter().map(|&w| f64::from(w)).collect();
            let pairs = bucket.pairs.as_flattened();
            return Ok(EdgeList::upload_weighted(self.device, pairs, &weights)?);
        }
        Stream::new(self.settings.seed, "line edges", leg.number).shuffle(&mut bucket.pairs);
        Ok(EdgeList::upload(self.device, bucket.pairs.as_flattened())?)
    }

    /// Falls in a line from the first rate to a ten-thousandth of it.
    fn rate(&self, sample: u64) -> f32 {
        let left = 1.0 - sample as f64 / self.n_samples as f64;
        (f64::from(self.first_rate) * left.max(1e-4)) as f32
    }
}

/// A lock whose holder cannot panic between two states that belong together: a push or a pop is whole.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|held| held.into_inner())
}

fn panicked() -> Error {
    Error::new(ErrorKind::Device, "a training thread panicked")
}
