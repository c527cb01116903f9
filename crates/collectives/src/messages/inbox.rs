//! Messages that have come for one rank and were not received yet: bounded for each sender, and
//! aware of who is there.

use super::event::{Event, Member};
use crate::timeout::Expiry;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that a message takes up besides its own, so that empty messages are bounded too.
const OVERHEAD_BYTES: usize = 64;

/// Queue where all senders of a rank deliver.
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
    room: Condvar,
    limit_bytes: usize,
}

struct State {
    events: VecDeque<Event>,
    senders: Vec<Sender>,
    is_closed: bool,
}

#[derive(Clone, Default)]
struct Sender {
    /// Generation of the one that is there; 0 for none.
    generation: u64,
    unread_bytes: usize,
}

/// Outcome of putting a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// Nothing of this sender was received in time, and so many bytes wait. The message comes back.
    Full {
        n_unread: usize,
        bytes: Vec<u8>,
    },
    /// The receiver has closed, or counts the sender as lost.
    Gone,
}

impl Inbox {
    pub(super) fn new(size: u32, limit_bytes: usize) -> Inbox {
        Inbox {
            state: Mutex::new(State {
                events: VecDeque::new(),
                senders: vec![Sender::default(); size as usize],
                is_closed: false,
            }),
            arrived: Condvar::new(),
            room: Condvar::new(),
            limit_bytes,
        }
    }

    /// The owner's own number: it can send to itself and is no news.
    pub(super) fn open(&self, own: Member) {
        self.lock().senders[own.rank as usize].generation = own.generation;
    }

    /// A rank has joined; an older one of its number is lost.
    pub(super) fn joined(&self, member: Member) {
        let Member { rank, generation } = member;
        let mut state = self.lock();
        let older = state.senders[rank as usize].generation;
        let older = Member {
            rank,
            generation: older,
        };
        state.lose(older, "another one has joined under its number");
        state.senders[rank as usize].generation = generation;
        state.events.push_back(Event::Joined { rank, generation });
        drop(state);
        self.arrived.notify_all();
        self.room.notify_all();
    }

    /// A rank has ended, unless that is known already.
    pub(super) fn lost(&self, member: Member, why: &str) {
        self.lock().lose(member, why);
        self.arrived.notify_all();
        self.room.notify_all();
    }

    /// A rank that will not join as it is.
    pub(super) fn rejected(&self, rank: u32, why: String) {
        self.lock().events.push_back(Event::Rejected { rank, why });
        self.arrived.notify_all();
    }

    /// Takes in a message of one sender, in the order of its calls; waits for room. A wait ends too
    /// when the sender is lost.
    pub(super) fn put(&self, from: Member, tag: u32, bytes: Vec<u8>, expiry: Expiry) -> Put {
        let n_bytes = bytes.len() + OVERHEAD_BYTES;
        let mut state = self.lock();
        loop {
            let is_closed = state.is_closed;
            let sender = &mut state.senders[from.rank as usize];
            if is_closed || sender.generation != from.generation {
                return Put::Gone;
            }
            let unread = sender.unread_bytes;
            if unread == 0 || unread + n_bytes <= self.limit_bytes {
                sender.unread_bytes += n_bytes;
                break;
            }
            let Some(left) = expiry.left() else {
                let n_unread = unread;
                return Put::Full { n_unread, bytes };
            };
            let waited = self.room.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let from = from.rank;
        state.events.push_back(Event::Message { from, tag, bytes });
        drop(state);
        self.arrived.notify_all();
        Put::Done
    }

    /// The oldest event, once there is one.
    pub(super) fn take(&self, expiry: Expiry) -> Option<Event> {
        let mut state = self.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                if let Event::Message { from, bytes, .. } = &event {
                    let sender = &mut state.senders[*from as usize];
                    sender.unread_bytes -= bytes.len() + OVERHEAD_BYTES;
                    drop(state);
                    self.room.notify_all();
                }
                return Some(event);
            }
            let left = expiry.left()?;
            let waited = self.arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing will be received any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.events = VecDeque::new();
        drop(state);
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lose(&mut self, member: Member, why: &str) {
        let Member { rank, generation } = member;
        let sender = &mut self.senders[rank as usize];
        if generation == 0 || sender.generation != generation {
            return;
        }
        sender.generation = 0;
        let why = why.to_string();
        self.events.push_back(Event::Lost {
            rank,
            generation,
            why,
        });
    }
}
