//! Primitives of the barrier and the slots. The model check compiles them with primitives of
//! its own in place of these.

pub(super) use crate::timeout::Expiry;
pub(super) use std::sync::atomic::{AtomicU64, Ordering};
pub(super) use std::sync::{Condvar, Mutex, RwLock, RwLockReadGuard};
pub(super) use std::thread::{sleep as nap, yield_now};

use std::sync::{MutexGuard, PoisonError, RwLockWriteGuard, TryLockError};
use std::time::Duration;

// No lock here guards anything that a panic could leave half changed, so poison says nothing.

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until it is woken, at most for `left`; also wakes for no reason.
pub(super) fn sleep<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    left: Duration,
) -> MutexGuard<'a, T> {
    let woken = changed.wait_timeout(guard, left);
    woken.unwrap_or_else(PoisonError::into_inner).0
}

/// `None` if a writer is there or waits; never blocks.
pub(super) fn try_read<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
    match lock.try_read() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

pub(super) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
