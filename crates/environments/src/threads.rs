//! Threads that share the steps of a vector's shards.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Error;
use crate::vector::Actions;

/// Neighbouring environments of a vector with their rows: what a thread steps alone.
pub(crate) trait Shard: Sized + Send {
    /// Environments that are stepped together: shards are cut between groups of so many.
    const GROUP: usize;
    /// Environments whose step takes about as long as to wake a thread.
    const LEAST: usize;

    fn n_environments(&self) -> usize;

    /// The first `n` environments, and the others.
    fn split_at(self, n: usize) -> (Self, Self);

    /// Takes checked actions.
    fn advance(self, actions: Actions<'_>);
}

/// Threads that step the shards of a vector of environments; clones share them.
///
/// # Determinism
/// An environment's step depends on its own state and action alone: all numbers of threads give the
/// same bits.
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
    /// Threads beside the caller's own; `None` for that alone.
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
                let built = ThreadPoolBuilder::new().num_threads(n - 1).build();
                let pool = built.map_err(|error| refused("threads", error.to_string()))?;
                let pool = Some(Arc::new(pool));
                Ok(Threads { pool })
            }
        }
    }

    /// Takes checked actions of `width` numbers, the caller's thread a part of them.
    pub(crate) fn step<S: Shard>(&self, mut shard: S, mut actions: Actions<'_>, width: usize) {
        let n_parts = match &self.pool {
            None => 1,
            Some(pool) => (pool.current_num_threads() + 1).min(shard.n_environments() / S::LEAST),
        };
        let Some(pool) = self.pool.as_ref().filter(|_| n_parts > 1) else {
            return shard.advance(actions);
        };
        pool.in_place_scope(|scope| {
            for n_left in (2..=n_parts).rev() {
                let n = (shard.n_environments() / n_left).next_multiple_of(S::GROUP);
                let (part, rest) = shard.split_at(n);
                let (part_actions, rest_actions) = actions.split_at(n * width);
                scope.spawn(move |_| part.advance(part_actions));
                (shard, actions) = (rest, rest_actions);
            }
            shard.advance(actions);
        });
    }
}
