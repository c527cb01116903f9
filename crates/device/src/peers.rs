//! What ranks on one device need to work on each other's buffers: the `local` way of a collective operation.
//!
//! A rank publishes a buffer together with the point of its stream at which it is complete; peers, which have streams
//! of their own, wait for that point on the device and read the buffer in place. Nothing is copied to the host. The
//! ranks' agreement on who reads what is not made here but by the caller's communicator.

use std::sync::Arc;

#[cfg(doc)]
use crate::ErrorKind;
use crate::buffer::Store;
use crate::gpu::{Gpu, Memory};
use crate::{Arg, Buffer, Device, Error, Event, Launch, checks};

/// Threads of a block of the kernels.
pub(crate) const BLOCK: u32 = 256;

/// How many blocks [`Device::exact_sum`] and [`Device::peer_exact_sum`] add: 2^16 partials below 2^47 fit in 64 bits.
pub const MAX_PEER_BLOCKS: usize = 1 << 16;

/// A buffer that peers on the same device may read.
///
/// It can be overwritten only by who has the buffer alone again, so after its readers have dropped theirs; and each
/// operation that reads leaves a mark with the buffer's memory, which the owner's stream waits for before it changes
/// the memory or gives it back.
#[derive(Debug, Clone)]
pub struct Published {
    buffer: Arc<Buffer>,
    ready: Arc<Event>,
}

impl Published {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

impl Device {
    /// Makes a buffer readable for peers, as it is at this point of this device's stream.
    ///
    /// # Errors
    /// The driver's error.
    pub fn publish(&self, buffer: Arc<Buffer>) -> Result<Published, Error> {
        let ready = Arc::new(self.record()?);
        Ok(Published { buffer, ready })
    }

    /// Puts the peers' buffers one after the other.
    ///
    /// # Shapes
    /// `out` is as long as all parts together.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`] for a peer of another device; [`ErrorKind::Unsupported`] on the
    /// host, where the communicator does it (so below).
    pub fn peer_gather(&self, parts: &[Published], out: &mut Buffer) -> Result<(), Error> {
        const OP: &str = "peer_gather";
        let total = parts.iter().map(Published::len).sum();
        checks::len(OP, "out", total, out)?;
        let gpu = self.gpu_for(OP)?;
        let memories = memories(gpu, OP, parts)?;
        self.wait_for(parts)?;
        read(gpu, &memories, || {
            let mut first = 0;
            for memory in &memories {
                gpu.copy_from_peer(memory, out, first)?;
                first += memory.bytes();
            }
            Ok(())
        })
    }

    /// Adds the peers' elements `first..first + out.len()`, in rank order.
    ///
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    /// # Determinism
    /// `((x0 + x1) + x2) + ...`, as the host's all-reduce: the same bits for the same parts.
    pub fn peer_sum(
        &self,
        parts: &[Published],
        first: usize,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        const OP: &str = "peer_sum";
        let wanted = first.saturating_add(out.len());
        if let Some(short) = parts.iter().find(|part| part.len() < wanted) {
            return Err(Error::length(OP, "part", wanted, short.len()));
        }
        let gpu = self.gpu_for(OP)?;
        if parts.is_empty() {
            return gpu.clear(out);
        }
        let memories = memories(gpu, OP, parts)?;
        self.wait_for(parts)?;
        let addresses = gpu.upload(&addresses(&memories))?;
        let (n, shape) = (out.len() as u64, Launch::threads(out.len(), BLOCK));
        let args = [
            Arg::read(&addresses),
            Arg::u32(parts.len() as u32),
            Arg::u64(first as u64),
            Arg::u64(n),
            Arg::write(out),
        ];
        // SAFETY: every part has at least first + n elements (checked above), stays as it is until this stream is
        // done with it (`read` sees to that), and is complete (waited for above).
        read(gpu, &memories, || unsafe {
            gpu.launch("peer_sum", shape, &args)
        })
    }

    /// Adds all blocks of all peers element by element, so that the result has the same bits for every number of peers
    /// and every cut of the blocks over them: the sum of `Comm::exact_sum`, on a device that launches kernels.
    ///
    /// # Shapes
    /// A part holds whole blocks of `out.len()` elements; all of them together at most [`MAX_PEER_BLOCKS`].
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    /// # Source
    /// Fixed point with one shared exponent an element, as described at `Comm::exact_sum`.
    pub fn peer_exact_sum(&self, parts: &[Published], out: &mut Buffer) -> Result<(), Error> {
        const OP: &str = "peer_exact_sum";
        let n = out.len().max(1);
        if let Some(ragged) = parts.iter().find(|part| part.len() % n != 0) {
            let whole = ragged.len().next_multiple_of(n);
            return Err(Error::length(OP, "part", whole, ragged.len()));
        }
        let n_blocks: Vec<u64> = parts.iter().map(|part| (part.len() / n) as u64).collect();
        let total = n_blocks.iter().sum::<u64>() as usize;
        if total > MAX_PEER_BLOCKS {
            return Err(Error::length(OP, "blocks", MAX_PEER_BLOCKS, total));
        }
        let gpu = self.gpu_for(OP)?;
        let memories = memories(gpu, OP, parts)?;
        self.wait_for(parts)?;
        let addresses = gpu.upload(&addresses(&memories))?;
        let n_blocks = gpu.upload(&n_blocks)?;
        let shape = Launch::threads(out.len(), BLOCK);
        let args = [
            Arg::read(&addresses),
            Arg::read(&n_blocks),
            Arg::u32(parts.len() as u32),
            Arg::u64(out.len() as u64),
            Arg::write(out),
        ];
        // SAFETY: part p holds n_blocks[p] blocks of out.len() elements (computed from its length above); as in `peer_sum`
        // the parts stay as they are and are complete.
        read(gpu, &memories, || unsafe {
            gpu.launch("peer_exact_sum", shape, &args)
        })
    }

    /// Adds all blocks of one rank element by element, with the bits of [`Device::peer_exact_sum`]: one launch and no copy, so that a
    /// graph may hold it.
    ///
    /// # Shapes
    /// `blocks` holds whole blocks of `out.len()` elements, at most [`MAX_PEER_BLOCKS`].
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`]; [`ErrorKind::Unsupported`] on the host.
    /// # Complexity
    /// Reads each block twice.
    /// # Source
    /// As [`Device::peer_exact_sum`].
    pub fn exact_sum(&self, blocks: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        const OP: &str = "exact_sum";
        let n = out.len().max(1);
        checks::len(OP, "blocks", blocks.len().next_multiple_of(n), blocks)?;
        let n_blocks = blocks.len() / n;
        if n_blocks > MAX_PEER_BLOCKS {
            return Err(Error::length(OP, "blocks", MAX_PEER_BLOCKS, n_blocks));
        }
        let shape = Launch::threads(out.len(), BLOCK);
        let args = [
            Arg::read(blocks),
            Arg::u64(n_blocks as u64),
            Arg::u64(out.len() as u64),
            Arg::write(out),
        ];
        // SAFETY: n_blocks blocks of out.len() elements each, checked above.
        unsafe { self.gpu_for(OP)?.launch("exact_sum", shape, &args) }
    }

    fn wait_for(&self, parts: &[Published]) -> Result<(), Error> {
        parts.iter().try_for_each(|part| self.wait(&part.ready))
    }
}

/// The parts' memory, all of it of this device.
fn memories<'p>(gpu: &Gpu, op: &str, parts: &'p [Published]) -> Result<Vec<&'p Memory>, Error> {
    let memory = |part: &'p Published| match &part.buffer.store {
        Store::Gpu(memory) if gpu.shares_device(memory) => Ok(memory),
        _ => Err(Error::other_device(op, gpu.kind())),
    };
    parts.iter().map(memory).collect()
}

fn addresses(memories: &[&Memory]) -> Vec<u64> {
    memories.iter().map(|memory| memory.address()).collect()
}

/// Gives work that reads the peers' memory to the stream, and marks its end with each of them: also after an error, since
/// some of it may have been given.
fn read(
    gpu: &Gpu,
    memories: &[&Memory],
    give: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let given = give();
    match gpu.record() {
        Ok(done) => {
            let done = Arc::new(done);
            memories.iter().for_each(|memory| memory.read_until(&done));
            given
        }
        Err(error) => {
            gpu.synchronize()?; // without a mark the reading has to end here
            given.and(Err(error))
        }
    }
}
