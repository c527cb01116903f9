//! Bytes that a stream's copies move over the bus between host and device.

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
}

impl TrafficCounter {
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
