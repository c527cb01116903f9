//! The work of a generation: chromosomes to make and decode, shared out between threads.

use std::sync::{Mutex, PoisonError};

use rayon::ThreadPool;

use crate::breed::{self, Proposals};
use crate::config::Config;
use crate::outcome::{Fitness, Individual};
use crate::random::Stream;

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
    /// Does all jobs: in the calling thread with the first decoder, or in the pool's threads with a decoder each.
    pub(crate) fn work<D>(
        &self,
        jobs: &mut [Job<'_>],
        decoders: &mut [D],
        pool: Option<&ThreadPool>,
    ) where
        D: FnMut(&[f32]) -> Fitness + Send,
    {
        let Some(pool) = pool else {
            if let Some(decode) = decoders.first_mut() {
                jobs.iter_mut().for_each(|job| self.make(job, decode));
            }
            return;
        };
        let batch = jobs.len().div_ceil(BATCHES_PER_THREAD * decoders.len());
        let batches = Mutex::new(jobs.chunks_mut(batch.max(1)));
        pool.in_place_scope(|scope| {
            for decode in decoders {
                scope.spawn(|_| {
                    while let Some(batch) = next(&batches) {
                        batch.iter_mut().for_each(|job| self.make(job, decode));
                    }
                });
            }
        });
    }

    fn make(&self, job: &mut Job<'_>, decode: &mut impl FnMut(&[f32]) -> Fitness) {
        let Config {
            seed, elites, rho, ..
        } = self.config;
        let keys = &mut job.child.keys;
        let mut stream = Stream::new(*seed, job.population_idx, self.generation, job.child_idx);
        match job.origin {
            Origin::Given(given) => keys.copy_from_slice(given),
            Origin::Mutant => breed::mutant(&mut stream, self.proposals, keys),
            Origin::Crossed(members) => {
                let rho = breed::rho_u16(*rho);
                breed::cross(&mut stream, members, *elites as usize, rho, keys);
            }
        }
        job.child.fitness = decode(keys);
    }
}

/// The next of what an iterator, which several threads ask, has to give.
fn next<T>(items: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    // A thread that panicked did so in a decoder, without the lock.
    items.lock().unwrap_or_else(PoisonError::into_inner).next()
}
