//! The back end that launches the kernels of `cuda/` by name: emulated on the processor, or on an NVIDIA GPU.
//!
//! What an operation does (which kernel, which grid, which arguments) is written once, by its owner, on top of
//! [`crate::Device::launch`]. What differs between the emulator and a GPU is behind [`Driver`].

mod arg;
mod capture;
#[cfg(feature = "cuda")]
mod cuda;
mod driver;
mod dry_run;
mod emulated;
mod kernels;
mod launch;
pub(crate) mod memory;
pub mod nccl;
mod traffic;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::buffer::{Store, values_of, values_of_mut};
use crate::{Buffer, DeviceKind, Error, ErrorKind, MatMul, Scalar};

pub use arg::Arg;
pub use capture::Graph;
use capture::OpenCapture;
pub(crate) use driver::{Driver, Timeout};
pub use launch::Launch;
pub(crate) use memory::{Mark, Memory};
pub use traffic::{KeptBytes, Traffic};
use traffic::{MemoryCounter, TrafficCounter};

/// A device behind its driver. Clones share one stream, and one rank of a group if it has joined one.
#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    driver: Arc<dyn Driver>,
    /// What ranks of this device's job exchange through, if they do.
    nccl: Option<nccl::Library>,
    group: Option<Arc<nccl::Group>>,
    /// What this stream's copies have moved over the bus.
    traffic: Arc<TrafficCounter>,
    /// Bytes that this stream's allocations hold.
    held: Arc<MemoryCounter>,
    /// The capture that is open on this stream, if one is.
    capture: Arc<OpenCapture>,
    /// Allocations before the one that fails: how tests see what running out of memory does.
    failing: Option<Arc<AtomicU64>>,
}

impl Gpu {
    /// The emulator in the given library.
    pub(crate) fn emulated(library: &Path) -> Result<Self, Error> {
        Ok(Self::alone(Arc::new(emulated::Emulated::load(library)?)))
    }

    fn alone(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            nccl: None,
            group: None,
            traffic: Arc::default(),
            held: Arc::default(),
            capture: Arc::default(),
            failing: None,
        }
    }

    /// Another stream or device of the same job.
    fn beside(&self, driver: Arc<dyn Driver>) -> Self {
        Self {
            nccl: self.nccl.clone(),
            ..Self::alone(driver)
        }
    }

    /// The NVIDIA GPU with the given ordinal.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(ordinal: u32) -> Result<Self, Error> {
        Ok(Self::alone(Arc::new(cuda::Cuda::open(ordinal)?)))
    }

    #[cfg(not(feature = "cuda"))]
    pub(crate) fn cuda(ordinal: u32) -> Result<Self, Error> {
        let why = "this program was built without the feature `cuda` of shardgraph-device";
        Err(Error::unavailable(DeviceKind::Cuda(ordinal), why))
    }

    pub(crate) fn kind(&self) -> DeviceKind {
        self.driver.kind()
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.capture.refuse("synchronize")?;
        self.finish_group()?;
        self.driver.synchronize()
    }

    /// The same stream as a rank of a group.
    pub(crate) fn join(
        &self,
        library: &nccl::Library,
        id: nccl::UniqueId,
        member: nccl::Member,
        deadline: Duration,
        probe: nccl::Probe,
    ) -> Result<Self, Error> {
        let alone = Self::alone(Arc::clone(&self.driver));
        let group = nccl::Group::join(library, &alone, id, member, deadline, probe)?;
        Ok(Self {
            group: Some(Arc::new(group)),
            traffic: Arc::clone(&self.traffic),
            held: Arc::clone(&self.held),
            capture: Arc::clone(&self.capture),
            ..self.beside(alone.driver)
        })
    }

    pub(crate) fn using_nccl(&self, library: &nccl::Library) -> Self {
        Self {
            nccl: Some(library.clone()),
            ..self.clone()
        }
    }

    pub(crate) fn nccl(&self) -> Option<&nccl::Library> {
        self.nccl.as_ref()
    }

    pub(crate) fn of_rank(&self, rank: u32) -> Result<Self, Error> {
        Ok(self.beside(self.driver.of_rank(rank)?))
    }

    pub(crate) fn group(&self) -> Option<&nccl::Group> {
        self.group.as_deref()
    }

    /// Waits for the group's operations on this stream: they have deadlines and errors of their own.
    fn finish_group(&self) -> Result<(), Error> {
        self.group().map_or(Ok(()), nccl::Group::finish)
    }

    pub(crate) fn new_stream(&self) -> Result<Self, Error> {
        Ok(self.beside(self.driver.new_stream()?))
    }

    /// Another stream, whose copies and memory count with this one's.
    pub(crate) fn copy_stream(&self) -> Result<Self, Error> {
        Ok(Self {
            traffic: Arc::clone(&self.traffic),
            held: Arc::clone(&self.held),
            failing: self.failing.clone(),
            ..self.new_stream()?
        })
    }

    pub(crate) fn keep_peak<R>(&self, work: impl FnOnce() -> R) -> (R, KeptBytes) {
        self.held.keep_peak(work)
    }

    /// A device of a kind whose driver does nothing.
    pub(crate) fn dry_run(kind: DeviceKind) -> Self {
        Self::alone(Arc::new(dry_run::DryRun::new(kind)))
    }

    /// The same stream, whose `n`-th allocation from now on fails once (counted from 0).
    pub(crate) fn failing_at(&self, n: u64) -> Self {
        Self {
            failing: Some(Arc::new(AtomicU64::new(n))),
            traffic: Arc::clone(&self.traffic),
            held: Arc::clone(&self.held),
            capture: Arc::clone(&self.capture),
            ..self.beside(Arc::clone(&self.driver))
        }
    }

    /// Memory of the driver, or the planted failure.
    fn take_memory(&self, bytes: usize) -> Result<u64, Error> {
        // The counter wraps behind the failure, and does not come to 0 again.
        let is_planted = |left: &Arc<AtomicU64>| left.fetch_sub(1, Ordering::Relaxed) == 0;
        if self.failing.as_ref().is_some_and(is_planted) {
            return Err(self.out_of_memory(bytes as u64));
        }
        self.driver.allocate(bytes)
    }

    fn out_of_memory(&self, wanted: u64) -> Error {
        let device = self.kind().to_string();
        let free = 0;
        Error::from(ErrorKind::OutOfMemory {
            device,
            wanted,
            free,
        })
    }

    pub(crate) fn record(&self) -> Result<Mark, Error> {
        self.capture.refuse("record")?;
        let event = self.driver.record()?;
        let driver = Arc::clone(&self.driver);
        Ok(Mark { driver, event })
    }

    pub(crate) fn wait(&self, mark: &Mark) -> Result<(), Error> {
        // An event is the driver's own kind of number: another back end's would be taken for something else.
        self.capture.refuse("wait")?;
        match self.driver.device_id() == mark.driver.device_id() {
            true => self.driver.wait(mark.event),
            false => Err(self.other_device("wait")),
        }
    }

    /// Memory for `len` elements with unspecified contents.
    pub(crate) fn allocate<T: Scalar>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let bytes = self.checked_bytes::<T>(len)?;
        let address = match bytes {
            0 => 0,
            bytes => self.take_memory(bytes)?,
        };
        let memory = Memory::new(&self.driver, address, bytes, &self.held);
        Ok(Buffer {
            store: Store::Gpu(memory),
        })
    }

    fn checked_bytes<T>(&self, len: usize) -> Result<usize, Error> {
        len.checked_mul(size_of::<T>())
            .ok_or_else(|| self.out_of_memory(u64::MAX))
    }

    pub(crate) fn zeros<T: Scalar>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let buffer = self.allocate(len)?;
        self.clear_memory(self.memory("zeros", &buffer)?)?;
        Ok(buffer)
    }

    pub(crate) fn upload<T: Scalar>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.allocate(values.len())?;
        self.write(values, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies into a buffer of the same length.
    pub(crate) fn write<T: Scalar>(
        &self,
        values: &[T],
        buffer: &mut Buffer<T>,
    ) -> Result<(), Error> {
        assert_eq!(buffer.len(), values.len(), "the caller checks");
        let mut rest = values;
        self.fill(buffer, |piece| {
            let (next, behind) = rest.split_at(piece.len());
            piece.copy_from_slice(next);
            rest = behind;
            Ok(())
        })
    }

    /// Fills a buffer piece by piece, in memory that the device copies from.
    pub(crate) fn fill<T: Scalar, E: From<Error>>(
        &self,
        buffer: &mut Buffer<T>,
        mut fill: impl FnMut(&mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.capture.refuse("copy from the host")?;
        let memory = self.memory_to_write("write", buffer)?;
        if memory.bytes == 0 {
            return Ok(());
        }
        let mut filled = Ok(());
        let mut piece = |bytes: &mut [u8]| {
            filled = fill(values_of_mut(bytes));
            filled.is_ok()
        };
        // SAFETY: the memory is this driver's and has this size.
        unsafe { (self.driver).upload(memory.address, memory.bytes, &mut piece)? };
        self.traffic.to_device.add(memory.bytes);
        filled
    }

    pub(crate) fn download<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, Error> {
        let mut values = Vec::with_capacity(buffer.len());
        self.take_all(buffer, |piece| {
            values.extend_from_slice(piece);
            Ok::<(), Error>(())
        })?;
        Ok(values)
    }

    /// Gives a buffer's values away piece by piece, from memory that the device copies to.
    pub(crate) fn take_all<T: Scalar, E: From<Error>>(
        &self,
        buffer: &Buffer<T>,
        mut take: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.capture.refuse("copy to the host")?;
        let memory = self.memory("download", buffer)?;
        self.finish_group()?;
        if memory.bytes == 0 {
            return Ok(());
        }
        let mut taken = Ok(());
        let mut piece = |bytes: &[u8]| {
            taken = take(values_of(bytes));
            taken.is_ok()
        };
        // SAFETY: the memory is this driver's and has this size.
        unsafe { (self.driver).download(memory.address, memory.bytes, &mut piece)? };
        self.traffic.to_host.add(memory.bytes);
        taken
    }

    /// Copies `source` over `target`, which has the same length.
    pub(crate) fn copy<T: Scalar>(
        &self,
        source: &Buffer<T>,
        target: &mut Buffer<T>,
    ) -> Result<(), Error> {
        let source = self.memory("copy", source)?;
        let target = self.memory_to_write("copy", target)?;
        assert_eq!(source.bytes, target.bytes, "the caller checks");
        if source.bytes > 0 {
            self.capture.hold(Some(source), target);
            // SAFETY: both are whole allocations of this driver, of one size, and distinct since one is borrowed mutably.
            unsafe {
                self.driver
                    .copy(source.address, target.address, source.bytes)?;
            }
        }
        Ok(())
    }

    /// Makes another stream's memory this stream's, behind that stream's work so far.
    pub(crate) fn adopt(&self, memory: &mut Memory) -> Result<(), Error> {
        if Arc::ptr_eq(&memory.driver, &self.driver) {
            return Ok(());
        }
        if memory.lease.is_some() || !self.shares_device(memory) {
            return Err(self.other_device("adopt"));
        }
        let Some(memory) = memory.alone() else {
            let why = "a captured graph has launches on this memory".to_string();
            return Err(Error::invalid("adopt", why));
        };
        let event = memory.driver.record()?;
        let driver = Arc::clone(&memory.driver);
        self.wait(&Mark { driver, event })?;
        memory.driver = Arc::clone(&self.driver);
        Ok(())
    }

    /// Whether both are streams of one device.
    pub(crate) fn is_beside(&self, other: &Gpu) -> bool {
        self.driver.device_id() == other.driver.device_id()
    }

    /// A copy of a buffer of another card; nothing where the drivers cannot copy from card to card.
    pub(crate) fn copy_from_card<T: Scalar>(
        &self,
        peer: &Gpu,
        buffer: &Buffer<T>,
    ) -> Result<Option<Buffer<T>>, Error> {
        let source = peer.memory("copy_from", buffer)?;
        if self.is_beside(peer) || peer.driver.context_handle().is_none() {
            return Ok(None);
        }
        let copied = self.allocate(buffer.len())?;
        let target = self.memory_to_write("copy_from", &copied)?;
        if source.bytes == 0 {
            return Ok(Some(copied));
        }
        // SAFETY: both are whole allocations of their drivers, of one size.
        let is_copied = unsafe {
            let (from, to) = (source.address, target.address);
            self.driver
                .copy_from_card(&*peer.driver, from, to, source.bytes)?
        };
        Ok(is_copied.then_some(copied))
    }

    /// Whether the memory is of this device, be it of another stream.
    pub(crate) fn shares_device(&self, memory: &Memory) -> bool {
        memory.driver.device_id() == self.driver.device_id()
    }

    /// Copies a peer's whole memory into the buffer, from byte `first` on.
    pub(crate) fn copy_from_peer(
        &self,
        source: &Memory,
        target: &mut Buffer,
        first: usize,
    ) -> Result<(), Error> {
        let target = self.memory_to_write("copy", target)?;
        let fits = first <= target.bytes && source.bytes <= target.bytes - first;
        assert!(fits && self.shares_device(source), "the caller checks");
        if source.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the source is a whole allocation of this device, the target holds it (checked above), and they are
        // distinct since the target is borrowed mutably.
        unsafe {
            self.driver
                .copy(source.address, target.address + first as u64, source.bytes)
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic.read()
    }

    pub(crate) fn free_bytes(&self) -> Result<Option<u64>, Error> {
        self.capture.refuse("free_bytes")?;
        self.driver.free_bytes()
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.held()
    }

    pub(crate) fn take_peak_bytes(&self) -> u64 {
        self.held.take_peak()
    }

    pub(crate) fn n_launches(&self) -> u64 {
        self.traffic.n_launches()
    }

    /// Whether the memory is this stream's.
    pub(crate) fn owns(&self, memory: &Memory) -> bool {
        Arc::ptr_eq(&memory.driver, &self.driver)
    }

    /// Overwrites the buffer with zeros.
    pub(crate) fn clear<T: Scalar>(&self, buffer: &mut Buffer<T>) -> Result<(), Error> {
        self.clear_memory(self.memory_to_write("clear", buffer)?)
    }

    fn clear_memory(&self, memory: &Memory) -> Result<(), Error> {
        if memory.bytes > 0 {
            self.capture.hold(None, memory);
            // SAFETY: the memory is this driver's and has this size.
            unsafe { self.driver.clear(memory.address, memory.bytes)? };
        }
        Ok(())
    }

    /// The buffer's memory, if this stream's allocations may be used by this driver.
    fn memory<'b, T: Scalar>(&self, op: &str, buffer: &'b Buffer<T>) -> Result<&'b Memory, Error> {
        match &buffer.store {
            Store::Gpu(memory) if Arc::ptr_eq(&memory.driver, &self.driver) => Ok(memory),
            _ => Err(self.other_device(op)),
        }
    }

    /// The same for a buffer that is about to change.
    fn memory_to_write<'b, T: Scalar>(
        &self,
        op: &str,
        buffer: &'b Buffer<T>,
    ) -> Result<&'b Memory, Error> {
        let memory = self.memory(op, buffer)?;
        memory.wait_for_readers()?;
        Ok(memory)
    }

    fn other_device(&self, op: &str) -> Error {
        Error::other_device(op, self.kind())
    }

    /// Launches the kernel of this name.
    ///
    /// Name, argument list and the device of every buffer are checked. Nothing is launched for an empty grid.
    ///
    /// # Safety
    /// With these arguments the kernel reads and writes only inside the buffers that it is given.
    pub(crate) unsafe fn launch(
        &self,
        kernel: &str,
        shape: Launch,
        args: &[Arg<'_>],
    ) -> Result<(), Error> {
        let kernel = kernels::find(kernel)?;
        let mut values = arg::Values::of(kernel, args)?;
        for (memory, is_written) in args.iter().filter_map(Arg::memory) {
            match memory {
                Some(memory) if Arc::ptr_eq(&memory.driver, &self.driver) => {
                    if is_written {
                        memory.wait_for_readers()?;
                    }
                }
                _ => return Err(self.other_device(kernel.name)),
            }
        }
        if shape.is_empty() {
            return Ok(());
        }
        match self.capture.is_recorder() {
            true => self.capture.hold_node(args.iter().filter_map(Arg::memory)),
            false => self.traffic.count_launch(),
        }
        // SAFETY: the values fit the signature (checked above); the rest is the caller's promise.
        unsafe { self.driver.launch(kernel, shape, values.as_mut_slice()) }
    }

    /// The vendor's dense product, where this device has one.
    pub(crate) fn vendor_matmul(
        &self,
        shape: MatMul,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Option<Result<(), Error>> {
        let memories = [a, b, out].map(|buffer| self.memory("matmul", buffer));
        let [Ok(a), Ok(b), Ok(out)] = memories else {
            return Some(Err(self.other_device("matmul")));
        };
        // SAFETY: the memories are this driver's, and their sizes are those of the shape (checked by `Device`).
        unsafe {
            self.driver
                .matmul(shape, [a.address, b.address, out.address])
        }
    }
}
