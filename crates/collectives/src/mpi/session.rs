//! One process's part in MPI: the library, the thread that makes its waiting calls, and the channel
//! on which ranks tell of failures.
//!
//! Everything that touches MPI happens under one lock and returns at once, but for four calls that
//! MPI has in a waiting form only: to start, to split, to free a communicator, to end. These run on
//! a thread of their own, so that they have a timeout like every other wait.

use super::ffi::{Api, Group, Pending, refusal, stay_at_exit};
use super::message::{Body, MESSAGE_BYTES, Message};
use crate::end::{Cause, End, Ends};
use crate::error::CommErrorKind;
use crate::timeout::{Expiry, Timeout};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// The number of the communicator of all ranks; others are derived from their parent's.
pub(super) const WORLD: u64 = 1;

/// How long a rank waits after a failure for the others to end MPI in order with it.
const GRACE: Duration = Duration::from_secs(1);

/// How long a process stays after a failure before it ends, because launchers kill the others when
/// one ends without having ended MPI, or with a code other than zero: they shall have reported
/// their own errors.
const STAY: Duration = Duration::from_millis(500);

/// A call that may wait for other ranks.
type Job = Box<dyn FnOnce(&mut Hub) + Send>;

/// Shared by the communicators of a process.
pub(super) struct Session {
    hub: Arc<Mutex<Hub>>,
    jobs: Sender<Job>,
    /// All ranks, for the messages between two of them.
    control: Group,
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
    /// What was heard of each communicator.
    comms: BTreeMap<u64, Heard>,
    /// The last round that this rank has come to.
    entered: BTreeMap<u64, u64>,
    /// The last rounds of communicators that this rank has done with.
    closing: Vec<Pending<u8>>,
    /// This rank has failed in some communicator.
    has_failed: bool,
    /// An operation was given up while MPI was at it: MPI cannot be ended in order.
    pub(super) is_spoilt: bool,
}

/// What was heard of one communicator.
#[derive(Default)]
struct Heard {
    /// How many ranks will say a last word; unknown before it exists here.
    n_peers: Option<u32>,
    n_ended: u32,
    ends: Ends,
    /// Answers to the question which ranks have come to a round, and ranks that gave up in one:
    /// round and rank of the world.
    here: Vec<(u64, u32)>,
    is_dropped: bool,
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
    let control = lock(&hub).control;
    let session = Session {
        hub,
        jobs,
        control,
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
    pub(super) fn wait_for<R: Send + 'static>(
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

    /// This process's rank among all.
    pub(super) fn own(&self) -> u32 {
        self.control.rank
    }

    /// Waits for the last rounds of all communicators and ends MPI. Gives up where that cannot be,
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
        let mut hub = Hub {
            api,
            control,
            incoming: Some(incoming),
            outgoing: Vec::new(),
            closing: Vec::new(),
            has_failed: false,
            comms: BTreeMap::new(),
            entered: BTreeMap::new(),
            is_spoilt: false,
        };
        hub.expect(WORLD, control.size);
        Ok((hub, world))
    }

    /// A communicator of `size` ranks has come into being.
    pub(super) fn expect(&mut self, comm: u64, size: u32) {
        self.comms.entry(comm).or_default().n_peers = Some(size - 1);
    }

    /// This rank has said its last word on `comm`, and its descendants are told of ends only.
    pub(super) fn forget(&mut self, comm: u64) {
        self.entered.remove(&comm);
        self.comms.entry(comm).or_default().is_dropped = true;
        self.purge(comm);
    }

    /// Nothing is kept of a communicator that all ranks have left in order.
    fn purge(&mut self, comm: u64) {
        let is_over = |heard: &Heard| {
            heard.is_dropped && heard.is_complete() && heard.ends.failure().is_none()
        };
        if comm != WORLD && self.comms.get(&comm).is_some_and(is_over) {
            self.comms.remove(&comm);
        }
    }

    /// This rank has come to a round of `comm`, and says so when asked.
    pub(super) fn enter(&mut self, comm: u64, round: u64) {
        self.entered.insert(comm, round);
    }

    /// Sends a message to each of `members` but this rank.
    pub(super) fn tell(&mut self, members: &[u32], message: &Message) -> Result<(), CommErrorKind> {
        self.has_failed |= matches!(&message.body, Body::Ended(end) if end.cause != Cause::Left);
        for &to in members.iter().filter(|&&to| to != self.control.rank) {
            let pending = self.api.send(self.control, to, message.encode())?;
            self.outgoing.push(pending);
        }
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
        let Message {
            comm, round, from, ..
        } = message;
        if let Body::Question = message.body {
            if self.entered.get(&comm) >= Some(&round) {
                let answer = Message {
                    from: self.control.rank,
                    body: Body::Here,
                    ..message
                };
                self.tell(&[from], &answer)?;
            }
            return Ok(());
        }
        let heard = self.comms.entry(comm).or_default();
        match message.body {
            Body::Ended(end) => {
                if end.cause == Cause::Aborted {
                    heard.here.push((round, from));
                }
                heard.n_ended += 1;
                heard.ends.push(End {
                    seq: Some(round),
                    ..end
                });
                self.purge(comm);
            }
            Body::Here => heard.here.push((round, from)),
            Body::Question => {}
        }
        Ok(())
    }

    /// What keeps round `round` of the communicator `lineage[0]` from being completed: the end of
    /// one of its ranks before that round, or of one of the communicators that it was made from.
    /// Merely leaving gives way to a panic or an abort, and ends no descendant.
    pub(super) fn end_of(&self, lineage: &[u64], round: u64) -> Option<&End> {
        let own = self.ends(lineage.first()?);
        let own = own.filter(|end| end.seq.is_none_or(|at| at <= round));
        let above = lineage[1..].iter().flat_map(|comm| self.ends(comm));
        let mut failures = own.clone().chain(above);
        let failure = failures.find(|end| end.cause != Cause::Left);
        failure.or_else(|| own.clone().next())
    }

    fn ends(&self, comm: &u64) -> impl Iterator<Item = &End> + Clone {
        let heard = self.comms.get(comm).into_iter();
        heard.flat_map(|heard| heard.ends.iter())
    }

    /// The ranks of the world that have come to this round: they answered, or they gave up in it.
    pub(super) fn present(&self, comm: u64, round: u64) -> Vec<u32> {
        let here = self
            .comms
            .get(&comm)
            .into_iter()
            .flat_map(|heard| &heard.here);
        let of_round = here.filter(|(at, _)| *at == round);
        of_round.map(|(_, rank)| *rank).collect()
    }

    /// Keeps the last round of a communicator until all of its ranks have come to it.
    pub(super) fn close(&mut self, last_round: Pending<u8>) {
        self.closing.push(last_round);
    }

    fn has_failed(&self) -> bool {
        self.has_failed || self.is_spoilt || self.ends(&WORLD).any(|end| end.cause != Cause::Left)
    }

    /// Whether nothing is under way any more, neither here nor from another rank.
    fn is_over(&self) -> bool {
        let is_quiet = self.outgoing.is_empty() && self.closing.is_empty() && !self.is_spoilt;
        is_quiet && self.comms.values().all(Heard::is_complete)
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

impl Heard {
    fn is_complete(&self) -> bool {
        self.n_peers == Some(self.n_ended)
    }
}
