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
    /// What to wait for; nothing for a plain clock.
    device: Option<Device>,
    started: Instant,
}

impl Timer {
    /// Starts the watch once the device has finished what it was given.
    pub fn start(device: &Device) -> Self {
        let mut timer = Self {
            device: Some(device.clone()),
            started: now(),
        };
        timer.wait();
        timer.started = now();
        timer
    }

    /// Starts a watch that waits for no device.
    pub fn wall() -> Self {
        Self {
            device: None,
            started: now(),
        }
    }

    /// The time since the start, in seconds, after the device has finished its work.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// The time since the start, after the device has finished its work.
    pub fn elapsed(&self) -> Duration {
        self.wait();
        now().duration_since(self.started)
    }

    /// A device that has failed is not waited for: every later operation on it returns its error.
    fn wait(&self) {
        if let Some(device) = &self.device {
            let _ = device.synchronize();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
fn now() -> Instant {
    Instant::now()
}
