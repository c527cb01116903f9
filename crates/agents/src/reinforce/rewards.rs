//! Rewards that take long to compute, from threads that share a queue.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// The reward of each of `n_jobs` pairs of a context and sampled actions, which `reward` knows by their numbers. Each of `n_threads` threads,
/// the calling one among them, takes the next job when it has finished one; where the system has fewer threads, those do all.
///
/// # Errors
/// The error of the first job, by number, that had one; jobs behind it may not have run.
/// # Panics
/// When `n_threads` is 0, or `reward` panics.
/// # Determinism
/// The same for every number of threads, where `reward` depends on the number of the job alone.
///
/// ```
/// use shardgraph_agents::rewards;
/// assert_eq!(rewards(3, 2, &|job| Ok::<f32, String>(job as f32 / 2.0)), Ok(vec![0.0, 0.5, 1.0]));
/// ```
pub fn rewards<E: Send>(
    n_jobs: usize,
    n_threads: usize,
    reward: &(dyn Fn(usize) -> Result<f32, E> + Sync),
) -> Result<Vec<f32>, E> {
    assert!(n_threads > 0, "rewards need a thread");
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(n_jobs));
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= n_jobs {
                return;
            }
            let earned = reward(job);
            if earned.is_err() {
                next.store(n_jobs, Ordering::Relaxed); // no more jobs are begun
            }
            let mut done = done.lock().expect("a thread that panicked ends the scope");
            done.push((job, earned));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads.min(n_jobs) {
            // Without a thread of its own, the job is done by those that are there.
            let _ = Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().expect("all threads have ended well");
    done.sort_by_key(|(job, _)| *job);
    done.into_iter().map(|(_, earned)| earned).collect()
}
