//! A driver whose n-th allocation fails once: how tests see what running out of memory does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Driver, Kernel, Launch};
use crate::{DeviceKind, Error, ErrorKind, MatMul};

/// Hands everything over to another driver, except for one allocation.
#[derive(Debug)]
pub(crate) struct FailingAllocation {
    driver: Arc<dyn Driver>,
    n: u64,
    n_allocations: AtomicU64,
}

impl FailingAllocation {
    pub(crate) fn new(driver: Arc<dyn Driver>, n: u64) -> Self {
        let n_allocations = AtomicU64::new(0);
        Self {
            driver,
            n,
            n_allocations,
        }
    }
}

impl Driver for FailingAllocation {
    fn kind(&self) -> DeviceKind {
        self.driver.kind()
    }

    fn device_id(&self) -> u64 {
        self.driver.device_id()
    }

    fn describe(&self) -> String {
        self.driver.describe()
    }

    fn vendor_products(&self) -> Option<&'static str> {
        self.driver.vendor_products()
    }

    fn stream_handle(&self) -> Option<u64> {
        self.driver.stream_handle()
    }

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        if self.n_allocations.fetch_add(1, Ordering::Relaxed) != self.n {
            return self.driver.allocate(bytes);
        }
        Err(ErrorKind::OutOfMemory {
            device: self.kind().to_string(),
            wanted: bytes as u64,
            free: 0,
        }
        .into())
    }

    fn free(&self, address: u64) {
        self.driver.free(address);
    }

    unsafe fn clear(&self, address: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise, handed on (so in every function of this file).
        unsafe { self.driver.clear(address, bytes) }
    }

    unsafe fn upload(&self, source: &[u8], target: u64) -> Result<(), Error> {
        // SAFETY: handed on.
        unsafe { self.driver.upload(source, target) }
    }

    unsafe fn download(&self, source: u64, target: &mut [u8]) -> Result<(), Error> {
        // SAFETY: handed on.
        unsafe { self.driver.download(source, target) }
    }

    unsafe fn copy(&self, source: u64, target: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: handed on.
        unsafe { self.driver.copy(source, target, bytes) }
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: Launch,
        values: &mut [u64],
    ) -> Result<(), Error> {
        // SAFETY: handed on.
        unsafe { self.driver.launch(kernel, shape, values) }
    }

    unsafe fn matmul(&self, shape: MatMul, addresses: [u64; 3]) -> Option<Result<(), Error>> {
        // SAFETY: handed on.
        unsafe { self.driver.matmul(shape, addresses) }
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.driver.synchronize()
    }

    fn new_stream(&self) -> Result<Arc<dyn Driver>, Error> {
        self.driver.new_stream()
    }

    fn of_rank(&self, rank: u32) -> Result<Arc<dyn Driver>, Error> {
        self.driver.of_rank(rank)
    }

    fn record(&self) -> Result<u64, Error> {
        self.driver.record()
    }

    fn wait(&self, event: u64) -> Result<(), Error> {
        self.driver.wait(event)
    }

    fn elapsed_ms(&self, first: u64, last: u64) -> Result<f64, Error> {
        self.driver.elapsed_ms(first, last)
    }

    fn has_happened(&self, event: u64) -> Result<bool, Error> {
        self.driver.has_happened(event)
    }

    fn make_current(&self) -> Result<(), Error> {
        self.driver.make_current()
    }

    fn collective_stream(&self) -> u64 {
        self.driver.collective_stream()
    }

    fn destroy_event(&self, event: u64) {
        self.driver.destroy_event(event);
    }

    fn prepare(&self, kernel: &'static Kernel) -> Result<(), Error> {
        self.driver.prepare(kernel)
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.driver.begin_capture()
    }

    fn end_capture(&self) -> Result<u64, Error> {
        self.driver.end_capture()
    }

    unsafe fn launch_graph(&self, graph: u64) -> Result<(), Error> {
        // SAFETY: handed on.
        unsafe { self.driver.launch_graph(graph) }
    }

    fn destroy_graph(&self, graph: u64) {
        self.driver.destroy_graph(graph);
    }
}
