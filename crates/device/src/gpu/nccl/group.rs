//! A group's life: joining, giving operations to the stream, waiting for them, and the end in order or by abort.
//!
//! Communicators are non-blocking: each call of NCCL may answer "in progress" and is asked after until a deadline. An
//! operation is given to the device's stream and nobody waits for it there; whoever waits for the stream's results
//! ([`Device::download`], [`Device::synchronize`]) asks NCCL for asynchronous errors meanwhile, asks the group's [`Probe`]
//! whether the ranks' job has ended elsewhere, and gives up at the operation's deadline. The first failure aborts the
//! communicator; from then on every operation and every wait answers with it, so that what a broken operation left in a
//! buffer is never taken for a result.
//!
//! [`Device::download`]: crate::Device::download
//! [`Device::synchronize`]: crate::Device::synchronize

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::Member;
use super::call::Call;
use super::library::{Config, Functions, Library, RawComm, UniqueId};
use super::wait::{Probe, Stop, Wait};
use crate::gpu::{Gpu, Mark};
use crate::{Error, ErrorKind};

/// How long an abort may take before this rank goes on without it.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// How long an error of NCCL waits for the word of the rank where it began, which the probe may bring.
const WORD_WAIT: Duration = Duration::from_secs(1);

/// One rank's place in a group of ranks with a stream each, which exchange their buffers through NCCL.
///
/// Made by [`Device::join`](crate::Device::join), and part of the device that it returns. All ranks issue the same
/// operations in the same order. Dropped without [`Group::close`], it aborts.
pub struct Group {
    pub(super) library: Library,
    /// The stream of all operations; without a group of its own.
    pub(super) gpu: Gpu,
    pub(super) member: Member,
    probe: Probe,
    state: Mutex<State>,
}

struct State {
    /// Nothing after the end.
    comm: Option<Handle>,
    /// The number of the next operation.
    seq: u64,
    in_flight: VecDeque<InFlight>,
    end: End,
}

/// Whether a group has ended, and how.
enum End {
    NotYet,
    /// In order: all results are what they should be.
    Closed,
    /// What every later operation and wait answers.
    Failed(Error),
}

/// An operation that has been given to the stream.
struct InFlight {
    call: Call,
    done: Mark,
    deadline: Duration,
}

#[derive(Clone, Copy)]
struct Handle(RawComm);

// SAFETY: NCCL lets any thread use a communicator, one at a time, which the lock around it sees to.
unsafe impl Send for Handle {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { rank, size } = self.member;
        write!(f, "rank {rank} of {size}, {:?}", self.library)
    }
}

impl Group {
    /// Joins the group of this name; returns when all ranks have.
    pub(in crate::gpu) fn join(
        library: &Library,
        gpu: &Gpu,
        id: UniqueId,
        member: Member,
        deadline: Duration,
        probe: Probe,
    ) -> Result<Self, Error> {
        let Member { rank, size } = member;
        let [rank_int, size_int] = [rank, size].map(|n| c_int::try_from(n).unwrap_or(-1));
        if rank >= size || size_int < 0 {
            let why = format!("rank {rank} of {size}: ranks count from 0");
            return Err(Error::invalid("join", why));
        }
        gpu.driver.prepare_all()?;
        gpu.driver.make_current()?;
        let functions = library.functions();
        let (mut comm, mut config) = (std::ptr::null_mut(), Config::non_blocking());
        // SAFETY: the pointers are those of live variables of these types; the device is current.
        let status = unsafe {
            (functions.init_rank_config)(&raw mut comm, size_int, id, rank_int, &raw mut config)
        };
        let text = functions.check("ncclCommInitRankConfig", status, comm);
        let group = Self {
            library: library.clone(),
            gpu: gpu.clone(),
            member,
            probe,
            state: Mutex::new(State {
                comm: (!comm.is_null()).then_some(Handle(comm)),
                seq: 0,
                in_flight: VecDeque::new(),
                end: End::NotYet,
            }),
        };
        let call = Call::join(size);
        let mut state = group.state();
        text.map_err(|why| group.end_by_nccl(&mut state, &call, why))?;
        group.settle(&mut state, &call, deadline)?;
        drop(state);
        Ok(group)
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.member.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.member.size
    }

    /// Ends the group in order: waits for this rank's operations, then until all ranks have come here.
    ///
    /// # Errors
    /// [`ErrorKind::Collective`] with the first failure, or if a rank does not come before the deadline; the group is
    /// aborted then.
    pub fn close(&self, deadline: Duration) -> Result<(), Error> {
        self.finish()?;
        let mut state = self.state();
        let call = Call::close(state.seq);
        let Handle(comm) = self.open(&state)?;
        self.gpu.driver.make_current()?;
        let functions = self.library.functions();
        // SAFETY: the communicator is alive.
        let status = unsafe { (functions.finalize)(comm) };
        let finalized = functions.check("ncclCommFinalize", status, comm);
        finalized.map_err(|why| self.end_by_nccl(&mut state, &call, why))?;
        self.settle(&mut state, &call, deadline)?;
        state.comm = None;
        state.end = End::Closed;
        // SAFETY: alive until here, and not kept anywhere. Finalized, so that this frees without waiting.
        let status = unsafe { (functions.destroy)(comm) };
        functions
            .check("ncclCommDestroy", status, std::ptr::null_mut())
            .map_err(|why| broken(&call, why))
    }

    /// Waits until the operations given so far are done.
    ///
    /// # Errors
    /// [`ErrorKind::Collective`] that names the operation: NCCL's asynchronous error, the end of the ranks' job elsewhere, or the deadline.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let mut state = self.state();
        if let End::Closed = state.end {
            return Ok(());
        }
        let Handle(comm) = self.open(&state)?;
        let mut wait: Option<(u64, Wait)> = None;
        loop {
            self.forget_done(&mut state)?;
            let Some(first) = state.in_flight.front() else {
                return Ok(());
            };
            let (call, deadline) = (first.call, first.deadline);
            // SAFETY: the communicator is alive: the group has not ended.
            if let Err(why) = unsafe { self.library.functions().is_settled(comm) } {
                return Err(self.end_by_nccl(&mut state, &call, why));
            }
            // Each operation has the time of its own deadline from when it is the first to be waited for.
            let (_, wait) = match &mut wait {
                Some(wait) if wait.0 == call.seq => wait,
                wait => wait.insert((call.seq, Wait::new(deadline, &self.probe))),
            };
            let why = match wait.pause() {
                Ok(()) => continue,
                Err(Stop::Timeout) => format!(
                    "not done after {deadline:?}: a rank has not given its part, or gave another operation (raise the deadline if it is only slow)"
                ),
                Err(Stop::Elsewhere(why)) => why,
            };
            return Err(self.end(&mut state, broken(&call, why)));
        }
    }

    /// Begins an operation: its number, or why there can be none any more.
    pub(super) fn begin(&self, call: Call) -> Result<Call, Error> {
        let mut state = self.state();
        self.open(&state)?;
        let seq = state.seq;
        state.seq += 1;
        Ok(Call { seq, ..call })
    }

    /// Gives calls of NCCL to the stream, all of them or none, and waits until they are in it.
    pub(super) fn give(
        &self,
        call: &Call,
        deadline: Duration,
        calls: impl FnOnce(&Functions, RawComm, *mut c_void) -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut state = self.state();
        let Handle(comm) = self.open(&state)?;
        self.gpu.driver.make_current()?;
        let functions = self.library.functions();
        let stream = self.gpu.driver.collective_stream() as *mut c_void;
        // SAFETY: these only bracket what this thread gives in between.
        let started = unsafe { (functions.group_start)() };
        let given = functions
            .check("ncclGroupStart", started, comm)
            .and_then(|()| {
                let given = calls(functions, comm, stream);
                // SAFETY: as above; also after an error, so that the bracket is closed.
                let ended = unsafe { (functions.group_end)() };
                given.and(functions.check("ncclGroupEnd", ended, comm))
            });
        given.map_err(|why| self.end_by_nccl(&mut state, call, why))?;
        self.settle(&mut state, call, deadline)?;
        let done = self.gpu.record()?;
        let call = *call;
        state.in_flight.push_back(InFlight {
            call,
            done,
            deadline,
        });
        self.forget_done(&mut state)
    }

    /// Ends the group because an operation cannot go on here, so that the peers' part of it ends too; gives the error back.
    pub(super) fn give_up(&self, error: Error) -> Error {
        let mut state = self.state();
        match state.end {
            End::NotYet => self.end(&mut state, error),
            End::Closed | End::Failed(_) => error,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Consistent between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, state: &State) -> Result<Handle, Error> {
        match (&state.end, state.comm) {
            (End::NotYet, Some(comm)) => Ok(comm),
            (End::Failed(error), _) => Err(error.clone()),
            (End::Closed | End::NotYet, _) => Err(Error::invalid(
                "collective operation",
                "the group has been closed: join a new one",
            )),
        }
    }

    /// Waits while NCCL says "in progress".
    fn settle(
        &self,
        state: &mut MutexGuard<'_, State>,
        call: &Call,
        deadline: Duration,
    ) -> Result<(), Error> {
        let Handle(comm) = self.open(state)?;
        let mut wait = Wait::new(deadline, &self.probe);
        loop {
            // SAFETY: the communicator is alive: the group has not ended.
            match unsafe { self.library.functions().is_settled(comm) } {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(why) => return Err(self.end_by_nccl(state, call, why)),
            }
            let why = match wait.pause() {
                Ok(()) => continue,
                Err(Stop::Timeout) => format!(
                    "NCCL is still waiting for other ranks after {deadline:?} (raise the deadline if they are only slow)"
                ),
                Err(Stop::Elsewhere(why)) => why,
            };
            return Err(self.end(state, broken(call, why)));
        }
    }

    /// Drops the operations that are done.
    fn forget_done(&self, state: &mut MutexGuard<'_, State>) -> Result<(), Error> {
        while let Some(first) = state.in_flight.front() {
            if !first.done.has_happened()? {
                break;
            }
            state.in_flight.pop_front();
        }
        Ok(())
    }

    /// Ends the group because NCCL says that it has failed: often before the news of the rank where that began, which explains more.
    fn end_by_nccl(
        &self,
        state: &mut MutexGuard<'_, State>,
        call: &Call,
        mut why: String,
    ) -> Error {
        // At once, as peers may wait for this rank.
        if let Some(Err(also)) = state.comm.take().map(|comm| self.abort(comm)) {
            why = format!("{why}; {also}");
        }
        if let Some(cause) = self.probe.ask_within(WORD_WAIT) {
            why = format!("{cause} (what NCCL saw of it: {why})");
        }
        self.end(state, broken(call, why))
    }

    /// Aborts the communicator and remembers why; gives the error for the caller.
    fn end(&self, state: &mut MutexGuard<'_, State>, error: Error) -> Error {
        let error = match state.comm.take().map(|comm| self.abort(comm)) {
            Some(Err(also)) => with_more(error, &also),
            Some(Ok(())) | None => error,
        };
        state.in_flight.clear();
        state.end = End::Failed(error.clone());
        error
    }

    /// Aborts on a thread of its own, since nothing promises that it returns; what it says, if it does in time.
    fn abort(&self, comm: Handle) -> Result<(), String> {
        let (functions, gpu) = (Arc::clone(self.library.functions()), self.gpu.clone());
        let (tell, told) = mpsc::channel();
        let work = move || {
            let Handle(comm) = { comm };
            let current = gpu.driver.make_current();
            // SAFETY: alive until here: it was taken out of the state, so nobody else uses it.
            let status = unsafe { (functions.abort)(comm) };
            let aborted = functions
                .check("ncclCommAbort", status, std::ptr::null_mut())
                .and(current.map_err(|e| format!("before ncclCommAbort: {e}")));
            let _ = tell.send(aborted); // nobody listens any more after `ABORT_WAIT`
        };
        thread::Builder::new()
            .name("nccl abort".to_string())
            .spawn(work)
            .map_err(|e| format!("no thread for ncclCommAbort: {e}"))?;
        match told.recv_timeout(ABORT_WAIT) {
            Ok(aborted) => aborted,
            Err(_) => Err(format!(
                "ncclCommAbort did not return within {ABORT_WAIT:?}"
            )),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(comm) = state.comm.take() {
            // A group that nobody closed ends by a failure elsewhere, which is what gets reported.
            let _ = self.abort(comm);
        }
    }
}

/// The error of an operation.
pub(super) fn broken(call: &Call, why: impl Into<String>) -> Error {
    ErrorKind::Collective {
        op: call.to_string(),
        why: why.into(),
    }
    .into()
}

fn with_more(error: Error, also: &str) -> Error {
    match error.kind() {
        ErrorKind::Collective { op, why } => ErrorKind::Collective {
            op: op.clone(),
            why: format!("{why}; {also}"),
        }
        .into(),
        _ => error,
    }
}
