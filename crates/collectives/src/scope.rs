//! Overlap of computing and communication: operations that are started and waited for later.
//!
//! One worker thread has the communicator for as long as the scope lives and runs what was started, in order. Buffers are borrowed for longer
//! than the scope, and the scope ends only after the worker: so a handle may be dropped or forgotten, and no buffer can go away too early.

use crate::comm::Comm;
use crate::deadline::Deadline;
use crate::error::{CommError, CommErrorKind};
use crate::op::{Op, SliceMut};
use crate::threads::panicked;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

impl Comm {
    /// Runs `f`, which may start operations and compute while they run; returns when all of them have ended.
    ///
    /// Every rank starts the same operations in the same order, as it would call them. Afterwards the communicator goes on where the last
    /// operation left it. A world of one runs an operation when it is started, and so does every rank whose system gives no thread.
    ///
    /// # Errors
    /// What `f` returns; else the first error of an operation started in it, whether or not somebody waited for that one. After an error
    /// later operations get [`CommErrorKind::Aborted`].
    ///
    /// # Panics
    /// If `f` panics. What was started and has not begun is left out, and the other ranks get [`CommErrorKind::Aborted`] with the
    /// panic's message, once the operation that is running has ended: by its deadline at the latest.
    ///
    /// # Determinism
    /// The bits of [`Comm::run`] and [`Comm::exact_sum`].
    ///
    /// # Complexity
    /// A thread is started and ended for each scope, and two threads are woken for each operation: a scope pays where computing
    /// beside it takes longer than that, tens of microseconds.
    ///
    /// ```
    /// use shardgraph_collectives::{CommError, Deadline, Op, Reduction, SliceMut, threads};
    ///
    /// let sums = threads::run(2, |mut comm| {
    ///     let mut gradient = vec![comm.rank() as f32; 1000];
    ///     comm.scope(|scope| {
    ///         let op = Op::AllReduce { buf: (&mut gradient).into(), reduction: Reduction::Sum };
    ///         let pending = scope.start(op, Deadline::default());
    ///         let computed: u64 = (0..1000).sum(); // while the ranks exchange
    ///         let Op::AllReduce { buf: SliceMut::F32(sum), .. } = pending.wait()? else { unreachable!() };
    ///         Ok::<_, CommError>(sum[999] as u64 + computed)
    ///     })
    /// });
    /// for sum in sums {
    ///     assert_eq!(sum??, 1 + 499_500);
    /// }
    /// # Ok::<(), CommError>(())
    /// ```
    pub fn scope<'env, R, E: From<CommError>>(
        &mut self,
        f: impl FnOnce(&Scope<'_, 'env>) -> Result<R, E>,
    ) -> Result<R, E> {
        let (rank, size) = (self.rank(), self.size());
        let stop = Mutex::new(None);
        let worker = Worker {
            comm: self,
            stop: &stop,
            first_error: None,
        };
        thread::scope(|threads| {
            let (queue, handle) = match start_worker(threads, worker) {
                Ok((jobs, handle)) => (Queue::Worker(jobs), Some(handle)),
                Err(worker) => (Queue::Here(RefCell::new(worker)), None),
            };
            let scope = Scope { rank, size, queue };
            // Nothing of `f` is looked at after a panic but the payload.
            let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
            if let Err(payload) = &result {
                let why = panicked(rank, &**payload).to_string();
                *stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
            let ended = match scope.queue {
                Queue::Here(worker) => Ok(worker.into_inner().end()),
                // Without a sender the worker comes to its end.
                Queue::Worker(jobs) => {
                    drop(jobs);
                    handle.map_or(Ok(None), |handle| handle.join())
                }
            };
            match (result, ended) {
                (Err(payload), _) | (_, Err(payload)) => resume_unwind(payload),
                (Ok(Ok(_)), Ok(Some(error))) => Err(error.into()),
                (Ok(result), Ok(_)) => result,
            }
        })
    }
}

/// Where operations are started, inside [`Comm::scope`].
pub struct Scope<'comm, 'env> {
    rank: u32,
    size: u32,
    queue: Queue<'comm, 'env>,
}

/// An operation that was started.
///
/// To drop or forget it changes nothing: the operation runs, and [`Comm::scope`] reports its error.
#[must_use = "its buffers come back from `wait`, and its error"]
pub struct Pending<B> {
    rank: u32,
    result: Receiver<Result<B, CommError>>,
    /// What `is_done` has taken out.
    early: RefCell<Option<Result<B, CommError>>>,
}

/// A started operation, with its buffers.
type Job<'env> = Box<dyn FnOnce(&mut Comm) -> Option<CommError> + Send + 'env>;

enum Queue<'comm, 'env> {
    Worker(Sender<Job<'env>>),
    /// Operations run when they are started.
    Here(RefCell<Worker<'comm>>),
}

struct Worker<'comm> {
    comm: &'comm mut Comm,
    /// Why the closure needs nothing any more.
    stop: &'comm Mutex<Option<String>>,
    first_error: Option<CommError>,
}

type Started<'scope, 'env> = (
    Sender<Job<'env>>,
    thread::ScopedJoinHandle<'scope, Option<CommError>>,
);

/// Gives the worker a thread of its own, or back where it needs or gets none.
fn start_worker<'scope, 'comm: 'scope, 'env: 'scope>(
    threads: &'scope thread::Scope<'scope, '_>,
    worker: Worker<'comm>,
) -> Result<Started<'scope, 'env>, Worker<'comm>> {
    if worker.comm.size() == 1 {
        return Err(worker);
    }
    // The worker goes into a channel first, as a thread that could not be started would drop it with its closure.
    let (hand_over, mine) = mpsc::sync_channel(1);
    let (jobs, queue) = mpsc::channel();
    let name = format!("rank {} beside", worker.comm.rank());
    let spawned = Builder::new()
        .name(name)
        .spawn_scoped(threads, move || serve(&mine, &queue));
    match (spawned, hand_over.send(worker)) {
        (Ok(handle), Ok(())) => Ok((jobs, handle)),
        (_, Err(mpsc::SendError(worker))) => Err(worker),
        (Err(_), Ok(())) => unreachable!("the closure that has the receiver was dropped"),
    }
}

fn serve<'env>(mine: &Receiver<Worker<'_>>, queue: &Receiver<Job<'env>>) -> Option<CommError> {
    let mut worker = mine.recv().ok()?;
    while let Ok(job) = queue.recv() {
        worker.run(job);
    }
    worker.end()
}

impl Worker<'_> {
    fn run(&mut self, job: Job<'_>) {
        if self.why_stopped().is_none() {
            let error = job(self.comm);
            self.first_error = self.first_error.take().or(error);
        }
    }

    fn why_stopped(&self) -> Option<String> {
        let stop = self.stop.lock();
        stop.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(self) -> Option<CommError> {
        if let Some(why) = self.why_stopped() {
            self.comm.abort(&why);
        }
        self.first_error
    }
}

impl<'env> Scope<'_, 'env> {
    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Starts an operation and returns at once; [`Pending::wait`] gives it back, with its buffers. The waits of the
    /// operation begin when those started before have ended, and so does its deadline.
    pub fn start(&self, mut op: Op<'env>, deadline: Deadline) -> Pending<Op<'env>> {
        self.submit(move |comm| comm.run(reborrow_op(&mut op), deadline).map(|()| op))
    }

    /// Starts [`Comm::exact_sum`]; [`Pending::wait`] gives `out` back.
    pub fn start_exact_sum(
        &self,
        blocks: &'env [f32],
        out: &'env mut [f32],
        deadline: Deadline,
    ) -> Pending<&'env mut [f32]> {
        self.submit(move |comm| comm.exact_sum(blocks, out, deadline).map(|()| out))
    }

    fn submit<B: Send + 'env>(
        &self,
        work: impl FnOnce(&mut Comm) -> Result<B, CommError> + Send + 'env,
    ) -> Pending<B> {
        let (sender, result) = mpsc::sync_channel(1);
        let job: Job<'env> = Box::new(move |comm| deliver(work(comm), &sender));
        match &self.queue {
            // The worker is there for as long as this scope has a sender.
            Queue::Worker(jobs) => drop(jobs.send(job)),
            Queue::Here(worker) => worker.borrow_mut().run(job),
        }
        Pending {
            rank: self.rank,
            result,
            early: RefCell::new(None),
        }
    }
}

/// Hands a result to whoever waits for it, and the error to the scope as well.
fn deliver<B>(
    result: Result<B, CommError>,
    sender: &SyncSender<Result<B, CommError>>,
) -> Option<CommError> {
    let error = result.as_ref().err().cloned();
    // Nobody listens where the handle was dropped.
    let _ = sender.send(result);
    error
}

impl<B> Pending<B> {
    /// Waits for the end of the operation and gives its buffers back.
    ///
    /// # Errors
    /// As [`Comm::run`].
    pub fn wait(self) -> Result<B, CommError> {
        if let Some(result) = self.early.into_inner() {
            return result;
        }
        // The wait ends with the operation, which has its deadline, or with the worker.
        let result = self.result.recv();
        result.unwrap_or_else(|_| Err(CommError::new(left_out(self.rank), [].iter())))
    }

    /// Whether the operation has ended, well or not; then [`Pending::wait`] returns at once.
    pub fn is_done(&self) -> bool {
        let mut early = self.early.borrow_mut();
        if early.is_none() {
            *early = match self.result.try_recv() {
                Ok(result) => Some(result),
                Err(mpsc::TryRecvError::Empty) => None,
                Err(mpsc::TryRecvError::Disconnected) => {
                    Some(Err(CommError::new(left_out(self.rank), [].iter())))
                }
            };
        }
        early.is_some()
    }
}

fn left_out(rank: u32) -> CommErrorKind {
    CommErrorKind::Aborted {
        by: Some(rank),
        why: "the scope ended by a panic before this operation began".to_string(),
    }
}

/// Builds an operation of the fields of another one, each lent in its way.
macro_rules! lent {
    ($op:expr, $($kind:ident { $($field:ident: $lend:ident),* })*) => {
        match $op {
            $(Op::$kind { $($field),* } => Op::$kind { $($field: $lend($field)),* },)*
        }
    };
}

/// The same operation on the same buffers, for a shorter time.
fn reborrow_op<'a>(op: &'a mut Op<'_>) -> Op<'a> {
    lent!(op,
        AllReduce { buf: reborrow, reduction: copied }
        AllGather { send: copied, recv: reborrow }
        AllGatherV { send: copied, recv: reborrow, counts: copied }
        ReduceScatter { send: copied, recv: reborrow, reduction: copied }
        ReduceScatterV { send: copied, recv: reborrow, counts: copied, reduction: copied }
        Broadcast { buf: reborrow, root: copied }
        AllToAllV { send: copied, send_counts: copied, recv: reborrow, recv_counts: copied }
        Barrier {}
    )
}

fn copied<T: Copy>(value: &mut T) -> T {
    *value
}

fn reborrow<'a>(slice: &'a mut SliceMut<'_>) -> SliceMut<'a> {
    match slice {
        SliceMut::F32(data) => SliceMut::F32(data),
        SliceMut::U32(data) => SliceMut::U32(data),
        SliceMut::U64(data) => SliceMut::U64(data),
        SliceMut::I64(data) => SliceMut::I64(data),
        SliceMut::U8(data) => SliceMut::U8(data),
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Scope");
        shown.field("rank", &self.rank).field("size", &self.size);
        shown.finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pending");
        shown.field("is_done", &self.is_done()).finish()
    }
}
