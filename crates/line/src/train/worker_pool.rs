//! Threads of the host: items in turn, results in order.

use std::sync::{Mutex, MutexGuard};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use crate::Error;

/// Threads that take items in turn; they are started for each call, and end with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerPool {
    pub(crate) n_threads: usize,
}

impl WorkerPool {
    /// Works on all items, from the last to the first, each on the thread that is free.
    pub(crate) fn for_each<I: Send>(
        self,
        items: Vec<I>,
        work: impl Fn(I) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let n_threads = self.n_threads.min(items.len());
        let queue = Mutex::new(items);
        // A closure of its own: the lock is free again when it returns, and not when the item is
        // done.
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
            let others = (1..n_threads).map(|_| spawn(Builder::new(), scope, worker));
            let others = others.collect::<Result<Vec<_>, Error>>()?;
            let mut result = worker();
            for other in others {
                let ended = other.join().unwrap_or_else(|_| Err(panicked()));
                result = result.and(ended);
            }
            result
        })
    }

    /// Results for all items, in their order.
    pub(crate) fn map<I: Copy + Sync, R: Send>(
        self,
        items: &[I],
        work: impl Fn(I) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
        let indices = (0..items.len()).rev().collect();
        self.for_each(indices, |at: usize| {
            *locked(&results[at]) = Some(work(items[at])?);
            Ok(())
        })?;
        let results = results.into_iter().map(Mutex::into_inner);
        let results = results.map(|result| result.unwrap_or_else(|held| held.into_inner()));
        Ok(results.flatten().collect())
    }
}

/// A lock whose holder cannot panic between two states that belong together.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|held| held.into_inner())
}

/// Starts a thread; an error where the system has none left.
pub(super) fn spawn<'scope, R: Send + 'scope>(
    builder: Builder,
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> R + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, R>, Error> {
    builder.spawn_scoped(scope, work).map_err(|e| {
        Error::thread(format!(
            "cannot start a training thread: {e}: take fewer (`--threads`)"
        ))
    })
}

pub(super) fn panicked() -> Error {
    Error::thread("a training thread panicked")
}
