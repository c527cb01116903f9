//! The driver of NVIDIA GPUs: streams, memory and launches through the CUDA driver's C interface, opened at run time.
//!
//! Nothing of CUDA is linked. [`context`] finds the driver in the order in which nothing can panic (library, start,
//! version, count) and loads kernels; [`staging`] copies to and from the host; [`blas`] is cuBLAS where it is installed.

mod blas;
mod context;
mod lookup;
mod staging;
#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use cudarc::driver::result::{event, graph, stream};
use cudarc::driver::{result, sys};

use self::blas::Blas;
use self::context::Context;
use self::staging::Ring;
use super::arg::MAX_ARGS;
use super::driver::{Fill, Take};
use super::kernels::Kernel;
use super::{Driver, Launch};
use crate::{DeviceKind, Error, ErrorKind, MatMul, Timer};

/// Waits shorter than this ask the driver again and again; longer ones sleep in between.
const SPIN: Duration = Duration::from_millis(2);

/// How long a long wait sleeps between two questions.
const NAP: Duration = Duration::from_micros(50);

/// One stream of a GPU.
#[derive(Debug)]
pub(crate) struct Cuda {
    context: Arc<Context>,
    stream: Handle<sys::CUstream_st>,
    /// Where launches are recorded: another thread's work on `stream` must not become part of a graph.
    recording: Handle<sys::CUstream_st>,
    /// The thread whose launches are being recorded.
    recorder: Mutex<Option<ThreadId>>,
    /// Whether there is one: launches ask this first, and lock nothing.
    is_recording: AtomicBool,
    /// Pinned memory that copies to and from the host go through, from the first on.
    ring: Mutex<Option<Ring>>,
    /// Without pools: memory that work in the stream may still use, given back after the next wait for the stream.
    released: Mutex<Vec<u64>>,
    blas: Mutex<Option<Result<Blas, Error>>>,
}

/// A handle of the driver, which its documentation lets any thread use.
#[derive(Debug)]
struct Handle<T>(*mut T);

/// The driver's own types, which any thread may use at any time.
trait AnyThread {}
impl AnyThread for sys::CUstream_st {}
impl AnyThread for sys::CUctx_st {}
impl AnyThread for sys::CUmod_st {}
impl AnyThread for sys::CUfunc_st {}

// SAFETY: the driver's handles are plain names, and its functions may be called with them from any thread.
unsafe impl<T: AnyThread> Send for Handle<T> {}
// SAFETY: as above; the driver locks what they share.
unsafe impl<T: AnyThread> Sync for Handle<T> {}

impl Cuda {
    /// Opens the GPU with the given ordinal.
    pub(crate) fn open(ordinal: u32) -> Result<Self, Error> {
        Self::on(Context::of(ordinal)?)
    }

    fn on(context: Arc<Context>) -> Result<Self, Error> {
        context.enter()?;
        let create = || {
            let stream = stream::create(stream::StreamKind::NonBlocking);
            stream
                .map(Handle)
                .map_err(|e| context.failed("cuStreamCreate", e))
        };
        let stream = create()?;
        let recording = create().inspect_err(|_| destroy_stream(&context, &stream))?;
        Ok(Self {
            context,
            stream,
            recording,
            recorder: Mutex::new(None),
            is_recording: AtomicBool::new(false),
            ring: Mutex::new(None),
            released: Mutex::default(),
            blas: Mutex::new(None),
        })
    }

    fn recorder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the calling thread's launches are being recorded.
    fn is_recorder(&self) -> bool {
        self.is_recording.load(Ordering::Acquire)
            && *self.recorder() == Some(thread::current().id())
    }

    /// Where the calling thread's work goes.
    fn work_stream(&self) -> sys::CUstream {
        match self.is_recorder() {
            true => self.recording.0,
            false => self.stream.0,
        }
    }

    fn released(&self) -> MutexGuard<'_, Vec<u64>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a wait for the stream, then gives back what was released before it.
    fn wait_and_give_back(&self, wait: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let released = std::mem::take(&mut *self.released());
        if let Err(error) = wait() {
            self.released().extend(released);
            return Err(error);
        }
        for address in released {
            // SAFETY: the address is one of `allocate`, released once, and the work that used it is done.
            unsafe { result::free_sync(address) }
                .map_err(|e| self.context.failed("cuMemFree", e))?;
        }
        self.context.take_kept()
    }

    /// Memory of the pool, or of the device where it has none.
    fn try_allocate(&self, bytes: usize) -> Result<u64, result::DriverError> {
        match self.context.has_pools {
            // SAFETY: the stream is this driver's own and alive.
            true => unsafe { result::malloc_async(self.stream.0, bytes) },
            // SAFETY: plain device memory; `free` gives it back.
            false => unsafe { result::malloc_sync(bytes) },
        }
    }

    /// Asks until `done` says that it is, or the deadline passes.
    fn wait_until(
        &self,
        call: &str,
        done: impl Fn() -> Result<(), result::DriverError>,
    ) -> Result<(), Error> {
        let timer = Timer::wall();
        loop {
            match done() {
                Ok(()) => return Ok(()),
                Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_READY => {}
                Err(e) => return Err(self.context.failed(call, e)),
            }
            let waited = timer.elapsed();
            self.context.timeout.check(waited, self.kind())?;
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
}

impl Driver for Cuda {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda(self.context.ordinal)
    }

    fn device_id(&self) -> u64 {
        u64::from(self.context.ordinal)
    }

    fn describe(&self) -> String {
        self.context.describe()
    }

    fn vendor_products(&self) -> Option<&'static str> {
        Blas::is_installed().then_some("cuBLAS")
    }

    fn stream_handle(&self) -> Option<u64> {
        Some(self.stream.0 as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.context.enter()?;
        let address = match self.try_allocate(bytes) {
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                // The pool may keep it in pieces of other sizes: once more, after giving those back.
                self.synchronize()?;
                if self.context.has_pools {
                    self.context.trim_pool()?;
                }
                self.try_allocate(bytes)
            }
            other => other,
        };
        address.map_err(|e| match e.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory {
                device: self.kind().to_string(),
                wanted: bytes as u64,
                free: result::mem_get_info().map_or(0, |(free, _)| free as u64),
            }
            .into(),
            _ => self.context.failed("allocation of device memory", e),
        })
    }

    fn free(&self, address: u64) {
        if !self.context.has_pools {
            self.released().push(address);
            return;
        }
        let freed = self.context.enter().and_then(|()| {
            // SAFETY: the address is one of `allocate` on this stream, given back once (by the drop of its owner).
            unsafe { result::free_async(address, self.stream.0) }
                .map_err(|e| self.context.failed("cuMemFreeAsync", e))
        });
        self.context.keep(freed);
    }

    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        self.synchronize()?;
        if self.context.has_pools {
            self.context.trim_pool()?; // what the pool keeps counts as taken
        }
        let (free, _) =
            result::mem_get_info().map_err(|e| self.context.failed("cuMemGetInfo", e))?;
        Ok(Some(free as u64))
    }

    unsafe fn clear(&self, address: u64, bytes: usize) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the caller's promise; the stream is alive.
        unsafe { result::memset_d8_async(address, 0, bytes, self.work_stream()) }
            .map_err(|e| self.context.failed("cuMemsetD8Async", e))
    }

    unsafe fn upload(&self, target: u64, bytes: usize, fill: Fill<'_>) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the caller's promise.
        unsafe { self.upload_staged(target, bytes, fill) }
    }

    unsafe fn download(&self, source: u64, bytes: usize, take: Take<'_>) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the caller's promise.
        self.wait_and_give_back(|| unsafe { self.download_staged(source, bytes, take) })
    }

    unsafe fn copy(&self, source: u64, target: u64, bytes: usize) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the caller's promise; the stream is alive.
        unsafe { result::memcpy_dtod_async(target, source, bytes, self.work_stream()) }
            .map_err(|e| self.context.failed("cuMemcpyDtoDAsync", e))
    }

    fn context_handle(&self) -> Option<u64> {
        Some(self.context.handle() as u64)
    }

    unsafe fn copy_from_card(
        &self,
        peer: &dyn Driver,
        source: u64,
        target: u64,
        bytes: usize,
    ) -> Result<bool, Error> {
        let Some(of_peer) = peer.context_handle() else {
            return Ok(false);
        };
        peer.synchronize()?;
        self.context.enter()?;
        let own = self.context.handle();
        // SAFETY: the caller's promise; both contexts live as long as their drivers, and so does the stream.
        unsafe {
            let of_peer = of_peer as sys::CUcontext;
            sys::cuMemcpyPeerAsync(target, own, source, of_peer, bytes, self.stream.0).result()
        }
        .map_err(|e| self.context.failed("cuMemcpyPeerAsync", e))?;
        self.synchronize()?;
        Ok(true)
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: Launch,
        values: &mut [u64],
    ) -> Result<(), Error> {
        self.context.enter()?;
        let function = self.context.function(kernel, shape.shared_bytes)?;
        // The driver reads as many bytes of each value as its parameter has, from the low end.
        let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGS];
        for (pointer, value) in pointers.iter_mut().zip(values) {
            *pointer = std::ptr::from_mut(value).cast();
        }
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        // SAFETY: the function is loaded, the pointers lead to live values of its parameters; the rest is the caller's promise.
        unsafe {
            result::launch_kernel(
                function,
                (gx, gy, gz),
                (bx, by, bz),
                shape.shared_bytes,
                self.work_stream(),
                &mut pointers,
            )
        }
        .map_err(|e| {
            let call = format!("launch of `{}`", kernel.name);
            self.context.failed(&call, e)
        })
    }

    fn prepare(&self, kernel: &'static Kernel) -> Result<(), Error> {
        self.context.enter()?;
        self.context.function(kernel, 0).map(drop)
    }

    fn prepare_all(&self) -> Result<(), Error> {
        self.context.enter()?;
        self.context.load_all()
    }

    unsafe fn matmul(&self, shape: MatMul, addresses: [u64; 3]) -> Option<Result<(), Error>> {
        if self.is_recorder() {
            return None; // cuBLAS works on the other stream
        }
        if let Err(e) = self.context.enter() {
            return Some(Err(e));
        }
        let mut blas = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = blas.get_or_insert_with(|| Blas::open(self.stream.0));
        match opened {
            Ok(blas) => {
                // SAFETY: the caller's promise.
                unsafe { blas.matmul(shape, addresses) }
            }
            Err(e) if e.is_missing_device() => None, // no cuBLAS here: the project's own kernel does it
            Err(e) => Some(Err(e.clone())),
        }
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.context.enter()?;
        self.wait_and_give_back(|| {
            self.wait_until("cuStreamQuery", || {
                // SAFETY: the stream is alive.
                unsafe { sys::cuStreamQuery(self.stream.0) }.result()
            })
        })
    }

    fn set_timeout(&self, timeout: Duration) {
        self.context.timeout.set(timeout);
    }

    fn new_stream(&self) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self::on(Arc::clone(&self.context))?))
    }

    fn of_rank(&self, rank: u32) -> Result<Arc<dyn Driver>, Error> {
        let ordinal = self.context.ordinal.saturating_add(rank);
        Ok(Arc::new(Self::open(ordinal)?))
    }

    fn record(&self) -> Result<u64, Error> {
        self.context.enter()?;
        let created = event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|e| self.context.failed("cuEventCreate", e))?;
        // SAFETY: the event was made above, the stream is alive.
        let recorded = unsafe { event::record(created, self.stream.0) };
        if let Err(e) = recorded {
            self.destroy_event(created as u64);
            return Err(self.context.failed("cuEventRecord", e));
        }
        Ok(created as u64)
    }

    fn wait(&self, event: u64) -> Result<(), Error> {
        self.context.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the event is one of `record` and not destroyed; the stream is alive.
        unsafe { stream::wait_event(self.stream.0, event as sys::CUevent, flags) }
            .map_err(|e| self.context.failed("cuStreamWaitEvent", e))
    }

    fn elapsed_ms(&self, first: u64, last: u64) -> Result<f64, Error> {
        self.context.enter()?;
        let events = [first as sys::CUevent, last as sys::CUevent];
        for at in events {
            // SAFETY: both are events of `record`, not destroyed (so below).
            self.wait_until("cuEventQuery", || unsafe { event::query(at) })?;
        }
        // SAFETY: as above, and both have happened.
        let ms = unsafe { self.context.lookup.elapsed_ms(events[0], events[1]) };
        ms.map(f64::from)
            .map_err(|e| self.context.failed("cuEventElapsedTime", e))
    }

    fn has_happened(&self, event: u64) -> Result<bool, Error> {
        self.context.enter()?;
        // SAFETY: the event is one of `record` and not destroyed.
        match unsafe { event::query(event as sys::CUevent) } {
            Ok(()) => Ok(true),
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(e) => Err(self.context.failed("cuEventQuery", e)),
        }
    }

    fn make_current(&self) -> Result<(), Error> {
        self.context.enter()
    }

    fn collective_stream(&self) -> u64 {
        self.stream.0 as u64
    }

    fn destroy_event(&self, event: u64) {
        let destroyed = self.context.enter().and_then(|()| {
            // SAFETY: the event is one of `record`, destroyed once (by the drop of its owner).
            unsafe { event::destroy(event as sys::CUevent) }
                .map_err(|e| self.context.failed("cuEventDestroy", e))
        });
        self.context.keep(destroyed);
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.context.enter()?;
        let mut recorder = self.recorder();
        if recorder.is_some() {
            return Err(Error::driver(
                "capture",
                "this stream is being recorded already",
            ));
        }
        // Memory is taken and given back on another stream meanwhile, which the stricter modes forbid.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive and not the legacy one.
        unsafe { stream::begin_capture(self.recording.0, mode) }
            .map_err(|e| self.context.failed("cuStreamBeginCapture", e))?;
        *recorder = Some(thread::current().id());
        self.is_recording.store(true, Ordering::Release);
        Ok(())
    }

    fn end_capture(&self) -> Result<u64, Error> {
        self.context.enter()?;
        *self.recorder() = None;
        self.is_recording.store(false, Ordering::Release);
        // SAFETY: the stream is alive and in a capture.
        let captured = unsafe { stream::end_capture(self.recording.0) }
            .map_err(|e| self.context.failed("cuStreamEndCapture", e))?;
        if captured.is_null() {
            return Err(Error::driver(
                "cuStreamEndCapture",
                "the capture gave no graph",
            ));
        }
        // SAFETY: the graph was made above; it is not needed once it is instantiated.
        let (made, destroyed) = unsafe {
            let made = graph::instantiate(captured, sys::CUgraphInstantiate_flags(0));
            (made, graph::destroy(captured))
        };
        let made = made.map_err(|e| self.context.failed("cuGraphInstantiate", e))?;
        destroyed.map_err(|e| self.context.failed("cuGraphDestroy", e))?;
        Ok(made as u64)
    }

    unsafe fn launch_graph(&self, graph: u64) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the graph is one of `end_capture`, not destroyed; the memory is the caller's promise.
        unsafe { graph::launch(graph as sys::CUgraphExec, self.stream.0) }
            .map_err(|e| self.context.failed("cuGraphLaunch", e))
    }

    fn destroy_graph(&self, graph: u64) {
        let destroyed = self.context.enter().and_then(|()| {
            // SAFETY: the graph is one of `end_capture`, destroyed once (by the drop of its owner).
            unsafe { graph::exec_destroy(graph as sys::CUgraphExec) }
                .map_err(|e| self.context.failed("cuGraphExecDestroy", e))
        });
        self.context.keep(destroyed);
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        *self.blas.get_mut().unwrap_or_else(PoisonError::into_inner) = None; // before its stream
        let ring = std::mem::take(self.ring.get_mut().unwrap_or_else(PoisonError::into_inner));
        if ring.is_some() || !self.released().is_empty() {
            // Memory that work may still use is not given back: where the wait fails, it stays with the process.
            let waited = self.synchronize();
            match (waited, ring) {
                (Ok(()), Some(ring)) => self.context.keep(ring.destroy(self)),
                (waited, _) => self.context.keep(waited),
            }
        }
        destroy_stream(&self.context, &self.recording);
        destroy_stream(&self.context, &self.stream);
    }
}

fn destroy_stream(context: &Context, stream: &Handle<sys::CUstream_st>) {
    let destroyed = context.enter().and_then(|()| {
        // SAFETY: both callers own the stream and call this once; the driver finishes its work first.
        unsafe { stream::destroy(stream.0) }.map_err(|e| context.failed("cuStreamDestroy", e))
    });
    context.keep(destroyed);
}
