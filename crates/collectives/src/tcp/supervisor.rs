//! Panics of the ranks that [`tcp::run`](super::run) started.

use super::world::World;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Catches the panics of one thread, and tells the worlds that were dropped in it why.
pub(super) struct Supervisor {
    thread: ThreadId,
    worlds: Mutex<Vec<Arc<World>>>,
}

impl Supervisor {
    pub(super) fn here() -> Arc<Supervisor> {
        Arc::new(Supervisor {
            thread: thread::current().id(),
            worlds: Mutex::default(),
        })
    }

    /// Keeps a world whose rank is dropped by a panic, if this is the thread.
    pub(super) fn takes(&self, world: &Arc<World>) -> bool {
        let is_here = thread::current().id() == self.thread;
        if is_here {
            self.worlds().push(Arc::clone(world));
        }
        is_here
    }

    pub(super) fn worlds(&self) -> MutexGuard<'_, Vec<Arc<World>>> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
