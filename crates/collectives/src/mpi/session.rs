//! One process's part in MPI: the library, the thread that makes its waiting calls, and the channel
//! on which ranks tell of failures.
//!
//! Everything that touches MPI happens under one lock and returns at once, but for the calls that
//! start MPI and end it, which MPI has in a waiting form only. These run on a thread of their own,
//! so that they have a timeout like every other wait.

use super::ffi::{Api, Group, Pending, refusal, stay_at_exit};
use super::message::{Body, MESSAGE_BYTES, Message};
use crate::error::CommErrorKind;
use crate::rank_end::{Cause, Ends, RankEnd};
use crate::timeout::{Expiry, Timeout};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// How long a rank waits after a failure for the others to end MPI in order with it.
const GRACE: Duration = Duration::from_secs(1);

/// How long a process stays after a failure before it ends, because launchers kill the others when
/// one ends without having ended MPI, or with a code other than zero: they shall have reported
/// their own errors.
const STAY: Duration = Duration::from_millis(500);

/// A call that may wait for other ranks.
type Job = Box<dyn FnOnce(&mut Hub) + Send>;

/// This process's MPI, from its start to its end.
pub(super) struct Session {
    hub: Arc<Mutex<Hub>>,
    jobs: Sender<Job>,
    /// The timeout of the last operation.
    timeout: Mutex<Timeout>,
}

/// What is behind the lock.
pub(super) struct Hub {
    pub(super) api: Api,
    control: Group,
    /// The receive that waits for the next message.
    incoming: Option<Pending<u8>>,
    outgoing: Vec<Pending<u8>>,
    heard: Heard,
    /// The last round that this rank has come to.
    pub(super) entered: Option<u64>,
    /// The last round of all, once this rank has done with the communicator.
    closing: Vec<Pending<u8>>,
    /// This rank has failed.
    has_failed: bool,
    /// An operation was given up while MPI was at it: MPI cannot be ended in order.
    pub(super) is_spoilt: bool,
}

/// What was heard of the other ranks.
#[derive(Default)]
struct Heard {
    n_ended: u32,
    ends: Ends,
    /// Answers to the question which ranks have come to a round, and ranks that gave up in one:
    /// round and rank.
    here: Vec<(u64, u32)>,
}

/// Between two looks at what MPI has done: first only other threads are let in, then the rank
/// sleeps.
///
/// Ranks beyond the number of cores make progress only if those who wait get out of the way. On 2
/// cores a barrier took 2.8 us with 2 ranks and 1.0 ms with 6 at 200 looks before the first sleep,
/// 132 us and 0.6 ms at 20 looks, 2.4 us and 1.2 ms at 2000.
#[derive(Default)]
pub(super) struct Pause {
    n: u32,
}

impl Pause {
    const N_YIELDS: u32 = 200;

    pub(super) fn wait(&mut self) {
        self.n += 1;
        if self.n <= Pause::N_YIELDS {
            return thread::yield_now();
        }
        let n = (self.n - Pause::N_YIELDS).min(50);
        thread::sleep(Duration::from_micros(u64::from(20 * n)));
    }
}

/// Opens the library, starts MPI and returns this process's session with the communicator of all
/// ranks.
pub(super) fn start(
    library: PathBuf,
    timeout: Timeout,
) -> Result<(Arc<Session>, Group), CommErrorKind> {
    let (started, result) = mpsc::channel();
    let (jobs, to_do) = mpsc::channel::<Job>();
    let spawned = thread::Builder::new()
        .name("mpi".to_string())
        .spawn(move || serve(&library, &started, &to_do));
    spawned.map_err(|error| refusal(format!("no thread for MPI: {error}")))?;
    let Ok(outcome) = result.recv_timeout(timeout.duration()) else {
        return Err(refusal(format!(
            "MPI did not start within {:?}: a rank did not come, or the launcher is not this MPI's own",
            timeout.duration()
        )));
    };
    let (hub, world) = outcome?;
    let session = Session {
        hub,
        jobs,
        timeout: Mutex::new(timeout),
    };
    Ok((Arc::new(session), world))
}

type Started = Result<(Arc<Mutex<Hub>>, Group), CommErrorKind>;

/// The body of the thread for waiting calls: it starts MPI, and ends it as well, as MPI wants it.
fn serve(library: &std::path::Path, started: &Sender<Started>, to_do: &Receiver<Job>) {
    let made = Hub::start(library);
    let hub = match made {
        Ok((hub, world)) => {
            let hub = Arc::new(Mutex::new(hub));
            // No thread listens any more after the timeout; then nothing more will come either.
            let _ = started.send(Ok((Arc::clone(&hub), world)));
            hub
        }
        Err(kind) => {
            let _ = started.send(Err(kind));
            return;
        }
    };
    for job in to_do {
        job(&mut lock(&hub));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// The hub, unless a waiting call has it.
    pub(super) fn try_hub(&self) -> Option<MutexGuard<'_, Hub>> {
        match self.hub.try_lock() {
            Ok(hub) => Some(hub),
            Err(TryLockError::Poisoned(hub)) => Some(hub.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The hub, once no other thread has it.
    pub(super) fn hub_by(&self, expiry: Expiry) -> Option<MutexGuard<'_, Hub>> {
        let mut pause = Pause::default();
        loop {
            if let Some(hub) = self.try_hub() {
                return Some(hub);
            }
            expiry.left()?;
            pause.wait();
        }
    }

    /// Makes a call that may wait for other ranks. `None`: it did not return in time, and has the
    /// hub still.
    fn wait_for<R: Send + 'static>(
        &self,
        timeout: Timeout,
        call: impl FnOnce(&mut Hub) -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, result) = mpsc::channel();
        let job = move |hub: &mut Hub| {
            let _ = sender.send(call(hub));
        };
        self.jobs.send(Box::new(job)).ok()?;
        result.recv_timeout(timeout.duration()).ok()
    }

    pub(super) fn set_timeout(&self, timeout: Timeout) {
        *lock(&self.timeout) = timeout;
    }

    /// Waits for the last round and ends MPI. Gives up where that cannot be,
    /// or a rank does not come.
    fn close(&self, timeout: Timeout) -> Option<()> {
        let mut expiry = Expiry::of(timeout);
        let mut has_failed = false;
        let mut pause = Pause::default();
        loop {
            if let Some(mut hub) = self.try_hub() {
                hub.progress().ok()?;
                if hub.is_over() {
                    break;
                }
                if hub.has_failed() && !has_failed {
                    has_failed = true;
                    expiry = Expiry::of(Timeout::after(GRACE));
                }
            }
            expiry.left()?;
            pause.wait();
        }
        self.wait_for(timeout, |hub| hub.stop().ok()).flatten()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let timeout = *lock(&self.timeout);
        let has_failed = self
            .hub_by(Expiry::of(Timeout::after(GRACE)))
            .is_none_or(|hub| hub.has_failed());
        if self.close(timeout).is_none() || has_failed {
            stay_at_exit(STAY);
        }
    }
}

impl Hub {
    fn start(library: &std::path::Path) -> Result<(Hub, Group), CommErrorKind> {
        let mut api = Api::open(library)?;
        api.start()?;
        let (world, control) = (api.world()?, api.world()?);
        let incoming = api.receive(control, vec![0; MESSAGE_BYTES])?;
        let hub = Hub {
            api,
            control,
            incoming: Some(incoming),
            outgoing: Vec::new(),
            closing: Vec::new(),
            has_failed: false,
            heard: Heard::default(),
            entered: None,
            is_spoilt: false,
        };
        Ok((hub, world))
    }

    /// Sends a message to every other rank.
    pub(super) fn tell_all(&mut self, message: &Message) -> Result<(), CommErrorKind> {
        self.has_failed |= matches!(&message.body, Body::Ended(end) if end.cause != Cause::Left);
        let own = self.control.rank;
        let mut others = (0..self.control.size).filter(|&to| to != own);
        others.try_for_each(|to| self.send(to, message))
    }

    fn send(&mut self, to: u32, message: &Message) -> Result<(), CommErrorKind> {
        let pending = self.api.send(self.control, to, message.encode())?;
        self.outgoing.push(pending);
        Ok(())
    }

    /// Takes in the messages that have come, and lets MPI work on those that go out.
    pub(super) fn progress(&mut self) -> Result<(), CommErrorKind> {
        while let Some(pending) = &mut self.incoming
            && self.api.test(pending)?
        {
            let bytes = self.incoming.take().and_then(Pending::finish);
            let bytes = bytes.map(|(_, bytes)| bytes).unwrap_or_default();
            let message = Message::decode(&bytes);
            self.incoming = Some(self.api.receive(self.control, bytes)?);
            if let Some(message) = message {
                self.take_in(message)?;
            }
        }
        self.outgoing = unfinished(&mut self.api, std::mem::take(&mut self.outgoing))?;
        self.closing = unfinished(&mut self.api, std::mem::take(&mut self.closing))?;
        Ok(())
    }

    fn take_in(&mut self, message: Message) -> Result<(), CommErrorKind> {
        let Message { round, from, body } = message;
        match body {
            Body::Question if self.entered >= Some(round) => {
                let answer = Message {
                    round,
                    from: self.control.rank,
                    body: Body::Here,
                };
                self.send(from, &answer)?;
            }
            Body::Question => {}
            Body::Here => self.heard.here.push((round, from)),
            Body::Ended(end) => {
                if end.cause == Cause::Aborted {
                    self.heard.here.push((round, from));
                }
                self.heard.n_ended += 1;
                self.heard.ends.push(RankEnd {
                    seq: Some(round),
                    ..end
                });
            }
        }
        Ok(())
    }

    /// What keeps a round from being completed: the end of a rank before it. Merely leaving gives
    /// way to a panic or an abort.
    pub(super) fn end_of(&self, round: u64) -> Option<&RankEnd> {
        let ends = self.heard.ends.iter();
        let mut ends = ends.filter(|end| end.seq.is_none_or(|at| at <= round));
        let failure = ends.clone().find(|end| end.cause != Cause::Left);
        failure.or_else(|| ends.next())
    }

    /// The ranks that have come to this round: they answered, or they gave up in it.
    pub(super) fn present(&self, round: u64) -> Vec<u32> {
        let of_round = self.heard.here.iter().filter(|(at, _)| *at == round);
        of_round.map(|(_, rank)| *rank).collect()
    }

    /// Keeps the last round until all ranks have come to it.
    pub(super) fn close(&mut self, last_round: Pending<u8>) {
        self.closing.push(last_round);
    }

    fn has_failed(&self) -> bool {
        self.has_failed || self.is_spoilt || self.heard.ends.failure().is_some()
    }

    /// Whether nothing is under way any more, neither here nor from another rank.
    fn is_over(&self) -> bool {
        let is_quiet = self.outgoing.is_empty() && self.closing.is_empty() && !self.is_spoilt;
        is_quiet && self.heard.n_ended == self.control.size - 1
    }

    /// Ends MPI; all ranks are doing so.
    fn stop(&mut self) -> Result<(), CommErrorKind> {
        if let Some(mut incoming) = self.incoming.take() {
            self.api.cancel(&mut incoming)?;
            let expiry = Expiry::of(Timeout::after(GRACE));
            let mut pause = Pause::default();
            while !self.api.test(&mut incoming)? {
                if expiry.left().is_none() {
                    self.is_spoilt = true;
                    return Err(refusal("MPI does not take back a receive".to_string()));
                }
                pause.wait();
            }
        }
        self.api.stop()
    }
}

/// Lets MPI work on each, and keeps those that are not over.
fn unfinished(
    api: &mut Api,
    operations: Vec<Pending<u8>>,
) -> Result<Vec<Pending<u8>>, CommErrorKind> {
    let mut kept = Vec::new();
    for mut pending in operations {
        if api.test(&mut pending)? {
            pending.finish();
        } else {
            kept.push(pending);
        }
    }
    Ok(kept)
}
