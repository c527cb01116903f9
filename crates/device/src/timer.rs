//! The one clock of the workspace.

use std::time::{Duration, Instant};

use crate::Device;

/// A stop-watch that waits for the device before it reads the clock.
///
/// ```
/// use shardgraph_device::{Device, Timer};
/// let timer = Timer::start(&Device::host());
/// assert!(timer.elapsed_s() >= 0.0);
/// ```
#[derive(Debug, Clone)]
pub struct Timer {
    device: Device,
    started: Instant,
}

impl Timer {
    /// Starts the watch once the device has finished what it was given.
    pub fn start(device: &Device) -> Self {
        device.synchronize();
        Self {
            device: device.clone(),
            started: now(),
        }
    }

    /// The time since the start, in seconds, after the device has finished its work.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// The time since the start, after the device has finished its work.
    pub fn elapsed(&self) -> Duration {
        self.device.synchronize();
        now().duration_since(self.started)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
fn now() -> Instant {
    Instant::now()
}
