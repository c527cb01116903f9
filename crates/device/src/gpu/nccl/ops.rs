//! The operations of a group: what NCCL moves, and the kernels that add.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use super::Group;
use super::call::{Call, Op};
use super::group::broken;
use super::library::{FLOAT32, Functions, MAX, RawComm, SUM, UINT8, UINT64};
use crate::peers::{BLOCK, MAX_PEER_BLOCKS};
use crate::{Arg, Buffer, Error, Launch, Scalar};

/// NCCL's arguments behind the data: where it runs.
#[derive(Clone, Copy)]
struct Lane<'a> {
    functions: &'a Functions,
    comm: RawComm,
    stream: *mut c_void,
}

/// A run of elements of device memory.
#[derive(Clone, Copy)]
struct Run {
    address: u64,
    len: usize,
}

/// Integers that NCCL reduces, and how: in one way each, whose result has no order.
trait Integer: Scalar {
    const REDUCTION: (c_int, c_int);
}

impl Integer for u8 {
    const REDUCTION: (c_int, c_int) = (UINT8, MAX);
}

impl Integer for u64 {
    const REDUCTION: (c_int, c_int) = (UINT64, SUM);
}

/// A buffer that goes from one rank to another.
#[derive(Debug)]
pub struct Transfer<'b, T: Scalar> {
    /// The rank that has it.
    pub from: u32,
    /// The rank that gets it.
    pub to: u32,
    /// Elements.
    pub len: usize,
    /// The buffer, on the rank that has it.
    pub own: Option<&'b Buffer<T>>,
}

/// What an exact sum adds on this rank: so many blocks of so many elements.
struct Blocks<'a> {
    values: &'a Buffer,
    n_blocks: usize,
    len: usize,
}

impl Run {
    fn part(self, first: usize, len: usize) -> Self {
        Self {
            address: self.address + (first * size_of::<f32>()) as u64,
            len,
        }
    }
}

impl<'a> Lane<'a> {
    fn new(functions: &'a Functions, comm: RawComm, stream: *mut c_void) -> Self {
        Self {
            functions,
            comm,
            stream,
        }
    }

    /// # Safety
    /// `to` has room for as many elements of this type from each rank.
    unsafe fn all_gather(self, from: Run, to: Run, data_type: c_int) -> Result<(), String> {
        // SAFETY: the caller's promise; communicator and stream are alive.
        let status = unsafe {
            (self.functions.all_gather)(
                from.address as *const c_void,
                to.address as *mut c_void,
                from.len,
                data_type,
                self.comm,
                self.stream,
            )
        };
        self.functions.check("ncclAllGather", status, self.comm)
    }

    /// # Safety
    /// `send` has `len` floats, `recv` room for as many.
    unsafe fn broadcast(self, send: u64, recv: Run, root: usize) -> Result<(), String> {
        // SAFETY: the caller's promise; communicator and stream are alive.
        let status = unsafe {
            (self.functions.broadcast)(
                send as *const c_void,
                recv.address as *mut c_void,
                recv.len,
                FLOAT32,
                root as c_int,
                self.comm,
                self.stream,
            )
        };
        self.functions.check("ncclBroadcast", status, self.comm)
    }

    /// # Safety
    /// The run is device memory.
    unsafe fn send(self, run: Run, data_type: c_int, peer: usize) -> Result<(), String> {
        let (from, peer) = (run.address as *const c_void, peer as c_int);
        // SAFETY: the caller's promise; communicator and stream are alive.
        let status = unsafe {
            (self.functions.send)(from, run.len, data_type, peer, self.comm, self.stream)
        };
        self.functions.check("ncclSend", status, self.comm)
    }

    /// # Safety
    /// The run is device memory that may be overwritten.
    unsafe fn recv(self, run: Run, data_type: c_int, peer: usize) -> Result<(), String> {
        let (to, peer) = (run.address as *mut c_void, peer as c_int);
        // SAFETY: the caller's promise; communicator and stream are alive.
        let status =
            unsafe { (self.functions.recv)(to, run.len, data_type, peer, self.comm, self.stream) };
        self.functions.check("ncclRecv", status, self.comm)
    }
}

impl Group {
    /// All ranks' elements one after the other.
    ///
    /// # Shapes
    /// `counts` has each rank's number of elements, the same on all ranks; `own` has this rank's.
    /// # Errors
    /// [`crate::ErrorKind::Length`], [`crate::ErrorKind::OtherDevice`], [`crate::ErrorKind::Collective`]; any of them ends the group (so below).
    pub fn all_gather(
        &self,
        own: &Buffer,
        counts: &[usize],
        deadline: Duration,
    ) -> Result<Buffer, Error> {
        let call = Call::new(Op::AllGather, counts.iter().sum()).with_counts(counts);
        self.run(call, deadline, |call| {
            let wanted = self.own_count(counts)?;
            self.check_len("all_gather", "own", wanted, own.len())?;
            self.gather(call, own, counts, deadline)
        })
    }

    /// The element-wise sum over the ranks.
    ///
    /// # Shapes
    /// `own` is as long on all ranks.
    /// # Errors
    /// As [`Group::all_gather`].
    /// # Complexity
    /// Each rank sends and receives `2 (P - 1) / P` of the buffer.
    /// # Determinism
    /// `((x0 + x1) + x2) + ...` in rank order, as the host's all-reduce: the same bits for the same parts.
    pub fn all_reduce(&self, own: &Buffer, deadline: Duration) -> Result<Buffer, Error> {
        let call = Call::new(Op::AllReduce, own.len());
        self.run(call, deadline, |call| {
            let counts = even(own.len(), self.n_ranks());
            let part = self.sum_part(call, own, &counts, deadline)?;
            self.gather(call, &part, &counts, deadline)
        })
    }

    /// This rank's part of the element-wise sum over the ranks.
    ///
    /// # Shapes
    /// `own` holds the parts one after the other, `counts` has the length of each; both the same on all ranks.
    /// # Errors
    /// As [`Group::all_gather`].
    /// # Determinism
    /// As [`Group::all_reduce`].
    pub fn reduce_scatter(
        &self,
        own: &Buffer,
        counts: &[usize],
        deadline: Duration,
    ) -> Result<Buffer, Error> {
        let call = Call::new(Op::ReduceScatter, own.len()).with_counts(counts);
        self.run(call, deadline, |call| {
            self.own_count(counts)?;
            self.check_len("reduce_scatter", "own", counts.iter().sum(), own.len())?;
            self.sum_part(call, own, counts, deadline)
        })
    }

    /// The sum over all blocks of all ranks, with the same bits for every number of ranks and every cut of the blocks over
    /// them: `Comm::exact_sum` on device memory.
    ///
    /// # Shapes
    /// `blocks` holds this rank's blocks of `len` elements: at most [`MAX_PEER_BLOCKS`]` / P` of them.
    /// # Errors
    /// As [`Group::all_gather`].
    /// # Complexity
    /// Two all-reduces, of `len` and of `8 len` bytes; `13 len` bytes of scratch.
    /// # Determinism
    /// Floats are rounded to fixed point by a kernel, then NCCL adds integers, whose order does not show.
    pub fn exact_sum(
        &self,
        blocks: &Buffer,
        len: usize,
        deadline: Duration,
    ) -> Result<Buffer, Error> {
        const OP: &str = "exact_sum";
        self.run(Call::new(Op::ExactSum, len), deadline, |call| {
            let n_blocks = blocks.len().checked_div(len).unwrap_or(0);
            self.check_len(OP, "blocks", n_blocks * len, blocks.len())?;
            let most = MAX_PEER_BLOCKS / self.n_ranks();
            if n_blocks > most {
                return Err(Error::length(OP, "blocks", most * len, blocks.len()));
            }
            let blocks = Blocks {
                values: blocks,
                n_blocks,
                len,
            };
            let mut exponents = self.exponents(&blocks)?;
            self.reduce_integers(call, &mut exponents, deadline)?;
            let mut sums = self.fixed(&blocks, &exponents)?;
            self.reduce_integers(call, &mut sums, deadline)?;
            self.round(&sums, &exponents)
        })
    }

    /// Sends buffers from rank to rank, all at once; gives those that come to this rank, in their order, without empty ones.
    ///
    /// # Shapes
    /// All ranks name the same transfers, between two ranks each.
    /// # Errors
    /// As [`Group::all_gather`]; [`crate::ErrorKind::Invalid`] where this rank has not what it is to send.
    /// # Complexity
    /// Each buffer goes over the wire once.
    pub fn transfer<T: Scalar>(
        &self,
        transfers: &[Transfer<'_, T>],
        deadline: Duration,
    ) -> Result<Vec<Buffer<T>>, Error> {
        const OP: &str = "transfer";
        let bytes = |len: usize| len * size_of::<T>();
        let total = transfers.iter().map(|transfer| bytes(transfer.len)).sum();
        let words = transfers.iter();
        let words = words.flat_map(|of| [of.from as usize, of.to as usize, of.len]);
        let call = Call::new(Op::Transfer, total).with_counts(&words.collect::<Vec<_>>());
        self.run(call, deadline, |call| {
            let (mut received, mut sends, mut recvs) = (Vec::new(), Vec::new(), Vec::new());
            let run = |buffer: &Buffer<T>| -> Result<Run, Error> {
                let len = bytes(buffer.len());
                Ok(Run {
                    len,
                    ..self.run_of(OP, buffer)?
                })
            };
            for transfer in transfers.iter().filter(|of| of.len > 0) {
                if transfer.from == self.member.rank {
                    let missing = || Error::invalid(OP, "this rank is to send what it has not");
                    let own = transfer.own.ok_or_else(missing)?;
                    self.check_len(OP, "own", transfer.len, own.len())?;
                    sends.push((run(own)?, transfer.to as usize));
                }
                if transfer.to == self.member.rank {
                    let buffer = self.gpu.allocate(transfer.len)?;
                    recvs.push((run(&buffer)?, transfer.from as usize));
                    received.push(buffer);
                }
            }
            if sends.is_empty() && recvs.is_empty() {
                return Ok(received);
            }
            self.give(call, deadline, |functions, comm, stream| {
                let lane = Lane::new(functions, comm, stream);
                for &(run, peer) in &sends {
                    // SAFETY: the run is a whole buffer.
                    unsafe { lane.send(run, UINT8, peer)? };
                }
                for &(run, peer) in &recvs {
                    // SAFETY: the run is a whole buffer, which is new.
                    unsafe { lane.recv(run, UINT8, peer)? };
                }
                Ok(())
            })?;
            Ok(received)
        })
    }

    /// The largest exponent of each element over this rank's blocks.
    fn exponents(&self, blocks: &Blocks<'_>) -> Result<Buffer<u8>, Error> {
        let mut exponents = self.gpu.allocate(blocks.len)?;
        let args = [
            Arg::read(blocks.values),
            Arg::u64(blocks.n_blocks as u64),
            Arg::u64(blocks.len as u64),
            Arg::write(&mut exponents),
        ];
        let shape = Launch::threads(blocks.len, BLOCK);
        // SAFETY: n_blocks blocks of len elements, and an exponent for each element.
        unsafe { self.gpu.launch("exact_exponents", shape, &args)? };
        Ok(exponents)
    }

    /// The sum of each element over this rank's blocks, in fixed point with the exponents of all ranks.
    fn fixed(&self, blocks: &Blocks<'_>, exponents: &Buffer<u8>) -> Result<Buffer<u64>, Error> {
        let mut sums = self.gpu.allocate(blocks.len)?;
        let args = [
            Arg::read(blocks.values),
            Arg::u64(blocks.n_blocks as u64),
            Arg::u64(blocks.len as u64),
            Arg::read(exponents),
            Arg::write(&mut sums),
        ];
        let shape = Launch::threads(blocks.len, BLOCK);
        // SAFETY: n_blocks blocks of len elements, an exponent and a sum for each element.
        unsafe { self.gpu.launch("exact_fixed", shape, &args)? };
        Ok(sums)
    }

    /// The sums as floats.
    fn round(&self, sums: &Buffer<u64>, exponents: &Buffer<u8>) -> Result<Buffer, Error> {
        let mut out = self.gpu.allocate(sums.len())?;
        let args = [
            Arg::read(sums),
            Arg::read(exponents),
            Arg::u64(sums.len() as u64),
            Arg::write(&mut out),
        ];
        let shape = Launch::threads(sums.len(), BLOCK);
        // SAFETY: all three have an element for each sum.
        unsafe { self.gpu.launch("exact_round", shape, &args)? };
        Ok(out)
    }

    /// Runs one operation under its number. What goes wrong ends the group: the peers' part of the operation cannot complete.
    fn run<R>(
        &self,
        call: Call,
        deadline: Duration,
        work: impl FnOnce(&Call) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let call = self.begin(call)?;
        let agreed = match self.library.is_checked() {
            true => self.agree(&call, deadline),
            false => Ok(()),
        };
        let done = agreed.and_then(|()| work(&call));
        done.map_err(|error| self.give_up(error))
    }

    /// Compares what all ranks ask for.
    fn agree(&self, call: &Call, deadline: Duration) -> Result<(), Error> {
        let own = self.gpu.upload(&call.to_words())?;
        let all = self.gpu.allocate::<u64>(Call::WORDS * self.n_ranks())?;
        let (from, to) = (self.run_of("agree", &own)?, self.run_of("agree", &all)?);
        self.give(call, deadline, |functions, comm, stream| {
            let lane = Lane::new(functions, comm, stream);
            // SAFETY: the result has room for as many words of each rank.
            unsafe { lane.all_gather(from, to, UINT64) }
        })?;
        self.finish()?;
        let all = self.gpu.download(&all)?;
        let differs = |(_, words): &(usize, &[u64])| *words != call.to_words();
        match all.chunks_exact(Call::WORDS).enumerate().find(differs) {
            None => Ok(()),
            Some((rank, words)) => {
                let theirs = Call::from_words(words).map(|call| call.to_string());
                let theirs = theirs.unwrap_or_else(|| format!("{words:?}"));
                let why = format!("ranks differ: rank {rank} asks for [{theirs}]");
                Err(broken(call, why))
            }
        }
    }

    fn gather(
        &self,
        call: &Call,
        own: &Buffer,
        counts: &[usize],
        deadline: Duration,
    ) -> Result<Buffer, Error> {
        let out: Buffer = self.gpu.allocate(counts.iter().sum())?;
        let (from, to) = (
            self.run_of("all_gather", own)?,
            self.run_of("all_gather", &out)?,
        );
        if to.len == 0 {
            return Ok(out);
        }
        let rank = self.member.rank as usize;
        let is_even = counts.iter().all(|&n| n == counts[0]);
        self.give(call, deadline, |functions, comm, stream| {
            let lane = Lane::new(functions, comm, stream);
            if is_even {
                // SAFETY: every rank has as many elements as this one, and the result has room for all.
                return unsafe { lane.all_gather(from, to, FLOAT32) };
            }
            let mut first = 0;
            for (root, &n) in counts.iter().enumerate() {
                let part = to.part(first, n);
                first += n;
                if n > 0 {
                    let send = if root == rank {
                        from.address
                    } else {
                        part.address
                    };
                    // SAFETY: the part lies in the result, and this rank's own part has the length of `own`.
                    unsafe { lane.broadcast(send, part, root)? };
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Sends every rank its part, and adds what comes from all ranks, in their order.
    fn sum_part(
        &self,
        call: &Call,
        own: &Buffer,
        counts: &[usize],
        deadline: Duration,
    ) -> Result<Buffer, Error> {
        let n_ranks = self.n_ranks();
        let mine = counts[self.member.rank as usize];
        let parts: Buffer = self.gpu.allocate(n_ranks * mine)?;
        let (from, to) = (self.run_of(OP_SUM, own)?, self.run_of(OP_SUM, &parts)?);
        let mut out = self.gpu.allocate(mine)?;
        if from.len == 0 {
            return Ok(out);
        }
        // Before the exchange: a copy from the host may wait for what the stream has been given.
        let part = |peer| to.part(peer * mine, mine).address;
        let addresses: Vec<u64> = (0..n_ranks).map(part).collect();
        let addresses = self.gpu.upload(&addresses)?;
        self.exchange(call, from, to, counts, deadline)?;
        let args = [
            Arg::read(&addresses),
            Arg::u32(n_ranks as u32),
            Arg::u64(0),
            Arg::u64(mine as u64),
            Arg::write(&mut out),
        ];
        let shape = Launch::threads(mine, BLOCK);
        // SAFETY: each address has `mine` elements of `parts`, which is given back behind this launch, on the same stream.
        unsafe { self.gpu.launch("peer_sum", shape, &args)? };
        Ok(out)
    }

    /// Sends every rank its part of the first run, and puts what comes from all ranks into the second, in their order.
    fn exchange(
        &self,
        call: &Call,
        from: Run,
        to: Run,
        counts: &[usize],
        deadline: Duration,
    ) -> Result<(), Error> {
        let mine = counts[self.member.rank as usize];
        self.give(call, deadline, |functions, comm, stream| {
            let lane = Lane::new(functions, comm, stream);
            let mut first = 0;
            for (peer, &n) in counts.iter().enumerate() {
                // SAFETY: the first run has all parts, the second room for one of each rank (`sum_part`).
                unsafe {
                    if n > 0 {
                        lane.send(from.part(first, n), FLOAT32, peer)?;
                    }
                    if mine > 0 {
                        lane.recv(to.part(peer * mine, mine), FLOAT32, peer)?;
                    }
                }
                first += n;
            }
            Ok(())
        })
    }

    fn reduce_integers<T: Integer>(
        &self,
        call: &Call,
        buffer: &mut Buffer<T>,
        deadline: Duration,
    ) -> Result<(), Error> {
        let run = self.run_of_mut("all_reduce", buffer)?;
        let (data_type, reduction) = T::REDUCTION;
        if run.len == 0 {
            return Ok(());
        }
        self.give(call, deadline, |functions, comm, stream| {
            let (from, to) = (run.address as *const c_void, run.address as *mut c_void);
            // SAFETY: the run is the whole buffer, of this type; in place, as NCCL allows; communicator and stream are alive.
            let status = unsafe {
                (functions.all_reduce)(from, to, run.len, data_type, reduction, comm, stream)
            };
            functions.check("ncclAllReduce", status, comm)
        })
    }

    /// The whole buffer, if it is of this rank's stream.
    fn run_of<T: Scalar>(&self, op: &str, buffer: &Buffer<T>) -> Result<Run, Error> {
        let address = self.gpu.memory(op, buffer)?.address();
        let len = buffer.len();
        Ok(Run { address, len })
    }

    /// The same for a buffer that is about to change.
    fn run_of_mut<T: Scalar>(&self, op: &str, buffer: &mut Buffer<T>) -> Result<Run, Error> {
        let address = self.gpu.memory_to_write(op, buffer)?.address();
        let len = buffer.len();
        Ok(Run { address, len })
    }

    fn n_ranks(&self) -> usize {
        self.member.size as usize
    }

    fn own_count(&self, counts: &[usize]) -> Result<usize, Error> {
        self.check_len(
            "collective operation",
            "counts",
            self.n_ranks(),
            counts.len(),
        )?;
        Ok(counts[self.member.rank as usize])
    }

    fn check_len(
        &self,
        op: &'static str,
        operand: &'static str,
        wanted: usize,
        given: usize,
    ) -> Result<(), Error> {
        match wanted == given {
            true => Ok(()),
            false => Err(Error::length(op, operand, wanted, given)),
        }
    }
}

/// The name of the summing operations where a buffer is of another stream.
const OP_SUM: &str = "all_reduce";

/// `len` elements in parts for so many ranks, the first ones longer by one where it does not come out even.
fn even(len: usize, n_ranks: usize) -> Vec<usize> {
    (0..n_ranks)
        .map(|rank| len / n_ranks + usize::from(rank < len % n_ranks))
        .collect()
}
