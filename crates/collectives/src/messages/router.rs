//! Messages between threads of one process: a sender puts them into the receiver's inbox.

use super::event::{Limits, Member, Message, Refusal, check, last_word};
use super::inbox::{Inbox, Put};
use super::{Mailbox, Transport, error};
use crate::error::{CommError, CommErrorKind};
use crate::timeout::Expiry;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Gives threads their mailboxes. Clones share one set of ranks.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    ranks: Mutex<Vec<RankState>>,
    joined: Condvar,
}

/// State of one number.
#[derive(Clone, Default)]
struct RankState {
    /// Generation of the last one of this number; 0 for none.
    generation: u64,
    inbox: Option<Arc<Inbox>>,
    /// Cause of its end.
    why: String,
}

impl Router {
    /// A router for ranks 0 to `size - 1`, none of which has joined yet.
    pub fn new(size: u32, limits: Limits) -> Router {
        Router {
            shared: Arc::new(Shared {
                limits,
                ranks: Mutex::new(vec![RankState::default(); size as usize]),
                joined: Condvar::new(),
            }),
        }
    }

    /// The mailbox of one rank. One that is there under this number loses its state.
    ///
    /// # Errors
    /// [`CommErrorKind::Launch`] where there is no such number, or the limits cannot be.
    pub fn join(&self, rank: u32) -> Result<Mailbox, CommError> {
        let limits = self.shared.limits;
        check(&limits).map_err(error)?;
        let mut ranks = self.shared.lock();
        let size = ranks.len() as u32;
        if rank >= size {
            let what = format!("there is no rank {rank} among {size}: they are numbered from 0");
            return Err(error(CommErrorKind::Launch { what }));
        }
        let generation = ranks[rank as usize].generation + 1;
        let inbox = Arc::new(Inbox::new(size, limits.queue_bytes));
        let own = Member { rank, generation };
        inbox.open(own);
        enter(&mut ranks, own, &inbox);
        drop(ranks);
        self.shared.joined.notify_all();
        let shared = Arc::clone(&self.shared);
        let endpoint = LocalEndpoint { shared, own };
        Ok(Mailbox {
            rank,
            size,
            limits,
            inbox,
            n_sent: AtomicU64::new(0),
            transport: Transport::Local(endpoint),
        })
    }
}

/// Makes `own` known to the others, and them to it. An older one of its number loses its place.
fn enter(ranks: &mut [RankState], own: Member, inbox: &Arc<Inbox>) {
    for (other, state) in (0u32..).zip(ranks.iter()) {
        if let Some(theirs) = state.inbox.as_ref().filter(|_| other != own.rank) {
            inbox.joined(state.member(other));
            theirs.joined(own);
        }
    }
    let state = RankState {
        generation: own.generation,
        inbox: Some(Arc::clone(inbox)),
        why: String::new(),
    };
    let older = std::mem::replace(&mut ranks[own.rank as usize], state);
    // It hears that all others are lost to it.
    if let Some(inbox) = older.inbox {
        for (other, state) in (0u32..).zip(ranks.iter()) {
            inbox.lost(state.member(other), EVICTED);
        }
    }
}

/// Cause of the loss of a rank whose number another one has taken.
const EVICTED: &str = "another one has joined under this rank's number";

impl RankState {
    fn member(&self, rank: u32) -> Member {
        Member {
            rank,
            generation: self.generation,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<RankState>> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One rank's endpoint.
pub(super) struct LocalEndpoint {
    shared: Arc<Shared>,
    own: Member,
}

impl LocalEndpoint {
    pub(super) fn send(&self, message: Message<'_>, expiry: Expiry) -> Result<(), Refusal> {
        let Message { to, tag, bytes } = message;
        let inbox = self.inbox_of(to, expiry)?;
        match inbox.put(self.own, tag, bytes.to_vec(), expiry) {
            Put::Done => Ok(()),
            Put::Full { n_unread, .. } => Err(Refusal::NoRoom(format!(
                "{n_unread} bytes wait to be received there (it is stopped, or slower than its senders)"
            ))),
            Put::Gone => Err(Refusal::Lost(self.why_lost(to))),
        }
    }

    fn inbox_of(&self, to: u32, expiry: Expiry) -> Result<Arc<Inbox>, Refusal> {
        let mut ranks = self.shared.lock();
        loop {
            let state = &ranks[to as usize];
            if let Some(inbox) = &state.inbox {
                return Ok(Arc::clone(inbox));
            }
            if state.generation > 0 {
                return Err(Refusal::Lost(state.why.clone()));
            }
            let left = expiry.left();
            let left = left.ok_or_else(|| Refusal::NoRoom("it has not joined".to_string()))?;
            let waited = self.shared.joined.wait_timeout(ranks, left);
            ranks = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn why_lost(&self, to: u32) -> String {
        let ranks = self.shared.lock();
        if ranks[self.own.rank as usize].generation != self.own.generation {
            return EVICTED.to_string();
        }
        match &ranks[to as usize].why {
            why if why.is_empty() => "it has ended".to_string(),
            why => why.clone(),
        }
    }
}

impl Drop for LocalEndpoint {
    fn drop(&mut self) {
        let mut ranks = self.shared.lock();
        let state = &mut ranks[self.own.rank as usize];
        if state.generation != self.own.generation {
            return;
        }
        state.why = last_word().to_string();
        if let Some(inbox) = state.inbox.take() {
            inbox.close();
        }
        for other in ranks.iter().filter_map(|state| state.inbox.as_ref()) {
            other.lost(self.own, last_word());
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_there = self
            .shared
            .lock()
            .iter()
            .filter(|state| state.inbox.is_some())
            .count();
        f.debug_struct("Router")
            .field("n_there", &n_there)
            .finish_non_exhaustive()
    }
}
