//! The communicator: one rank's handle to its world.

use crate::algorithm::Algorithm;
use crate::backend::Backend;
use crate::dry_run::DryRun;
use crate::error::{CommError, CommErrorKind};
use crate::exact::{Partials, Scratch, SparseRows};
use crate::flight::{Outcome, Recorded, Recorder};
use crate::op::{Call, Op, OpKind, Reduction};
use crate::rank_end::{Cause, RankEnd};
use crate::solo::Solo;
use crate::timeout::Timeout;
use crate::watch::Watch;
use shardgraph_error::Class;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// One rank of a world. It can move to another thread but not be shared by two: operations are
/// issued in one order.
///
/// ```
/// use shardgraph_collectives::{Comm, Timeout, Op};
///
/// let mut comm = Comm::solo();
/// let mut all = [0u32; 2];
/// comm.run(Op::AllGather { send: (&[7u32, 8]).into(), recv: (&mut all).into() }, Timeout::default())?;
/// assert_eq!(all, [7, 8]);
/// # Ok::<(), shardgraph_collectives::CommError>(())
/// ```
pub struct Comm {
    backend: Box<dyn Backend>,
    next_seq: u64,
    recorder: Recorder,
    /// The rank where the first failure began, and its text.
    failed: Option<RankEnd>,
    scratch: Scratch,
    received_bytes: u64,
}

impl Comm {
    /// A world of one rank: every operation is a plain copy, without locks or waits.
    pub fn solo() -> Comm {
        Comm::over(Box::new(Solo))
    }

    /// One rank of `size` ranks that are not there: operations check their arguments and leave buffers as they are. For dry
    /// runs, which find out what a rank's work takes.
    ///
    /// # Panics
    /// Unless `rank` is below `size`.
    ///
    /// ```
    /// use shardgraph_collectives::{Comm, Op, Timeout};
    ///
    /// let mut comm = Comm::dry_run(1, 3);
    /// assert_eq!((comm.rank(), comm.size()), (1, 3));
    /// let mut all = [0u32; 6];
    /// comm.run(Op::AllGather { send: (&[7u32, 8]).into(), recv: (&mut all).into() }, Timeout::default())?;
    /// assert_eq!(all, [0; 6]);
    /// # Ok::<(), shardgraph_collectives::CommError>(())
    /// ```
    pub fn dry_run(rank: u32, size: u32) -> Comm {
        assert!(rank < size, "rank {rank} of {size} ranks");
        Comm::over(Box::new(DryRun { rank, size }))
    }

    pub(crate) fn over(backend: Box<dyn Backend>) -> Comm {
        Comm {
            backend,
            next_seq: 0,
            recorder: Recorder::new(),
            failed: None,
            scratch: Scratch::default(),
            received_bytes: 0,
        }
    }

    /// This rank's number, below [`Comm::size`].
    pub fn rank(&self) -> u32 {
        self.backend.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.backend.size()
    }

    /// Runs one operation and returns when this rank's buffers hold the result.
    ///
    /// # Errors
    /// See [`CommErrorKind`]. The contents of the receive buffers are then unspecified, except
    /// after `Argument` and `Mismatch`, which leave them as they were. An error here also ends the
    /// operation on the peers that wait in it.
    ///
    /// # Determinism
    /// Repeated with the same data and number of ranks, every operation gives the same bits; see
    /// [`Reduction`] for what depends on the number of ranks.
    pub fn run(&mut self, op: Op<'_>, timeout: Timeout) -> Result<(), CommError> {
        let call = op.call(self.rank(), self.next_seq);
        if let Err(what) = op.check(self.rank(), self.size()) {
            self.begin(call)?;
            return self.end(Err(argument(&call, what)));
        }
        self.run_as(op, call, timeout)
    }

    /// Runs an operation whose arguments fit under the name that `call` gives it.
    fn run_as(&mut self, op: Op<'_>, call: Call, timeout: Timeout) -> Result<(), CommError> {
        let n_bytes = op.received_bytes(self.rank(), self.size());
        self.begin(call)?;
        let result = self.backend.run(op, &call, timeout);
        self.end(result)?;
        self.received_bytes += n_bytes;
        Ok(())
    }

    /// The bytes that this rank had to take in from other ranks in all operations so far: what no
    /// way of doing them can do without. An all-reduce of n bytes counts `2 (P - 1) / P * n`, as
    /// reduce-scatter and all-gather. Headers, and the objects of [`Comm::exchange`], are not
    /// counted.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Adds all blocks of all ranks element by element, so that `out` gets the same bits for every
    /// number of ranks, every cut of the blocks over the ranks and every order of the blocks.
    ///
    /// Each element of each block is rounded once, to a multiple of 2^-46 of the power of two at or
    /// below the largest magnitude that any block of any rank has for that element; these integers
    /// are added exactly, and their sum is rounded once to `f32`. What is below about 2^-46 of the
    /// largest magnitude vanishes.
    ///
    /// # Shapes
    /// `blocks` holds the partials of this rank's fixed row blocks, one after the other: (own
    /// blocks) * `out.len()` floats. A rank may have none. All ranks together have at most
    /// [`MAX_EXACT_BLOCKS`](crate::MAX_EXACT_BLOCKS).
    ///
    /// # Errors
    /// As [`Comm::run`]; [`CommErrorKind::Argument`] where `blocks` is no multiple of `out`, and on
    /// all ranks where there are too many blocks.
    ///
    /// # Determinism
    /// An element is NaN if one of its partials is NaN or if both infinities occur; else the
    /// infinity that occurs; a zero sum is +0.0. A NaN is the canonical quiet NaN, a finite sum
    /// beyond the range of `f32` the infinity of its sign.
    ///
    /// # Complexity
    /// O(blocks) additions, two passes over `blocks`, and two all-reduces: `out.len()` bytes and
    /// `out.len() + 1` words of 8 bytes. Scratch memory of 9 bytes per element is kept for the next
    /// call.
    pub fn exact_sum(
        &mut self,
        blocks: &[f32],
        out: &mut [f32],
        timeout: Timeout,
    ) -> Result<(), CommError> {
        let partials = Partials::of_blocks(blocks, out.len());
        self.exact_sum_of(partials, out, timeout)
    }

    /// [`Comm::exact_sum`] of blocks of which most is zero: only the rows that are not are given.
    /// The result has the bits that it has with the zeros.
    ///
    /// # Shapes
    /// See [`SparseRows`]. A rank may have none. Of each rank counts the place of which it has most
    /// rows: these counts are at most [`MAX_EXACT_BLOCKS`](crate::MAX_EXACT_BLOCKS) together.
    ///
    /// # Errors
    /// As [`Comm::exact_sum`]; [`CommErrorKind::Argument`] too where `row_len` does not divide
    /// `out`, or a place is beyond it.
    ///
    /// # Complexity
    /// As [`Comm::exact_sum`] of these rows alone; 4 bytes a row and 8 a place more while it runs.
    ///
    /// ```
    /// use shardgraph_collectives::{Comm, SparseRows, Timeout};
    ///
    /// let mut sum = [0.0; 6];
    /// let rows = SparseRows { values: &[1.0, 2.0, 0.5, 0.25], row_len: 2, places: &[2, 2] };
    /// Comm::solo().exact_sum_rows(rows, &mut sum, Timeout::default())?;
    /// assert_eq!(sum, [0.0, 0.0, 0.0, 0.0, 1.5, 2.25]);
    /// # Ok::<(), shardgraph_collectives::CommError>(())
    /// ```
    pub fn exact_sum_rows(
        &mut self,
        rows: SparseRows<'_>,
        out: &mut [f32],
        timeout: Timeout,
    ) -> Result<(), CommError> {
        let partials = Partials::of_rows(rows, out.len());
        self.exact_sum_of(partials, out, timeout)
    }

    fn exact_sum_of(
        &mut self,
        partials: Result<Partials<'_>, String>,
        out: &mut [f32],
        timeout: Timeout,
    ) -> Result<(), CommError> {
        let partials = match partials {
            Ok(partials) => partials,
            Err(what) => {
                let call = self.exact_call();
                self.begin(call)?;
                return self.end(Err(argument(&call, what)));
            }
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.exact_passes(&mut scratch, &partials, out, timeout);
        self.scratch = scratch;
        result
    }

    /// Both passes over the partials, with an all-reduce after each.
    fn exact_passes(
        &mut self,
        scratch: &mut Scratch,
        partials: &Partials<'_>,
        out: &mut [f32],
        timeout: Timeout,
    ) -> Result<(), CommError> {
        scratch.find_exponents(partials, out.len());
        let op = Op::AllReduce {
            buf: (&mut scratch.exponents).into(),
            reduction: Reduction::Max,
        };
        self.run_exact(op, timeout)?;
        scratch.add(partials);
        let op = Op::AllReduce {
            buf: (&mut scratch.sums).into(),
            reduction: Reduction::Sum,
        };
        self.run_exact(op, timeout)?;
        scratch.round_into(out).map_err(|what| {
            let kind = argument(&self.exact_call(), what);
            self.fail(kind)
        })
    }

    fn exact_call(&self) -> Call {
        Call::new(self.rank(), self.next_seq, OpKind::ExactSum)
    }

    fn run_exact(&mut self, op: Op<'_>, timeout: Timeout) -> Result<(), CommError> {
        let call = Call {
            op: OpKind::ExactSum,
            ..op.call(self.rank(), self.next_seq)
        };
        self.run_as(op, call, timeout)
    }

    /// Ends the world of this communicator: peers that wait in an operation, or begin one, get
    /// [`CommErrorKind::Aborted`] with `why`.
    ///
    /// A rank that cannot go on, for a reason of its own, calls this so that the others need not
    /// wait for the timeout.
    pub fn abort(&mut self, why: &str) {
        self.abort_by(RankEnd::new(Cause::Aborted, Some(self.rank()), why));
    }

    /// [`Comm::abort`] that also announces the failure's class: the peers' errors have it, so that all ranks end with
    /// one exit code.
    pub fn abort_as(&mut self, class: Class, why: &str) {
        self.abort_by(RankEnd {
            exit_code: Some(class.exit_code()),
            ..RankEnd::new(Cause::Aborted, Some(self.rank()), why)
        });
    }

    fn abort_by(&mut self, end: RankEnd) {
        self.backend.abort(&end);
        self.failed.get_or_insert(end);
    }

    /// The failure after which no further operation can complete, if one is known by now; no other
    /// rank is waited for. (A rank that panicked may not have said why yet.)
    ///
    /// It is an error of this rank, or a rank that was lost, panicked or gave up: as
    /// [`CommErrorKind::Aborted`], with the rank and what happened there. A rank that has merely
    /// dropped its communicator is none, since it may have done its part of everything. Between
    /// processes over MPI only what this rank's own operations met is known.
    pub fn failure(&self) -> Option<CommError> {
        match &self.failed {
            Some(end) => Some(CommError::new(end.failure(), self.recorder.entries())),
            None => self.watch().failure(),
        }
    }

    /// A look at this communicator's world for who waits for something else meanwhile, perhaps on
    /// another thread: see [`Watch`].
    pub fn watch(&self) -> Watch {
        Watch::new(self.backend.watch())
    }

    /// Forces the algorithm of all-reduces and broadcasts; `None` restores the choice by size. For
    /// tests and benches: results have the same bits either way.
    #[doc(hidden)]
    pub fn use_algorithm(&mut self, algorithm: Option<Algorithm>) {
        self.backend.use_algorithm(algorithm);
    }

    /// True where all ranks are threads of this process, so that they can hand each other objects:
    /// see [`Comm::exchange`].
    pub fn shares_memory(&self) -> bool {
        self.backend.shares_memory()
    }

    /// Hands one object to every rank of this process, and returns the objects of all ranks, in
    /// rank order.
    ///
    /// This is how ranks on one device reach each other's buffers without a copy. All ranks must
    /// name the same type.
    ///
    /// # Errors
    /// As [`Comm::run`]; [`CommErrorKind::Argument`] where ranks do not share memory or name
    /// different types.
    /// # Complexity
    /// Two meetings; nothing is copied.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use shardgraph_collectives::{CommError, Timeout, threads};
    ///
    /// let names = threads::run(2, |mut comm| {
    ///     let mine = Arc::new(format!("rank {}", comm.rank()));
    ///     let all = comm.exchange(mine, Timeout::default())?;
    ///     Ok::<_, CommError>(all[1].to_string())
    /// });
    /// for name in names {
    ///     assert_eq!(name??, "rank 1");
    /// }
    /// # Ok::<(), CommError>(())
    /// ```
    pub fn exchange<T: Any + Send + Sync>(
        &mut self,
        item: Arc<T>,
        timeout: Timeout,
    ) -> Result<Vec<Arc<T>>, CommError> {
        let call = Call::new(self.rank(), self.next_seq, OpKind::Exchange);
        self.begin(call)?;
        if !self.shares_memory() {
            let what = "its ranks do not share memory: send bytes instead".to_string();
            return self.end(Err(argument(&call, what))).map(|()| Vec::new());
        }
        let items = match self.backend.exchange(item, &call, timeout) {
            Ok(items) => items,
            Err(kind) => return Err(self.fail(kind)),
        };
        let typed: Result<Vec<Arc<T>>, _> = items.into_iter().map(Arc::downcast).collect();
        let outcome = typed.map_err(|_| {
            let what = "ranks exchanged objects of different types".to_string();
            self.fail(argument(&call, what))
        })?;
        self.recorder.finish(Outcome::Done);
        Ok(outcome)
    }

    /// The last [`FLIGHT_RECORD_LEN`](crate::FLIGHT_RECORD_LEN) operations, oldest first.
    pub fn flight_record(&self) -> Vec<Recorded> {
        self.recorder.entries().copied().collect()
    }

    fn begin(&mut self, call: Call) -> Result<(), CommError> {
        if let Some(end) = &self.failed {
            return Err(CommError::new(end.failure(), self.recorder.entries()));
        }
        self.recorder.start(call);
        self.next_seq += 1;
        Ok(())
    }

    fn end(&mut self, result: Result<(), CommErrorKind>) -> Result<(), CommError> {
        match result {
            Ok(()) => {
                self.recorder.finish(Outcome::Done);
                Ok(())
            }
            Err(kind) => Err(self.fail(kind)),
        }
    }

    /// Poisons this communicator, and tells the peers of what began here. What a peer told us is
    /// known to them.
    fn fail(&mut self, kind: CommErrorKind) -> CommError {
        self.recorder.finish(Outcome::Failed);
        self.failed = Some(match &kind {
            CommErrorKind::PeerLost { rank, .. } => {
                RankEnd::new(Cause::Aborted, *rank, kind.to_string())
            }
            CommErrorKind::Aborted { by, class, why } => RankEnd {
                exit_code: class.map(Class::exit_code),
                ..RankEnd::new(Cause::Aborted, *by, why)
            },
            kind => {
                let end = RankEnd::new(Cause::Aborted, Some(self.rank()), kind.to_string());
                self.backend.abort(&end);
                end
            }
        });
        CommError::new(kind, self.recorder.entries())
    }
}

fn argument(call: &Call, what: String) -> CommErrorKind {
    CommErrorKind::Argument {
        op: call.op,
        seq: call.seq,
        what,
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Comm")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .field("next_seq", &self.next_seq)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
