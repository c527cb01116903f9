//! The primitives of `threads::sync` for the model check: the same names, every operation a point
//! where another thread may run.
//!
//! Only one thread runs at a time, so the real primitives inside never wait; they keep the data.

use super::explore::{block, fall_asleep, free, give_way, has_expired, notify, point};
use crate::timeout::Timeout;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicUsize;
pub(super) use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The timeouts that may expire are at most this long; the others never do.
const HASTY: Duration = Duration::from_micros(1);

/// Relaxed accesses are to what another access publishes, so that they need no schedules of their
/// own.
fn unless_relaxed(order: Ordering) {
    if order != Ordering::Relaxed {
        point();
    }
}

#[derive(Default)]
pub(super) struct AtomicU64(std::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub(super) fn new(value: u64) -> AtomicU64 {
        AtomicU64(value.into())
    }

    pub(super) fn load(&self, order: Ordering) -> u64 {
        unless_relaxed(order);
        self.0.load(SeqCst)
    }

    pub(super) fn store(&self, value: u64, order: Ordering) {
        unless_relaxed(order);
        self.0.store(value, SeqCst);
    }

    pub(super) fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        point();
        self.0.fetch_add(value, SeqCst)
    }

    pub(super) fn fetch_sub(&self, value: u64, _: Ordering) -> u64 {
        point();
        self.0.fetch_sub(value, SeqCst)
    }

    pub(super) fn fetch_or(&self, value: u64, _: Ordering) -> u64 {
        point();
        self.0.fetch_or(value, SeqCst)
    }

    pub(super) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        point();
        self.0.compare_exchange(current, new, SeqCst, SeqCst)
    }
}

pub(super) fn yield_now() {
    give_way();
}

pub(super) fn nap(_: std::time::Duration) {
    give_way();
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

pub(super) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    fn take(&self) -> MutexGuard<'_, T> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => {
                    return MutexGuard {
                        mutex: self,
                        guard: Some(guard),
                    };
                }
                Err(std::sync::TryLockError::Poisoned(_)) => panic!("another thread has failed"),
                Err(std::sync::TryLockError::WouldBlock) => block(address(self)),
            }
        }
    }
}

pub(super) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.guard.take());
        free(address(self.mutex));
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    point();
    mutex.take()
}

/// Not of size 0, so that it has an address of its own.
pub(super) struct Condvar(#[expect(dead_code, reason = "gives it an address")] u8);

impl Condvar {
    pub(super) fn new() -> Condvar {
        Condvar(0)
    }

    pub(super) fn notify_all(&self) {
        point();
        notify(address(self));
    }
}

pub(super) fn sleep<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    left: Duration,
) -> MutexGuard<'a, T> {
    point();
    let mutex = guard.mutex;
    // No point lies between the two: a condition variable releases the lock and sleeps in one step.
    drop(guard);
    fall_asleep(address(changed), left <= HASTY);
    mutex.take()
}

pub(super) struct RwLock<T> {
    lock: std::sync::RwLock<T>,
    n_writers_waiting: AtomicUsize,
}

impl<T> RwLock<T> {
    pub(super) fn new(value: T) -> RwLock<T> {
        RwLock {
            lock: std::sync::RwLock::new(value),
            n_writers_waiting: AtomicUsize::new(0),
        }
    }
}

/// A guard of either kind.
pub(super) struct Guard<'a, T, G> {
    lock: &'a RwLock<T>,
    guard: Option<G>,
}

pub(super) type RwLockReadGuard<'a, T> = Guard<'a, T, std::sync::RwLockReadGuard<'a, T>>;
type RwLockWriteGuard<'a, T> = Guard<'a, T, std::sync::RwLockWriteGuard<'a, T>>;

impl<T, G: Deref<Target = T>> Deref for Guard<'_, T, G> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("held")
    }
}

impl<T, G: DerefMut<Target = T>> DerefMut for Guard<'_, T, G> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("held")
    }
}

impl<T, G> Drop for Guard<'_, T, G> {
    fn drop(&mut self) {
        drop(self.guard.take());
        free(address(self.lock));
    }
}

/// As that of the standard library, it fails where a writer waits.
pub(super) fn try_read<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
    point();
    if lock.n_writers_waiting.load(SeqCst) > 0 {
        return None;
    }
    let guard = Some(lock.lock.try_read().ok()?);
    Some(Guard { lock, guard })
}

pub(super) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    point();
    loop {
        match lock.lock.try_write() {
            Ok(guard) => {
                let guard = Some(guard);
                return Guard { lock, guard };
            }
            // Nobody is scheduled any more when a run has failed.
            Err(_) if std::thread::panicking() => std::process::abort(),
            Err(_) => {
                lock.n_writers_waiting.fetch_add(1, SeqCst);
                block(address(lock));
                lock.n_writers_waiting.fetch_sub(1, SeqCst);
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Expiry {
    after: Duration,
}

impl Expiry {
    pub(super) fn of(timeout: Timeout) -> Expiry {
        Expiry {
            after: timeout.duration(),
        }
    }

    /// A timeout expires in a sleep, at a moment that the scheduler chooses.
    pub(super) fn left(self) -> Option<Duration> {
        let expired = self.after <= HASTY && has_expired();
        (!expired).then_some(self.after)
    }
}
