//! The one clock of the workspace.

use std::time::{Duration, Instant};

use crate::{Device, Error};

/// A stop-watch that can wait for a device before it reads the clock.
///
/// ```
/// use shardgraph_device::{Device, Timer};
/// let timer = Timer::start(&Device::host());
/// assert!(timer.finish_s()? >= 0.0);
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Timer {
    /// What to wait for; nothing for a plain clock.
    device: Option<Device>,
    started: Instant,
}

impl Timer {
    /// Starts the watch once the device has finished what it was given. A device that has failed says
    /// so in [`Timer::finish_s`], as in every later operation on it.
    pub fn start(device: &Device) -> Self {
        let timer = Self {
            device: Some(device.clone()),
            started: now(),
        };
        let _later = timer.wait();
        Self {
            started: now(),
            ..timer
        }
    }

    /// Starts a watch that waits for no device.
    pub fn wall() -> Self {
        Self {
            device: None,
            started: now(),
        }
    }

    /// The time since the start, in seconds, once the device has finished its work.
    ///
    /// # Errors
    /// Those of [`Device::synchronize`]: a time of work that failed is no measurement.
    pub fn finish_s(&self) -> Result<f64, Error> {
        self.wait()?;
        Ok(self.elapsed_s())
    }

    /// The time since the start, in seconds, by the clock alone.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// The time since the start, by the clock alone.
    pub fn elapsed(&self) -> Duration {
        now().duration_since(self.started)
    }

    fn wait(&self) -> Result<(), Error> {
        self.device.as_ref().map_or(Ok(()), Device::synchronize)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
fn now() -> Instant {
    Instant::now()
}
