//! Messages between threads of one process: a sender puts them into the receiver's inbox.

use super::inbox::{Inbox, Put};
use super::{Limits, Mailbox, Post, Refusal, check, error, last_word};
use crate::deadline::Expiry;
use crate::error::{CommError, CommErrorKind};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where threads get their mailboxes. Clones lead to the same place.
#[derive(Clone)]
pub struct Office {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    places: Mutex<Vec<Place>>,
    joined: Condvar,
}

/// What is known of one number.
#[derive(Clone, Default)]
struct Place {
    /// Which one of this number joined last; 0 for none.
    generation: u64,
    inbox: Option<Arc<Inbox>>,
    /// How it ended.
    why: String,
}

impl Office {
    /// An office for ranks 0 to `size - 1`, of whom nobody is there yet.
    pub fn new(size: u32, limits: Limits) -> Office {
        Office {
            shared: Arc::new(Shared {
                limits,
                places: Mutex::new(vec![Place::default(); size as usize]),
                joined: Condvar::new(),
            }),
        }
    }

    /// The mailbox of one rank. One that is there under this number loses its place.
    ///
    /// # Errors
    /// [`CommErrorKind::Launch`] where there is no such number, or the limits cannot be.
    pub fn join(&self, rank: u32) -> Result<Mailbox, CommError> {
        let limits = self.shared.limits;
        check(&limits).map_err(error)?;
        let mut places = self.shared.lock();
        let size = places.len() as u32;
        if rank >= size {
            let what = format!("there is no rank {rank} among {size}: they are numbered from 0");
            return Err(error(CommErrorKind::Launch { what }));
        }
        let generation = places[rank as usize].generation + 1;
        let inbox = Arc::new(Inbox::new(size, limits.queue_bytes));
        inbox.open(rank, generation);
        for (other, place) in (0u32..).zip(places.iter()) {
            if let Some(theirs) = place.inbox.as_ref().filter(|_| other != rank) {
                inbox.joined(other, place.generation);
                theirs.joined(rank, generation);
            }
        }
        let place = Place {
            generation,
            inbox: Some(Arc::clone(&inbox)),
            why: String::new(),
        };
        let older = std::mem::replace(&mut places[rank as usize], place);
        // It hears that all others are lost to it.
        if let Some(inbox) = older.inbox {
            for (other, place) in (0u32..).zip(places.iter()) {
                inbox.lost(
                    other,
                    place.generation,
                    "another one has joined under this rank's number",
                );
            }
        }
        drop(places);
        self.shared.joined.notify_all();
        let desk = Desk {
            shared: Arc::clone(&self.shared),
            rank,
            generation,
        };
        Ok(Mailbox::new((rank, size), limits, inbox, Post::Desk(desk)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One rank's way to the others.
pub(super) struct Desk {
    shared: Arc<Shared>,
    rank: u32,
    generation: u64,
}

impl Desk {
    pub(super) fn send(
        &self,
        to: u32,
        tag: u32,
        bytes: &[u8],
        expiry: Expiry,
    ) -> Result<(), Refusal> {
        let inbox = self.inbox_of(to, expiry)?;
        match inbox.put(
            (self.rank, self.generation),
            tag,
            bytes.to_vec(),
            Some(expiry),
        ) {
            Put::Done => Ok(()),
            Put::Full(unread) => Err(Refusal::NoRoom(format!(
                "{unread} bytes wait to be received there (it is stopped, or slower than its senders)"
            ))),
            Put::Gone => Err(Refusal::Lost(self.why_lost(to))),
        }
    }

    fn inbox_of(&self, to: u32, expiry: Expiry) -> Result<Arc<Inbox>, Refusal> {
        let mut places = self.shared.lock();
        loop {
            let place = &places[to as usize];
            if let Some(inbox) = &place.inbox {
                return Ok(Arc::clone(inbox));
            }
            if place.generation > 0 {
                return Err(Refusal::Lost(place.why.clone()));
            }
            let left = expiry.left();
            let left = left.ok_or_else(|| Refusal::NoRoom("it has not joined".to_string()))?;
            let waited = self.shared.joined.wait_timeout(places, left);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn why_lost(&self, to: u32) -> String {
        let places = self.shared.lock();
        if places[self.rank as usize].generation != self.generation {
            return "another one has joined under this rank's number".to_string();
        }
        match &places[to as usize].why {
            why if why.is_empty() => "it has ended".to_string(),
            why => why.clone(),
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let mut places = self.shared.lock();
        let place = &mut places[self.rank as usize];
        if place.generation != self.generation {
            return;
        }
        place.why = last_word().to_string();
        if let Some(inbox) = place.inbox.take() {
            inbox.close();
        }
        for other in places.iter().filter_map(|place| place.inbox.as_ref()) {
            other.lost(self.rank, self.generation, last_word());
        }
    }
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_there = self
            .shared
            .lock()
            .iter()
            .filter(|place| place.inbox.is_some())
            .count();
        f.debug_struct("Office")
            .field("n_there", &n_there)
            .finish_non_exhaustive()
    }
}
