//! The work of a generation: chromosomes to make and decode, shared out between threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::ThreadPool;

use crate::breed::{self, Proposals};
use crate::config::Config;
use crate::outcome::{Fitness, Individual};
use crate::random::child_rng;

/// A chromosome to make and decode.
pub(crate) struct Job<'a> {
    pub(crate) origin: Origin<'a>,
    pub(crate) population_idx: u32,
    pub(crate) child_idx: u32,
    pub(crate) child: &'a mut Individual,
}

/// How a job's chromosome comes about.
pub(crate) enum Origin<'a> {
    Given(&'a [f32]),
    Mutant,
    /// From two of these members, best first.
    Crossed(&'a [Individual]),
}

/// What all jobs of a generation share.
pub(crate) struct Rules<'a> {
    pub(crate) config: &'a Config,
    pub(crate) proposals: &'a Proposals,
    pub(crate) generation: u64,
}

/// Batches for each thread: enough that a slow one holds the others up for little, few enough that asking costs nothing.
const BATCHES_PER_THREAD: usize = 8;

impl Rules<'_> {
    /// Does the jobs, from the first on, until they are done or `go_on` says no; how many were done, at least one, and whether it
    /// never said no.
    ///
    /// The calling thread works with the first decoder and asks `go_on`, the pool's threads work with the others.
    pub(crate) fn work<D>(
        &self,
        jobs: &mut [Job<'_>],
        decoders: &mut [D],
        pool: Option<&ThreadPool>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> (usize, bool)
    where
        D: FnMut(&[f32]) -> Fitness + Send,
    {
        let Some((own, others)) = decoders.split_first_mut() else {
            return (0, true);
        };
        // Alone, nobody has to be asked for a batch, and `go_on` can be asked after each job.
        let n_batches = match pool {
            None => jobs.len(),
            Some(_) => BATCHES_PER_THREAD * (others.len() + 1),
        };
        let batch = jobs.len().div_ceil(n_batches.max(1)).max(1);
        let batches = Mutex::new(jobs.chunks_mut(batch));
        let (n_done, has_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        // Batches are given out in order and finished, so that what is done is a beginning.
        let work_on = |decode: &mut D| {
            if has_ended.load(Ordering::Relaxed) {
                return false;
            }
            let Some(batch) = next(&batches) else {
                return false;
            };
            for job in batch.iter_mut() {
                self.make(job);
                job.child.fitness = decode(&job.child.keys);
            }
            n_done.fetch_add(batch.len(), Ordering::Relaxed);
            true
        };
        let mut lead = || {
            while work_on(own) {
                if !go_on() {
                    has_ended.store(true, Ordering::Relaxed);
                }
            }
        };
        match pool {
            None => lead(),
            Some(pool) => pool.in_place_scope(|scope| {
                for decode in others {
                    scope.spawn(|_| while work_on(decode) {});
                }
                lead();
            }),
        }
        (n_done.into_inner(), !has_ended.into_inner())
    }

    /// Makes the keys of a job's chromosome.
    pub(crate) fn make(&self, job: &mut Job<'_>) {
        let Config {
            seed, elites, rho, ..
        } = self.config;
        let keys = &mut job.child.keys;
        let mut stream = child_rng(*seed, job.population_idx, self.generation, job.child_idx);
        match job.origin {
            Origin::Given(given) => keys.copy_from_slice(given),
            Origin::Mutant => breed::mutant(&mut stream, self.proposals, keys),
            Origin::Crossed(members) => {
                let rho = breed::rho_u16(*rho);
                breed::cross(&mut stream, members, *elites as usize, rho, keys);
            }
        }
    }
}

/// The next of what an iterator, which several threads ask, has to give.
fn next<T>(items: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    // A thread that panicked did so in a decoder, without the lock.
    items.lock().unwrap_or_else(PoisonError::into_inner).next()
}
