//! Cost of training by what it was spent on.

use std::sync::atomic::{AtomicU64, Ordering};

use shardgraph_device::Timer;

/// Cost of training by what it was spent on.
///
/// The first two are summed over threads or streams: with two threads they may be twice those on
/// the wall.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WorkTime {
    /// Reading, shuffling and sending edges.
    pub preparation_s: f64,
    /// Updating rows; on a device, from its own events.
    pub update_s: f64,
    /// Passes on the wall, without making tables in memory and gathering the answer.
    pub training_s: f64,
    /// Bytes that went to a device during the passes: edges and tables of negatives; 0 on the host.
    pub to_device_bytes: u64,
    /// Bytes of rows that devices exchanged; 0 with one.
    pub exchanged_bytes: u64,
}

impl WorkTime {
    /// Adds the seconds of another run.
    pub(crate) fn add(&mut self, other: WorkTime) {
        self.preparation_s += other.preparation_s;
        self.update_s += other.update_s;
        self.training_s += other.training_s;
        self.to_device_bytes += other.to_device_bytes;
        self.exchanged_bytes += other.exchanged_bytes;
    }
}

/// Sums behind [`WorkTime`], shared by threads.
#[derive(Debug, Default)]
pub(super) struct Clock {
    preparation_ns: AtomicU64,
    update_ns: AtomicU64,
    training_ns: AtomicU64,
    to_device_bytes: AtomicU64,
    exchanged_bytes: AtomicU64,
}

impl Clock {
    pub(super) fn work_time(&self) -> WorkTime {
        let seconds = |sum: &AtomicU64| sum.load(Ordering::Relaxed) as f64 / 1e9;
        WorkTime {
            preparation_s: seconds(&self.preparation_ns),
            update_s: seconds(&self.update_ns),
            training_s: seconds(&self.training_ns),
            to_device_bytes: self.to_device_bytes.load(Ordering::Relaxed),
            exchanged_bytes: self.exchanged_bytes.load(Ordering::Relaxed),
        }
    }

    /// Counts `work` as preparation.
    pub(super) fn preparing<R>(&self, work: impl FnOnce() -> R) -> R {
        Clock::timed(&self.preparation_ns, work)
    }

    /// Counts `work` as updates of rows.
    pub(super) fn updating<R>(&self, work: impl FnOnce() -> R) -> R {
        Clock::timed(&self.update_ns, work)
    }

    /// Counts `work` as passes on the wall.
    pub(super) fn training<R>(&self, work: impl FnOnce() -> R) -> R {
        Clock::timed(&self.training_ns, work)
    }

    /// Counts bytes that went to a device.
    pub(super) fn add_to_device(&self, bytes: u64) {
        self.to_device_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of rows that came from another device.
    pub(super) fn add_exchanged(&self, bytes: u64) {
        self.exchanged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts milliseconds that a device's events measured.
    pub(super) fn add_update_ms(&self, ms: f64) {
        let ns = (ms * 1e6) as u64;
        self.update_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn timed<R>(sum: &AtomicU64, work: impl FnOnce() -> R) -> R {
        let timer = Timer::wall();
        let result = work();
        sum.fetch_add(timer.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}
