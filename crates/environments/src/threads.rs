//! Threads that share the steps of a vector's shards.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Error;

/// Threads that step the shards of a vector of environments; clones share them.
///
/// # Determinism
/// A shard has a number of environments that does not depend on the threads, and an environment's
/// step depends on its own state and action alone: all numbers of threads give the same bits.
///
/// ```
/// use shardgraph_environments::{Actions, Autoreset, Threads, named_environment};
///
/// let mut games = named_environment("freeway", &Default::default(), 256, Autoreset::SameStep)?;
/// games.set_threads(&Threads::new(2)?);
/// games.step(Actions::Discrete(&[1; 256]))?;
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// `None` for the caller's own thread.
    pool: Option<Arc<ThreadPool>>,
}

impl Threads {
    /// `n_threads` threads that live as long as this or a vector that has it; 1 is the caller's own.
    ///
    /// # Errors
    /// When `n_threads` is 0, or the system gives no more threads.
    pub fn new(n_threads: usize) -> Result<Threads, Error> {
        let refused = |expected: &str, given: String| {
            Error::mismatch("Threads::new", "threads", expected.into(), given)
        };
        match n_threads {
            0 => Err(refused("at least 1", "0".into())),
            1 => Ok(Threads::default()),
            n => {
                let built = ThreadPoolBuilder::new().num_threads(n).build();
                let pool = built.map_err(|error| refused("threads", error.to_string()))?;
                let pool = Some(Arc::new(pool));
                Ok(Threads { pool })
            }
        }
    }

    /// True if there is more than the caller's thread.
    pub(crate) fn are_several(&self) -> bool {
        self.pool.is_some()
    }

    /// Calls `work` where `rayon::join` finds these threads.
    pub(crate) fn run(&self, work: impl FnOnce() + Send) {
        match &self.pool {
            None => work(),
            Some(pool) => pool.install(work),
        }
    }
}

/// The number of environments at which `n` of them are cut in two: whole shards of `shard`.
pub(crate) fn half(n: usize, shard: usize) -> usize {
    n.div_ceil(shard).div_ceil(2) * shard
}
