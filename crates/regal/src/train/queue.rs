//! Searches that ranks share: each goes to the thread, of any rank, that would be through with it first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use shardgraph_agents::rewards;
use shardgraph_components::autodiff::collectives::{Op, Reduction};
use shardgraph_components::autodiff::device::Timer;
use shardgraph_job::Ranks;

use crate::error::Error;

/// A search that some rank makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// How long it takes, in any unit that all jobs of a run share.
    pub(super) cost: u64,
    /// How many numbers come of it.
    pub(super) n_words: usize,
}

/// Makes the search of a number, and gives what came of it.
pub(super) type Work<'w> = &'w (dyn Fn(usize) -> Result<Vec<u32>, Error> + Sync);

/// Threads of this rank, and how fast each rank has been.
#[derive(Default)]
pub(super) struct SearchPool {
    n_threads: usize,
    /// One for each rank; none before the first round.
    workers: Vec<Worker>,
    /// Jobs that this rank has done.
    #[cfg(test)]
    pub(super) n_done: u64,
}

/// What is known of a rank; the same on all ranks.
#[derive(Clone, Copy, Debug)]
struct Worker {
    n_threads: u64,
    /// The cost of what its threads did, and the nanoseconds that they took, older rounds counting half as much as the one after.
    cost: u64,
    nanoseconds: u64,
}

impl Worker {
    fn has_done(&mut self, cost: u64, nanoseconds: u64) {
        self.cost = self.cost / 2 + cost / 2;
        self.nanoseconds = self.nanoseconds / 2 + nanoseconds / 2;
    }
}

impl SearchPool {
    pub(super) fn new(n_threads: usize) -> Result<SearchPool, Error> {
        if n_threads == 0 {
            return Err(Error::options("threads = 0: expected at least 1"));
        }
        Ok(SearchPool {
            n_threads,
            ..SearchPool::default()
        })
    }
}

/// The pools of all ranks, as one of them sees them during a step.
pub(super) struct SearchQueue<'q, 'c> {
    pub(super) ranks: &'q mut Ranks<'c>,
    pub(super) pool: SearchPool,
}

impl SearchQueue<'_, '_> {
    /// What comes of each job, done by one rank and handed to all. Every rank calls this with the same jobs.
    ///
    /// Who does what depends on how fast the ranks were; what comes of it does not. A wait for another rank ends after the ranks' timeout.
    ///
    /// # Errors
    /// What `work` says, on the rank that did it; `Ranks` where another one is gone.
    ///
    /// # Complexity
    /// One all-reduce of the numbers that come of the jobs and two for each rank; the first time, one number gathered from each.
    pub(super) fn run(&mut self, jobs: &[Job], work: Work<'_>) -> Result<Vec<Vec<u32>>, Error> {
        self.meet()?;
        let costs: Vec<u64> = jobs.iter().map(|job| job.cost).collect();
        let shares = hand_out(&costs, &self.pool.workers);
        let rank = self.ranks.rank() as usize;
        let (found, nanoseconds) = self.do_own(&shares[rank], work)?;
        // What comes of the jobs, in their order, and behind it each rank's nanoseconds.
        let mut starts = vec![0];
        starts.extend(jobs.iter().scan(0, |end, job| {
            *end += job.n_words;
            Some(*end)
        }));
        let n_words = starts[jobs.len()];
        let mut words = vec![0u32; n_words + 2 * shares.len()];
        for (&job, found) in shares[rank].iter().zip(&found) {
            words[starts[job]..starts[job + 1]].copy_from_slice(found);
        }
        words[n_words + 2 * rank..][..2].copy_from_slice(&words_of(nanoseconds));
        self.exchange(&mut words)?;
        let (of_jobs, of_ranks) = words.split_at(n_words);
        let of_ranks = of_ranks.chunks_exact(2).zip(&shares);
        for (worker, (nanoseconds, own)) in self.pool.workers.iter_mut().zip(of_ranks) {
            let own = own.iter().map(|&job| costs[job]);
            worker.has_done(own.fold(0, u64::saturating_add), number_of(nanoseconds));
        }
        let of_jobs = starts.windows(2).map(|of| of_jobs[of[0]..of[1]].to_vec());
        Ok(of_jobs.collect())
    }

    /// What comes of this rank's jobs, and the nanoseconds of its threads.
    fn do_own(&mut self, own: &[usize], work: Work<'_>) -> Result<(Vec<Vec<u32>>, u64), Error> {
        let done: Vec<OnceLock<Vec<u32>>> = own.iter().map(|_| OnceLock::new()).collect();
        let nanoseconds = AtomicU64::new(0);
        rewards(own.len(), self.pool.n_threads, &|at| {
            let timer = Timer::wall();
            // A thread alone sets each.
            let _ = done[at].set(work(own[at])?);
            nanoseconds.fetch_add(timer.elapsed().as_nanos() as u64, Ordering::Relaxed);
            Ok::<f32, Error>(0.0)
        })?;
        #[cfg(test)]
        {
            self.pool.n_done += own.len() as u64;
        }
        let found = done.into_iter().filter_map(OnceLock::into_inner);
        Ok((found.collect(), nanoseconds.into_inner()))
    }

    /// One rank has each number's bits and the others zero: the sum is those bits.
    fn exchange(&mut self, words: &mut [u32]) -> Result<(), Error> {
        let op = Op::AllReduce {
            buf: words.into(),
            reduction: Reduction::Sum,
        };
        Ok(self.ranks.comm.run(op, self.ranks.timeout)?)
    }

    /// Asks each rank how many threads it has.
    fn meet(&mut self) -> Result<(), Error> {
        if !self.pool.workers.is_empty() {
            return Ok(());
        }
        let own = [self.pool.n_threads as u64];
        let mut n_threads = vec![0u64; self.ranks.size() as usize];
        let op = Op::AllGather {
            send: (&own).into(),
            recv: n_threads.as_mut_slice().into(),
        };
        self.ranks.comm.run(op, self.ranks.timeout)?;
        let worker = |n_threads| Worker {
            n_threads,
            cost: 0,
            nanoseconds: 0,
        };
        self.pool.workers = n_threads.into_iter().map(worker).collect();
        Ok(())
    }
}

/// A number as two, the lower half first.
pub(super) fn words_of(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The number that [`words_of`] made these of.
pub(super) fn number_of(words: &[u32]) -> u64 {
    let digits = words.iter().rev();
    digits.fold(0, |number, &word| number << 32 | u64::from(word))
}

/// The jobs of each rank, the longest first, as its threads take them.
///
/// Job by job, the longest first, each goes to the rank that has a thread which ends it first by what ranks have taken so far. With equal
/// speeds the last job ends after at most 4/3 of the shortest possible time.
///
/// # Source
/// Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied Mathematics 17 (1969): longest processing time first.
fn hand_out(costs: &[u64], workers: &[Worker]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&job| Reverse(costs[job]));
    let speeds = speeds(workers);
    let threads = |worker: &Worker| -> BinaryHeap<Reverse<u64>> {
        let n = (worker.n_threads as usize).min(costs.len());
        std::iter::repeat_n(Reverse(0), n).collect()
    };
    let mut loads: Vec<BinaryHeap<Reverse<u64>>> = workers.iter().map(threads).collect();
    let mut shares = vec![Vec::new(); workers.len()];
    for job in order {
        let load_with = |rank: usize| {
            let least = loads[rank].peek().map_or(0, |load| load.0);
            least.saturating_add(costs[job])
        };
        let end = |rank: usize| load_with(rank) as f64 / speeds[rank];
        let first = (0..workers.len()).min_by(|&a, &b| end(a).total_cmp(&end(b)));
        let rank = first.unwrap_or(0);
        let load = load_with(rank);
        loads[rank].pop();
        loads[rank].push(Reverse(load));
        shares[rank].push(job);
    }
    shares
}

/// Cost a nanosecond of a thread. A rank of which nothing is known is as fast as the others in the mean; so is one that was given nothing
/// for so long that what is known of it has been halved away, or a rank that stood still once would stand still for ever.
fn speeds(workers: &[Worker]) -> Vec<f64> {
    let speed = |worker: &Worker| match (worker.cost, worker.nanoseconds) {
        (0, _) | (_, 0) => None,
        (cost, nanoseconds) => Some(cost as f64 / nanoseconds as f64),
    };
    let known: Vec<f64> = workers.iter().filter_map(speed).collect();
    let mean = match known.len() {
        0 => 1.0,
        n => known.iter().sum::<f64>() / n as f64,
    };
    let speeds = workers.iter().map(|worker| speed(worker).unwrap_or(mean));
    speeds.collect()
}

#[cfg(test)]
mod tests;
