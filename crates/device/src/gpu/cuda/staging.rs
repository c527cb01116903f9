//! Copies between the host and the device: through a ring of pinned memory.
//!
//! The driver may read or write pageable memory later than its call returns, and copies it at a quarter of the bus's rate.
//! Pinned memory that belongs to the stream has neither fault: an upload is written into the ring (by a copy, or by who reads it
//! from a file) and given to the stream, so the source is free when the call returns; a download is read from the ring once its
//! event has happened, so a wait that passes its limit leaves no write into memory of the caller.

use std::ffi::c_void;
use std::sync::PoisonError;

use cudarc::driver::result::{self, event};
use cudarc::driver::sys;

use super::Cuda;
use crate::Error;
use crate::gpu::driver::{Fill, Take};

/// Bytes of a slot: a copy of this size takes about 80 us at 50 GB/s, far longer than its launch.
pub(super) const SLOT_BYTES: usize = 4 << 20;

/// While the device copies one slot, the host fills or empties the other.
const N_SLOTS: usize = 2;

/// Where a piece starts within a slot: so files can be read into it past the page cache.
const ALIGNMENT: usize = 4096;

/// A ring of pinned slots of one stream.
#[derive(Debug)]
pub(super) struct Ring {
    base: *mut u8,
    slots: [Slot; N_SLOTS],
    current: usize,
    /// Bytes of the current slot that copies in the stream may still use.
    used: usize,
}

#[derive(Debug)]
struct Slot {
    /// Recorded behind the last copy of the slot.
    done: sys::CUevent,
    is_busy: bool,
}

// SAFETY: the ring alone points to its memory, and the driver's handles may be used on any thread.
unsafe impl Send for Ring {}

/// A piece of the ring.
struct Piece {
    slot: usize,
    host: *mut u8,
    bytes: usize,
}

impl Ring {
    /// Pins the slots and creates their events; the context is entered.
    fn new(stream: &Cuda) -> Result<Self, Error> {
        let failed = |call: &'static str| move |e| stream.context.failed(call, e);
        // SAFETY: plain pinned memory; `destroy` gives it back.
        let base = unsafe { result::malloc_host(N_SLOTS * SLOT_BYTES, 0) }
            .map_err(failed("cuMemHostAlloc"))?;
        let mut ring = Self {
            base: base.cast(),
            slots: [const {
                Slot {
                    done: std::ptr::null_mut(),
                    is_busy: false,
                }
            }; N_SLOTS],
            current: 0,
            used: 0,
        };
        for i in 0..N_SLOTS {
            match event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING) {
                Ok(done) => ring.slots[i].done = done,
                Err(e) => {
                    let error = failed("cuEventCreate")(e);
                    stream.context.keep(ring.destroy(stream));
                    return Err(error);
                }
            }
        }
        Ok(ring)
    }

    /// The next piece of at most `wanted` bytes that no copy in the stream uses.
    fn take(&mut self, stream: &Cuda, wanted: usize) -> Result<Piece, Error> {
        if self.used == SLOT_BYTES {
            if !self.slots[self.current].is_busy {
                self.seal(stream)?;
            }
            self.current = (self.current + 1) % N_SLOTS;
            self.wait(stream, self.current)?;
            self.used = 0;
        }
        let bytes = wanted.min(SLOT_BYTES - self.used);
        let first = self.current * SLOT_BYTES + self.used;
        self.used = (self.used + bytes).next_multiple_of(ALIGNMENT);
        Ok(Piece {
            slot: self.current,
            // SAFETY: first + bytes <= N_SLOTS * SLOT_BYTES, the size of the allocation.
            host: unsafe { self.base.add(first) },
            bytes,
        })
    }

    /// Marks the end of the current slot's copies in the stream.
    fn seal(&mut self, stream: &Cuda) -> Result<(), Error> {
        let slot = &mut self.slots[self.current];
        // SAFETY: event and stream are alive.
        unsafe { event::record(slot.done, stream.stream.0) }
            .map_err(|e| stream.context.failed("cuEventRecord", e))?;
        slot.is_busy = true;
        Ok(())
    }

    /// Waits until the slot's copies are done.
    fn wait(&mut self, stream: &Cuda, slot: usize) -> Result<(), Error> {
        let slot = &mut self.slots[slot];
        if slot.is_busy {
            // SAFETY: the event is alive.
            stream.wait_until("cuEventQuery", || unsafe { event::query(slot.done) })?;
            slot.is_busy = false;
        }
        Ok(())
    }

    fn upload(
        &mut self,
        stream: &Cuda,
        mut target: u64,
        mut left: usize,
        fill: Fill<'_>,
    ) -> Result<(), Error> {
        while left > 0 {
            let Piece { host, bytes, .. } = self.take(stream, left)?;
            // SAFETY: the piece has this many bytes of pinned memory, which no copy uses and nobody else has.
            if !fill(unsafe { std::slice::from_raw_parts_mut(host, bytes) }) {
                return Ok(());
            }
            // SAFETY: the target holds what is left (the caller's promise); the piece stays as it is until its slot's event.
            let copied = unsafe {
                sys::cuMemcpyHtoDAsync_v2(target, host.cast::<c_void>(), bytes, stream.stream.0)
            };
            copied
                .result()
                .map_err(|e| stream.context.failed("cuMemcpyHtoDAsync", e))?;
            left -= bytes;
            target += bytes as u64;
        }
        Ok(())
    }

    /// Each piece has a slot of its own, and is taken while the device copies the next.
    fn download(
        &mut self,
        stream: &Cuda,
        mut source: u64,
        mut left: usize,
        take: Take<'_>,
    ) -> Result<(), Error> {
        self.used = SLOT_BYTES; // uploads keep their slot
        let mut in_flight: Option<Piece> = None;
        while left > 0 {
            let piece = self.fetch(stream, source, left.min(SLOT_BYTES))?;
            source += piece.bytes as u64;
            left -= piece.bytes;
            if let Some(before) = in_flight.replace(piece)
                && !self.collect(stream, &before, take)?
            {
                return Ok(());
            }
        }
        if let Some(last) = in_flight {
            self.collect(stream, &last, take)?;
        }
        Ok(())
    }

    /// Gives the stream a copy from the device into a slot.
    fn fetch(&mut self, stream: &Cuda, source: u64, bytes: usize) -> Result<Piece, Error> {
        let piece = self.take(stream, bytes)?;
        let host = piece.host.cast::<c_void>();
        // SAFETY: the source has these bytes (the promise of `download_staged`'s caller); the slot is free until its event.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(host, source, bytes, stream.stream.0) };
        copied
            .result()
            .map_err(|e| stream.context.failed("cuMemcpyDtoHAsync", e))?;
        self.seal(stream)?;
        self.used = SLOT_BYTES;
        Ok(piece)
    }

    /// Waits for a piece of [`Ring::fetch`] and gives it away; false where it was the last that is wanted.
    fn collect(&mut self, stream: &Cuda, piece: &Piece, take: Take<'_>) -> Result<bool, Error> {
        self.wait(stream, piece.slot)?;
        // SAFETY: the copy into the piece, which has this many bytes, is done, and no other has begun.
        Ok(take(unsafe {
            std::slice::from_raw_parts(piece.host, piece.bytes)
        }))
    }

    /// Gives memory and events back; the stream's work is done, or the context is dead.
    pub(super) fn destroy(self, stream: &Cuda) -> Result<(), Error> {
        for slot in &self.slots {
            if !slot.done.is_null() {
                // SAFETY: the event is this ring's own, destroyed once.
                unsafe { event::destroy(slot.done) }
                    .map_err(|e| stream.context.failed("cuEventDestroy", e))?;
            }
        }
        // SAFETY: the memory is this ring's own, given back once.
        unsafe { result::free_host(self.base.cast()) }
            .map_err(|e| stream.context.failed("cuMemFreeHost", e))
    }
}

impl Cuda {
    /// Copies what `fill` writes into pinned memory.
    ///
    /// # Safety
    /// `bytes` bytes from the target on are memory of `allocate`.
    pub(super) unsafe fn upload_staged(
        &self,
        target: u64,
        bytes: usize,
        fill: Fill<'_>,
    ) -> Result<(), Error> {
        self.with_ring(|ring| ring.upload(self, target, bytes, fill))
    }

    /// Copies to pinned memory, which `take` reads, and waits for each piece, with the device's limit on waits.
    ///
    /// # Safety
    /// `bytes` bytes from the source on are memory of `allocate`.
    pub(super) unsafe fn download_staged(
        &self,
        source: u64,
        bytes: usize,
        take: Take<'_>,
    ) -> Result<(), Error> {
        self.with_ring(|ring| ring.download(self, source, bytes, take))
    }

    /// The stream's ring, which its first copy creates.
    fn with_ring(&self, f: impl FnOnce(&mut Ring) -> Result<(), Error>) -> Result<(), Error> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *ring {
            Some(ring) => f(ring),
            none => f(none.insert(Ring::new(self)?)),
        }
    }
}
