//! The driver of dry runs: it hands out addresses without memory behind them, and does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::driver::{Fill, Take};
use super::kernels::Kernel;
use super::{Driver, Launch};
use crate::buffer::bytes_of;
use crate::{DeviceKind, Error};

/// One stream of a device that nothing runs on.
#[derive(Debug)]
pub(crate) struct DryRun {
    kind: DeviceKind,
    /// The next address; the first is not 0. Streams of one device share it.
    next: Arc<AtomicU64>,
}

impl DryRun {
    /// Like a device of this kind.
    pub(super) fn new(kind: DeviceKind) -> Self {
        let next = Arc::new(AtomicU64::new(1 << 8));
        Self { kind, next }
    }

    fn unsupported(&self, op: &str) -> Error {
        Error::unsupported(&format!("{op} in a dry run"), self.kind)
    }
}

impl Driver for DryRun {
    fn kind(&self) -> DeviceKind {
        self.kind
    }

    fn device_id(&self) -> u64 {
        Arc::as_ptr(&self.next) as u64
    }

    fn describe(&self) -> String {
        format!("dry run of {}", self.kind)
    }

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let bytes = (bytes as u64).next_multiple_of(256);
        Ok(self.next.fetch_add(bytes, Ordering::Relaxed))
    }

    fn free(&self, _address: u64) {}

    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    unsafe fn clear(&self, _address: u64, _bytes: usize) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn upload(&self, _target: u64, _bytes: usize, _fill: Fill<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Gives zeros.
    unsafe fn download(&self, _source: u64, bytes: usize, take: Take<'_>) -> Result<(), Error> {
        take(&bytes_of(&vec![0u64; bytes.div_ceil(8)])[..bytes]);
        Ok(())
    }

    unsafe fn copy(&self, _source: u64, _target: u64, _bytes: usize) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _kernel: &'static Kernel,
        _shape: Launch,
        _values: &mut [u64],
    ) -> Result<(), Error> {
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }

    fn set_timeout(&self, _timeout: Duration) {}

    fn new_stream(&self) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self {
            kind: self.kind,
            next: Arc::clone(&self.next),
        }))
    }

    fn of_rank(&self, _rank: u32) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self::new(self.kind)))
    }

    fn record(&self) -> Result<u64, Error> {
        Ok(0)
    }

    fn wait(&self, _event: u64) -> Result<(), Error> {
        Ok(())
    }

    fn elapsed_ms(&self, _first: u64, _last: u64) -> Result<f64, Error> {
        Ok(0.0)
    }

    fn has_happened(&self, _event: u64) -> Result<bool, Error> {
        Ok(true)
    }

    fn destroy_event(&self, _event: u64) {}

    fn collective_stream(&self) -> u64 {
        0
    }

    fn begin_capture(&self) -> Result<(), Error> {
        Err(self.unsupported("capture of launches"))
    }

    fn end_capture(&self) -> Result<u64, Error> {
        Err(self.unsupported("capture of launches"))
    }

    unsafe fn launch_graph(&self, _graph: u64) -> Result<(), Error> {
        Err(self.unsupported("launch of a graph"))
    }

    fn destroy_graph(&self, _graph: u64) {}
}
