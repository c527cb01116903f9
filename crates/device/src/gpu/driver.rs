//! What the emulator and a GPU have in common: one stream of one device.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::kernels::Kernel;
use super::launch::Launch;
use crate::{DeviceKind, Error, ErrorKind, MatMul};

/// Writes a piece of what goes to a device: a multiple of 4096 bytes long, but for the last, and aligned to 8.
pub(crate) type Fill<'f> = &'f mut dyn FnMut(&mut [u8]) -> bool;

/// Takes a piece of what comes from a device, of the same kind.
pub(crate) type Take<'t> = &'t mut dyn FnMut(&[u8]) -> bool;

/// Memory, order and launches of one stream of one device.
///
/// Addresses are the device's own. Calls are asynchronous and take effect in the order in which they are made.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    fn kind(&self) -> DeviceKind;

    /// The same for all streams of one device of this process, and for no other.
    fn device_id(&self) -> u64;

    /// The name of the device and of what drives it, for records.
    fn describe(&self) -> String;

    /// What `matmul` goes through, where it goes through something.
    fn vendor_products(&self) -> Option<&'static str> {
        None
    }

    /// The driver's own handle of the stream, where it has one.
    fn stream_handle(&self) -> Option<u64> {
        None
    }

    /// Takes `bytes > 0` of memory with unspecified contents.
    fn allocate(&self, bytes: usize) -> Result<u64, Error>;

    /// Gives memory of `allocate` back, once the work given so far is done with it.
    fn free(&self, address: u64);

    /// Bytes that [`Driver::allocate`] could still take; nothing where nobody says.
    fn free_bytes(&self) -> Result<Option<u64>, Error>;

    /// # Safety
    /// `bytes` bytes from `address` on are memory of `allocate`.
    unsafe fn clear(&self, address: u64, bytes: usize) -> Result<(), Error>;

    /// Copies `bytes` bytes from the host, piece by piece as `fill` writes them into memory that the device copies from. Ends early
    /// where it answers false.
    ///
    /// # Safety
    /// `bytes` bytes from the target on are memory of `allocate`.
    unsafe fn upload(&self, target: u64, bytes: usize, fill: Fill<'_>) -> Result<(), Error>;

    /// Copies `bytes` bytes to the host, and gives them to `take` piece by piece as they come. Ends early where it answers false.
    ///
    /// # Safety
    /// `bytes` bytes from the source on are memory of `allocate`.
    unsafe fn download(&self, source: u64, bytes: usize, take: Take<'_>) -> Result<(), Error>;

    /// # Safety
    /// Both runs of `bytes` are memory of `allocate` and do not overlap.
    unsafe fn copy(&self, source: u64, target: u64, bytes: usize) -> Result<(), Error>;

    /// The context that copies from other cards name this one by, where they can.
    fn context_handle(&self) -> Option<u64> {
        None
    }

    /// Copies from memory of another card's driver, complete when the call returns; false where these two cannot.
    ///
    /// # Safety
    /// Both runs of `bytes` are memory of `allocate`, the source of `peer`.
    unsafe fn copy_from_card(
        &self,
        _peer: &dyn Driver,
        _source: u64,
        _target: u64,
        _bytes: usize,
    ) -> Result<bool, Error> {
        Ok(false)
    }

    /// Launches a kernel; the values are the arguments' bits, one for each parameter.
    ///
    /// # Safety
    /// The values fit the kernel's signature, and the kernel stays within the memory that they point to.
    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: Launch,
        values: &mut [u64],
    ) -> Result<(), Error>;

    /// A dense product by the vendor's library, where there is one.
    ///
    /// # Safety
    /// The addresses hold matrices of the given shape.
    unsafe fn matmul(&self, _shape: MatMul, _addresses: [u64; 3]) -> Option<Result<(), Error>> {
        None
    }

    /// Waits until all work given so far is done.
    fn synchronize(&self) -> Result<(), Error>;

    /// From now on a wait that takes longer is an error, on all streams of the device.
    fn set_timeout(&self, timeout: Duration);

    /// The same device with a stream of its own.
    fn new_stream(&self) -> Result<Arc<dyn Driver>, Error>;

    /// A device of its own for a rank of this process.
    fn of_rank(&self, rank: u32) -> Result<Arc<dyn Driver>, Error>;

    /// Marks this point of the stream.
    fn record(&self) -> Result<u64, Error>;

    /// Lets the work that follows start after the event, also one of another stream.
    fn wait(&self, event: u64) -> Result<(), Error>;

    /// Waits for both events and gives the time between them.
    fn elapsed_ms(&self, first: u64, last: u64) -> Result<f64, Error>;

    /// Whether the event has happened, without waiting for it.
    fn has_happened(&self, event: u64) -> Result<bool, Error>;

    fn destroy_event(&self, event: u64);

    /// Makes the device the one that other libraries find current on the calling thread.
    fn make_current(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The stream as a library of collectives for this kind of device takes it.
    fn collective_stream(&self) -> u64;

    /// Makes a kernel ready to be launched, so that nothing is loaded while launches are recorded.
    fn prepare(&self, _kernel: &'static Kernel) -> Result<(), Error> {
        Ok(())
    }

    /// Makes all kernels ready. Loading may wait for what runs on the device, be it a rank that waits for this one, so ranks
    /// do it before they meet.
    fn prepare_all(&self) -> Result<(), Error> {
        Ok(())
    }

    /// From now on the calling thread's launches, clears and copies on the device are recorded, not run.
    fn begin_capture(&self) -> Result<(), Error>;

    /// Ends a capture; the graph launches what was recorded.
    fn end_capture(&self) -> Result<u64, Error>;

    /// # Safety
    /// The memory that the recorded launches point to is still allocated.
    unsafe fn launch_graph(&self, graph: u64) -> Result<(), Error>;

    fn destroy_graph(&self, graph: u64);
}

/// How long a wait for a device may take before it is an error.
#[derive(Debug)]
pub(crate) struct Timeout(AtomicU64);

impl Default for Timeout {
    fn default() -> Self {
        Self(AtomicU64::new(600_000))
    }
}

impl Timeout {
    pub(crate) fn set(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn check(&self, waited: Duration, device: DeviceKind) -> Result<(), Error> {
        let timeout = Duration::from_millis(self.0.load(Ordering::Relaxed));
        match waited < timeout {
            true => Ok(()),
            false => Err(ErrorKind::Timeout {
                device: device.to_string(),
                seconds: timeout.as_secs(),
            }
            .into()),
        }
    }
}
