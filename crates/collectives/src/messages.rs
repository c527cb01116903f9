//! Messages between two ranks, for jobs whose parts come and go: a learner, actors, the shards of a
//! memory.
//!
//! This is apart from [`Comm`](crate::Comm), which lives by one order of operations and one fate.
//! Here every pair of ranks is on its own: a rank that ends is reported as an [`Event`] and the
//! others go on, and another process may join again under its number. Ranks are threads that come
//! to an [`Router`], or processes that come to the meeting point of rank 0 ([`Mailbox::join`]).
//!
//! ```
//! use shardgraph_collectives::messages::{Event, Limits, Router};
//! use shardgraph_collectives::{CommError, Timeout};
//!
//! let router = Router::new(2, Limits::default());
//! let learner = router.join(0)?;
//! let actor = std::thread::spawn({
//!     let router = router.clone();
//!     move || router.join(1)?.send(0, 7, b"a transition", Timeout::default())
//! });
//! let mut received = Vec::new();
//! loop {
//!     match learner.recv(Timeout::default()) {
//!         Some(Event::Message { from: 1, tag: 7, bytes }) => received.push(bytes),
//!         Some(Event::Lost { rank: 1, .. }) => break, // dropped from the run, which goes on
//!         _ => {}
//!     }
//! }
//! assert_eq!(received, [b"a transition"]);
//! actor.join().expect("no panic")?;
//! # Ok::<(), CommError>(())
//! ```
//!
//! # What holds on both back ends
//! - Messages of one rank to another arrive in the order of its sends, between its
//!   [`Event::Joined`] and its [`Event::Lost`]. Senders are mixed fairly: each has its own room
//!   with the receiver, and the receiver takes in the order of arrival.
//! - A message is taken whole or not at all. That [`Mailbox::send`] returns means that the message
//!   has a place in the queue to its receiver, not that it was read: a receiver that ends takes
//!   with it what it has not read.
//! - Queues are bounded ([`Limits`]): a sender waits for room until its timeout. A receiver that is
//!   stopped or slow holds up the ranks that send to it, and no other.
//! - Nothing is encrypted or authenticated: use it where the network is your own.

mod admission;
mod event;
mod frame;
mod hub;
mod inbox;
mod link;
mod router;
mod tcp_endpoint;
mod visit;

use crate::error::{CommError, CommErrorKind};
use crate::join::config::TcpConfig;
use crate::op::OpKind;
use crate::timeout::{Expiry, Timeout};
pub use event::{Event, Limits};
use event::{Message, Refusal, check};
use inbox::Inbox;
use router::LocalEndpoint;
pub use router::Router;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tcp_endpoint::TcpEndpoint;

/// One rank's place for sending and receiving messages.
///
/// It may be shared by threads: several may send while one receives. Dropping it says goodbye to
/// the others, after what waits to be sent has gone out; for a second at most.
pub struct Mailbox {
    rank: u32,
    size: u32,
    limits: Limits,
    inbox: Arc<Inbox>,
    n_sent: AtomicU64,
    transport: Transport,
}

/// Way of messages to the other ranks.
enum Transport {
    Local(LocalEndpoint),
    Tcp(TcpEndpoint),
}

impl Mailbox {
    /// Makes this process one rank of those that meet at `config`'s address, which no
    /// [`Comm`](crate::Comm) may use at the same time.
    ///
    /// Rank 0 listens there and returns at once; the others wait for rank 0 until the timeout. Who
    /// else is there says [`Event::Joined`]. A process may join at any time, also under the number
    /// of one that has ended. One that joins under the number of a rank that is still there takes
    /// its place; the older one finds that it has lost all others. After the end of rank 0 those
    /// who are there go on with each other, and none can join. A rank whose connection broke does
    /// not come back.
    ///
    /// # Errors
    /// [`CommErrorKind::Launch`] where numbers, versions or addresses do not fit together;
    /// [`CommErrorKind::PeerLost`] where rank 0 is not to be reached; [`CommErrorKind::Backend`]
    /// where the system refuses.
    ///
    /// # Complexity
    /// One connection and two threads for each other rank, and a thread that looks for new ones.
    ///
    /// ```
    /// use shardgraph_collectives::messages::{Event, Limits, Mailbox};
    /// use shardgraph_collectives::{Timeout, tcp};
    ///
    /// # let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    /// let config = |rank| tcp::TcpConfig {
    ///     rank,
    ///     size: 2,
    ///     master_addr: "127.0.0.1".into(),
    ///     master_port: free, // a free port, the same for all
    ///     job: "example".into(),
    ///     version: "1.0".into(),
    ///     timeout: Timeout::default(),
    ///     secret: None,
    /// };
    /// let learner = Mailbox::join(&config(0), Limits::default())?;
    /// let actor = Mailbox::join(&config(1), Limits::default())?; // usually another process
    /// actor.send(0, 3, b"hello", Timeout::default())?;
    /// assert!(matches!(learner.recv(Timeout::default()), Some(Event::Joined { rank: 1, .. })));
    /// let message = Event::Message { from: 1, tag: 3, bytes: b"hello".to_vec() };
    /// assert_eq!(learner.recv(Timeout::default()), Some(message));
    /// # Ok::<(), shardgraph_collectives::CommError>(())
    /// ```
    pub fn join(config: &TcpConfig, limits: Limits) -> Result<Mailbox, CommError> {
        let joined = check(&limits).and_then(|()| TcpEndpoint::join(config, limits));
        let endpoint = joined.map_err(error)?;
        Ok(Mailbox {
            rank: config.rank,
            size: config.size,
            limits,
            inbox: endpoint.inbox(),
            n_sent: AtomicU64::new(0),
            transport: Transport::Tcp(endpoint),
        })
    }

    /// This rank's number, below [`Mailbox::size`].
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks that there may be.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Sends a message, also to this rank itself. Waits until the receiver has joined and there is
    /// room for the message.
    ///
    /// # Errors
    /// [`CommErrorKind::NotTaken`] where the timeout passes first; [`CommErrorKind::PeerLost`]
    /// where the receiver has ended and no other has joined in its place;
    /// [`CommErrorKind::Argument`] for a rank that cannot be, or a message that is too long. None
    /// of them keeps this mailbox from going on.
    pub fn send(&self, to: u32, tag: u32, bytes: &[u8], timeout: Timeout) -> Result<(), CommError> {
        let seq = self.n_sent.fetch_add(1, Ordering::Relaxed);
        let op = OpKind::Send;
        if let Some(what) = self.wrong_argument(to, bytes.len()) {
            return Err(error(CommErrorKind::Argument { op, seq, what }));
        }
        let expiry = Expiry::of(timeout);
        let message = Message { to, tag, bytes };
        let taken = match &self.transport {
            Transport::Local(endpoint) => endpoint.send(message, expiry),
            Transport::Tcp(endpoint) => endpoint.send(message, expiry),
        };
        taken.map_err(|refusal| {
            error(match refusal {
                Refusal::Lost(why) => CommErrorKind::PeerLost {
                    rank: Some(to),
                    op,
                    seq,
                    why,
                },
                Refusal::NoRoom(why) => CommErrorKind::NotTaken {
                    rank: to,
                    after: timeout.duration(),
                    why,
                },
            })
        })
    }

    fn wrong_argument(&self, to: u32, len: usize) -> Option<String> {
        if to >= self.size {
            return Some(format!("there is no rank {to} among {}", self.size));
        }
        let limit = self.limits.max_message_bytes;
        (len > limit).then(|| {
            format!(
                "a message of {len} bytes, at most {limit} are allowed (Limits::max_message_bytes)"
            )
        })
    }

    /// The next event, or `None` if nothing comes until the timeout.
    pub fn recv(&self, timeout: Timeout) -> Option<Event> {
        self.inbox.take(Expiry::of(timeout))
    }

    /// The events that are there, without waiting.
    pub fn received(&self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.inbox.take(Expiry::of(Timeout::after(Duration::ZERO))))
    }
}

fn error(kind: CommErrorKind) -> CommError {
    CommError::new(kind, [].iter())
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mailbox");
        shown.field("rank", &self.rank).field("size", &self.size);
        shown.finish_non_exhaustive()
    }
}
