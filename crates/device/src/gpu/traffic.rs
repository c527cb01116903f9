//! What a stream was given: bytes that copies move over the bus between host and device, launches, memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Copies between host memory and a device's, since its stream was opened; see [`crate::Device::traffic`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes copied to the device.
    pub to_device_bytes: u64,
    /// Copies to the device.
    pub to_device_copies: u64,
    /// Bytes copied to the host.
    pub to_host_bytes: u64,
    /// Copies to the host; each waits for the stream.
    pub to_host_copies: u64,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    bytes: AtomicU64,
    copies: AtomicU64,
}

impl Direction {
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.copies.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct TrafficCounter {
    pub(super) to_device: Direction,
    pub(super) to_host: Direction,
    launches: AtomicU64,
}

/// Bytes of the allocations of a stream, and of the stream for its copies.
#[derive(Debug, Default)]
pub(super) struct MemoryCounter {
    held: AtomicU64,
    peak: AtomicU64,
    /// The peak of the work in [`MemoryCounter::keep_peak`].
    work_peak: AtomicU64,
}

/// Bytes that stay counted until this is dropped; see [`crate::Device::keep_peak`].
#[derive(Debug, Default)]
pub struct KeptBytes {
    counter: Option<Arc<MemoryCounter>>,
    n_bytes: u64,
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.held.fetch_sub(self.n_bytes, Ordering::Relaxed);
        }
    }
}

impl MemoryCounter {
    pub(super) fn add(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.peak.fetch_max(held, Ordering::Relaxed);
        self.work_peak.fetch_max(held, Ordering::Relaxed);
    }

    /// Counts the most bytes that `work` held for as long as the result lives.
    pub(super) fn keep_peak<R>(self: &Arc<Self>, work: impl FnOnce() -> R) -> (R, KeptBytes) {
        self.work_peak.store(self.held(), Ordering::Relaxed);
        let result = work();
        let peak = self.work_peak.load(Ordering::Relaxed);
        let n_bytes = peak.saturating_sub(self.held());
        self.held.fetch_add(n_bytes, Ordering::Relaxed);
        let counter = Some(Arc::clone(self));
        (result, KeptBytes { counter, n_bytes })
    }

    pub(super) fn sub(&self, bytes: usize) {
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The most bytes that were held since the last call, the first since the stream was opened.
    pub(super) fn take_peak(&self) -> u64 {
        self.peak.swap(self.held(), Ordering::Relaxed)
    }
}

impl TrafficCounter {
    pub(super) fn count_launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// Launches so far; a graph's is one.
    pub(super) fn n_launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    pub(super) fn read(&self) -> Traffic {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            to_device_bytes: read(&self.to_device.bytes),
            to_device_copies: read(&self.to_device.copies),
            to_host_bytes: read(&self.to_host.bytes),
            to_host_copies: read(&self.to_host.copies),
        }
    }
}
