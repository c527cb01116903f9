//! Memory, order and launches of a [`Device`].

#[cfg(doc)]
use crate::ErrorKind;
use std::time::Duration;

use crate::buffer::Store;
use crate::device::BackEnd;
use crate::gpu::{Gpu, Mark};
use crate::{
    Arg, Buffer, Device, DeviceKind, Error, Graph, KeptBytes, Launch, Scalar, Timer, Traffic,
    checks, free_host_bytes,
};

/// A point in a device's stream; see [`Device::record`].
#[derive(Debug)]
pub struct Event {
    point: Point,
}

#[derive(Debug)]
enum Point {
    /// Host work is done when its call returns, so a clock marks it.
    Host(Timer),
    Gpu(Mark),
}

impl Event {
    /// Milliseconds between two events of one device; waits for both.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDevice`] for events of a host and a GPU; the driver's error.
    pub fn elapsed_ms(&self, since: &Event) -> Result<f64, Error> {
        match (&self.point, &since.point) {
            (Point::Host(at), Point::Host(since)) => {
                Ok((since.elapsed().as_secs_f64() - at.elapsed().as_secs_f64()) * 1e3)
            }
            (Point::Gpu(at), Point::Gpu(since)) => at.elapsed_ms(since),
            _ => Err(Error::other_device("elapsed_ms", DeviceKind::Host)),
        }
    }
}

impl Device {
    /// A buffer of `len` zeros.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] (the host aborts instead, as Rust does).
    pub fn zeros<T: Scalar>(&self, len: usize) -> Result<Buffer<T>, Error> {
        match &self.back_end {
            BackEnd::Host => Ok(vec![T::default(); len].into()),
            BackEnd::Gpu(gpu) => gpu.zeros(len),
        }
    }

    /// A buffer of `len` elements, for results that are written whole; on a GPU its contents are unspecified.
    ///
    /// # Errors
    /// As [`Device::zeros`].
    pub fn allocate<T: Scalar>(&self, len: usize) -> Result<Buffer<T>, Error> {
        match &self.back_end {
            BackEnd::Host => Ok(vec![T::default(); len].into()),
            BackEnd::Gpu(gpu) => gpu.allocate(len),
        }
    }

    /// A buffer with the given values.
    ///
    /// # Errors
    /// As [`Device::zeros`].
    pub fn upload<T: Scalar>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        match &self.back_end {
            BackEnd::Host => Ok(values.to_vec().into()),
            BackEnd::Gpu(gpu) => gpu.upload(values),
        }
    }

    /// A buffer whose values `fill` writes, piece by piece from its start: from a file straight into the memory that a GPU copies from,
    /// which copies one piece while the next is read.
    ///
    /// # Shapes
    /// A piece is a multiple of 4096 bytes long, but for the last.
    ///
    /// ```
    /// use shardgraph_device::{Device, Error};
    /// let mut next = 0;
    /// let device = Device::host();
    /// let buffer = device.upload_from::<u32, Error>(5, |piece| {
    ///     piece.iter_mut().for_each(|value| { *value = next; next += 1 });
    ///     Ok(())
    /// })?;
    /// let mut sum = 0;
    /// device.download_to(&buffer, |piece| Ok::<(), Error>(sum += piece.iter().sum::<u32>()))?;
    /// assert_eq!(sum, 10);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `fill`; as [`Device::zeros`].
    pub fn upload_from<T: Scalar, E: From<Error>>(
        &self,
        len: usize,
        mut fill: impl FnMut(&mut [T]) -> Result<(), E>,
    ) -> Result<Buffer<T>, E> {
        let mut buffer = self.allocate(len)?;
        match &self.back_end {
            BackEnd::Host => fill(buffer.on_host_mut("upload_from")?)?,
            BackEnd::Gpu(gpu) => gpu.fill(&mut buffer, fill)?,
        }
        Ok(buffer)
    }

    /// Overwrites a buffer with values from the host.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] unless both have one length; [`ErrorKind::OtherDevice`].
    pub fn write<T: Scalar>(&self, values: &[T], buffer: &mut Buffer<T>) -> Result<(), Error> {
        checks::len("write", "buffer", values.len(), buffer)?;
        match &self.back_end {
            BackEnd::Host => buffer.on_host_mut("write")?.copy_from_slice(values),
            BackEnd::Gpu(gpu) => gpu.write(values, buffer)?,
        }
        Ok(())
    }

    /// A copy of the buffer's values, once the work given so far is done.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDevice`]; what the device's work failed with.
    pub fn download<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, Error> {
        match &self.back_end {
            BackEnd::Host => Ok(buffer.on_host("download")?.to_vec()),
            BackEnd::Gpu(gpu) => gpu.download(buffer),
        }
    }

    /// Gives the buffer's values to `take`, in pieces as [`Device::upload_from`] has them, once the work given so far is done: to a file straight from
    /// the memory that a GPU copies to.
    ///
    /// # Errors
    /// Those of `take`; as [`Device::download`].
    pub fn download_to<T: Scalar, E: From<Error>>(
        &self,
        buffer: &Buffer<T>,
        mut take: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.back_end {
            BackEnd::Host => take(buffer.on_host("download_to")?),
            BackEnd::Gpu(gpu) => gpu.take_all(buffer, take),
        }
    }

    /// Copies one buffer over another of the same length.
    ///
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    pub fn copy<T: Scalar>(&self, source: &Buffer<T>, target: &mut Buffer<T>) -> Result<(), Error> {
        checks::len("copy", "target", source.len(), target)?;
        match &self.back_end {
            BackEnd::Host => {
                target
                    .on_host_mut("copy")?
                    .copy_from_slice(source.on_host("copy")?);
            }
            BackEnd::Gpu(gpu) => gpu.copy(source, target)?,
        }
        Ok(())
    }

    /// Overwrites a buffer with zeros.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDevice`].
    pub fn clear<T: Scalar>(&self, buffer: &mut Buffer<T>) -> Result<(), Error> {
        match &self.back_end {
            BackEnd::Host => buffer.on_host_mut("clear")?.fill(T::default()),
            BackEnd::Gpu(gpu) => gpu.clear(buffer)?,
        }
        Ok(())
    }

    /// Waits until all work given so far is done.
    ///
    /// # Errors
    /// The error of the work; [`ErrorKind::Timeout`] after ten minutes, or what [`Device::set_timeout`] says.
    pub fn synchronize(&self) -> Result<(), Error> {
        // Operations of the host are done when their call returns.
        self.gpu().map_or(Ok(()), Gpu::synchronize)
    }

    /// From now on a wait for this device that takes longer is [`ErrorKind::Timeout`], on all of its streams in this
    /// process; it is ten minutes at first. The host has nothing to wait for.
    pub fn set_timeout(&self, timeout: Duration) {
        if let Some(gpu) = self.gpu() {
            gpu.driver().set_timeout(timeout);
        }
    }

    /// The same device with an order of work of its own, which may overlap with this one's.
    ///
    /// A buffer belongs to the stream that made it; an operation of another stream that is given one answers
    /// [`ErrorKind::OtherDevice`].
    ///
    /// # Errors
    /// The driver's error.
    pub fn new_stream(&self) -> Result<Device, Error> {
        self.map_gpu(Gpu::new_stream)
    }

    /// A stream beside this one for its copies: what it copies and holds is counted in this one's [`Device::traffic`] and
    /// [`Device::held_bytes`].
    ///
    /// # Errors
    /// The driver's error.
    pub fn copy_stream(&self) -> Result<Device, Error> {
        self.map_gpu(Gpu::copy_stream)
    }

    /// Counts the most bytes that this stream held in `work` as held for as long as the second result lives.
    ///
    /// A GPU gives memory back when the stream comes there. What another stream takes meanwhile lies beside it.
    pub fn keep_peak<R>(&self, work: impl FnOnce() -> R) -> (R, KeptBytes) {
        match &self.back_end {
            BackEnd::Host => (work(), KeptBytes::default()),
            BackEnd::Gpu(gpu) => gpu.keep_peak(work),
        }
    }

    /// A device of a kind for dry runs: it takes no memory, and copies and launches do nothing. The machine need not have
    /// such a device.
    ///
    /// Its buffers have lengths alone, so that [`Device::take_peak_bytes`] after some work on it tells what the same work
    /// takes on a device of the kind. What is copied from it to the host is zeros.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for the host, whose memory is not counted, and where the kind is left open.
    pub fn dry_run(kind: DeviceKind) -> Result<Device, Error> {
        match kind {
            DeviceKind::Host | DeviceKind::Auto => Err(Error::unsupported("dry run", kind)),
            DeviceKind::Emulated | DeviceKind::Cuda(_) => Ok(Device {
                back_end: BackEnd::Gpu(Gpu::dry_run(kind)),
            }),
        }
    }

    /// Makes a buffer of another stream of this device one of this stream: its work comes behind what the other stream was given so
    /// far. Buffers of the host have no stream.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDevice`] for a buffer of another device, or one that an arena lent out; the driver's error.
    pub fn adopt<T: Scalar>(&self, buffer: &mut Buffer<T>) -> Result<(), Error> {
        match (&self.back_end, &mut buffer.store) {
            (BackEnd::Host, Store::Host(_) | Store::Part(_)) => Ok(()),
            (BackEnd::Gpu(gpu), Store::Gpu(memory)) => gpu.adopt(memory),
            _ => Err(Error::other_device("adopt", self.kind())),
        }
    }

    /// The driver's handle of this stream (`CUstream`), for libraries that take one; nothing where there is none.
    pub fn stream_handle(&self) -> Option<u64> {
        self.gpu()?.driver().stream_handle()
    }

    /// This device, but the `n`-th allocation from now on (counted from 0) fails once with
    /// [`ErrorKind::OutOfMemory`]: for tests of what a program does then. The host stays as it is.
    pub fn failing_at_allocation(&self, n: u64) -> Device {
        let back_end = match &self.back_end {
            BackEnd::Host => BackEnd::Host,
            BackEnd::Gpu(gpu) => BackEnd::Gpu(gpu.failing_at(n)),
        };
        Device { back_end }
    }

    /// Whether the buffer may be an operand of this stream's operations.
    pub fn owns<T: Scalar>(&self, buffer: &Buffer<T>) -> bool {
        match (&self.back_end, &buffer.store) {
            (BackEnd::Host, Store::Host(_) | Store::Part(_)) => true,
            (BackEnd::Gpu(gpu), Store::Gpu(memory)) => gpu.owns(memory),
            _ => false,
        }
    }

    /// What copies of this stream have moved between host and device since it was opened; nothing on the host.
    pub fn traffic(&self) -> Traffic {
        self.gpu().map(Gpu::traffic).unwrap_or_default()
    }

    /// Bytes of memory that buffers of this device could still take, where the system says so. The host and the emulator give
    /// [`free_host_bytes`](crate::free_host_bytes); a GPU waits for this stream and gives what its pool keeps back first.
    ///
    /// Others may take memory meanwhile: the number is to plan by, and an allocation may fail all the same.
    ///
    /// # Errors
    /// The error of the stream's work; the driver's.
    pub fn free_bytes(&self) -> Result<Option<u64>, Error> {
        match &self.back_end {
            BackEnd::Host => Ok(free_host_bytes()),
            BackEnd::Gpu(gpu) => gpu.free_bytes(),
        }
    }

    /// Bytes of the buffers of this stream that exist now, arenas and what graphs keep among them; 0 on the host.
    pub fn held_bytes(&self) -> u64 {
        match &self.back_end {
            BackEnd::Host => 0,
            BackEnd::Gpu(gpu) => gpu.held_bytes(),
        }
    }

    /// The most of [`Device::held_bytes`] since the last call, or since the stream was opened; 0 on the host.
    pub fn take_peak_bytes(&self) -> u64 {
        match &self.back_end {
            BackEnd::Host => 0,
            BackEnd::Gpu(gpu) => gpu.take_peak_bytes(),
        }
    }

    /// Kernel launches that the driver was given on this stream since it was opened; a captured graph's is one. None on the
    /// host.
    pub fn n_launches(&self) -> u64 {
        match &self.back_end {
            BackEnd::Host => 0,
            BackEnd::Gpu(gpu) => gpu.n_launches(),
        }
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// The driver's error.
    pub fn record(&self) -> Result<Event, Error> {
        let point = match self.gpu() {
            None => Point::Host(Timer::wall()),
            Some(gpu) => Point::Gpu(gpu.record()?),
        };
        Ok(Event { point })
    }

    /// Lets the work that follows start only after the event, which may be another stream's of the same device.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDevice`] for an event of another device that launches kernels; the driver's error.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        match (&self.back_end, &event.point) {
            (BackEnd::Gpu(gpu), Point::Gpu(mark)) => gpu.wait(mark),
            (_, Point::Host(_)) => Ok(()), // what is marked on the host is done already
            (BackEnd::Host, Point::Gpu(_)) => Err(Error::other_device("wait", DeviceKind::Host)),
        }
    }

    /// Launches a kernel of `cuda/` by name.
    ///
    /// Checked are the name, the argument list against the kernel's declaration, and that every buffer is this
    /// stream's. A launch with an empty grid does nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`], [`ErrorKind::OtherDevice`], [`ErrorKind::Unsupported`] on the host, the driver's error.
    /// # Safety
    /// With these arguments the kernel reads and writes only inside the buffers that it is given.
    pub unsafe fn launch(
        &self,
        kernel: &str,
        shape: Launch,
        args: &[Arg<'_>],
    ) -> Result<(), Error> {
        let missing = || Error::unsupported(&format!("launch of `{kernel}`"), self.kind());
        let gpu = self.gpu().ok_or_else(missing)?;
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(kernel, shape, args) }
    }

    /// Records the launches that `f` makes on this thread, without running them: of the named kernels, or of any where none is
    /// named.
    ///
    /// Clears and copies between buffers of the device are recorded too. Memory that `f` takes stays with the graph, so that
    /// temporary buffers have one address in all its runs. Nothing else is legal inside: no upload, download or wait. Dense
    /// products are those of `cuda/`, also where the vendor's are installed.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on the host, the error of `f`, the driver's error.
    pub fn capture(
        &self,
        kernels: &[&str],
        f: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        self.gpu_for("capture of launches")?.capture(kernels, f)
    }
}
