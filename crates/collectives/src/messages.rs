//! Messages between two ranks, for jobs whose parts come and go: a learner, actors, the shards of a memory.
//!
//! This is apart from [`Comm`](crate::Comm), which lives by one order of operations and one fate. Here every pair of ranks is on its own: a rank
//! that ends is reported as an [`Event`] and the others go on, and another process may join again under its number. Ranks are threads that come
//! to an [`Office`], or processes that come to the meeting point of rank 0 ([`Mailbox::join`]).
//!
//! ```
//! use shardgraph_collectives::messages::{Event, Limits, Office};
//! use shardgraph_collectives::{CommError, Deadline};
//!
//! let office = Office::new(2, Limits::default());
//! let learner = office.join(0)?;
//! let actor = std::thread::spawn({
//!     let office = office.clone();
//!     move || office.join(1)?.send(0, 7, b"a transition", Deadline::default())
//! });
//! let mut received = Vec::new();
//! loop {
//!     match learner.recv(Deadline::default()) {
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
//! - Messages of one rank to another arrive in the order of its sends, between its [`Event::Joined`] and its [`Event::Lost`]. Senders
//!   are mixed fairly: each has its own room with the receiver, and the receiver takes in the order of arrival.
//! - A message is taken whole or not at all. That [`Mailbox::send`] returns means that the message has a place in the queue to its receiver, not
//!   that it was read: a receiver that ends takes with it what it has not read.
//! - Queues are bounded ([`Limits`]): a sender waits for room until its deadline. A receiver that is stopped or slow holds up who
//!   sends to it, and nobody else.
//! - Nothing is encrypted or authenticated: use it where the network is your own.

mod frame;
mod inbox;
mod link;
mod office;
mod station;

use crate::deadline::{Deadline, Expiry};
use crate::error::{CommError, CommErrorKind};
use crate::op::OpKind;
use crate::tcp::TcpConfig;
use inbox::Inbox;
use office::Desk;
pub use office::Office;
use station::Station;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a mailbox receives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Message {
        /// The sender.
        from: u32,
        /// The number that the sender gave it, for the receiver to tell kinds of messages apart.
        tag: u32,
        /// What it says.
        bytes: Vec<u8>,
    },
    /// A rank is there and can be sent to.
    Joined {
        /// Its number.
        rank: u32,
        /// Larger each time that one of this number joins.
        generation: u64,
    },
    /// A rank has ended or cannot be reached; everything that came of it was received before this. It stays lost until one joins under its
    /// number, also where nothing but the connection broke.
    Lost {
        /// Its number.
        rank: u32,
        /// Which one of this number.
        generation: u64,
        /// How it ended.
        why: String,
    },
    /// To rank 0 of processes: one of this number came and takes no part, because it does not fit and was sent away, or because it says so
    /// itself ([`tcp::decline`](crate::tcp::decline())). Told once until one of its number joins.
    Absent {
        /// Its number.
        rank: u32,
        /// What keeps it from it.
        why: String,
    },
}

/// How much may wait, and for how long a rank may say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message in bytes, at most 4 GiB - 1; 64 MiB by default. The same on all ranks.
    pub max_message_bytes: usize,
    /// How much one rank's messages may take up on their way to another before the sender waits, in each of the queues that there are (between
    /// threads one, with the receiver; over TCP one on either side); 64 MiB by default. A message has room where nothing else waits.
    pub queue_bytes: usize,
    /// Over TCP a rank of which nothing was heard for so long is lost: its host is gone, the network cut, or its process stopped. Ranks
    /// with nothing to say greet each other four times as often. 60 s by default, at least 20 ms. The same on all ranks.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_message_bytes: 64 << 20,
            queue_bytes: 64 << 20,
            silence: Duration::from_secs(60),
        }
    }
}

/// One rank's place for sending and receiving messages.
///
/// It may be shared by threads: several may send while one receives. Dropping it says farewell to the others, after what waits to be
/// sent has gone out; for a second at most.
pub struct Mailbox {
    rank: u32,
    size: u32,
    limits: Limits,
    inbox: Arc<Inbox>,
    n_sent: AtomicU64,
    post: Post,
}

/// How messages reach the other ranks.
enum Post {
    Desk(Desk),
    Station(Station),
}

/// Why a message was not taken.
enum Refusal {
    Lost(String),
    NoRoom(String),
}

impl Mailbox {
    /// Makes this process one rank of those that meet at `config`'s address, which no [`Comm`](crate::Comm) may use at the same time.
    ///
    /// Rank 0 listens there and returns at once; the others wait for rank 0 until the deadline. Who else is there says
    /// [`Event::Joined`]. A process may join at any time, also under the number of one that has ended. One that joins under the number of
    /// a rank that is still there takes its place; the older one finds that it has lost all others. After the end of rank 0 those who are
    /// there go on with each other, and nobody can join until another process joins as rank 0 at the same address: within a second the others come
    /// back to it, as themselves, and on both sides [`Event::Joined`] says so. A rank whose connection to a living rank 0 broke does not come back.
    ///
    /// # Errors
    /// [`CommErrorKind::Launch`] where numbers, versions or addresses do not fit together; [`CommErrorKind::PeerLost`] where rank 0 is not to
    /// be reached; [`CommErrorKind::Backend`] where the system refuses.
    ///
    /// # Complexity
    /// One connection and two threads for each other rank, and a thread that looks for new ones.
    ///
    /// ```
    /// use shardgraph_collectives::messages::{Event, Limits, Mailbox};
    /// use shardgraph_collectives::{Deadline, tcp};
    ///
    /// # let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    /// let config = |rank| tcp::TcpConfig {
    ///     rank,
    ///     size: 2,
    ///     master_addr: "127.0.0.1".into(),
    ///     master_port: free, // a free port, the same for all
    ///     job: "example".into(),
    ///     version: "1.0".into(),
    ///     deadline: Deadline::default(),
    /// };
    /// let learner = Mailbox::join(&config(0), Limits::default())?;
    /// let actor = Mailbox::join(&config(1), Limits::default())?; // usually another process
    /// actor.send(0, 3, b"hello", Deadline::default())?;
    /// assert!(matches!(learner.recv(Deadline::default()), Some(Event::Joined { rank: 1, .. })));
    /// let message = Event::Message { from: 1, tag: 3, bytes: b"hello".to_vec() };
    /// assert_eq!(learner.recv(Deadline::default()), Some(message));
    /// # Ok::<(), shardgraph_collectives::CommError>(())
    /// ```
    pub fn join(config: &TcpConfig, limits: Limits) -> Result<Mailbox, CommError> {
        let joined = check(&limits).and_then(|()| Station::join(config, limits));
        let (station, inbox) = joined.map_err(error)?;
        let post = Post::Station(station);
        Ok(Mailbox::new(
            (config.rank, config.size),
            limits,
            inbox,
            post,
        ))
    }

    fn new((rank, size): (u32, u32), limits: Limits, inbox: Arc<Inbox>, post: Post) -> Mailbox {
        Mailbox {
            rank,
            size,
            limits,
            inbox,
            n_sent: AtomicU64::new(0),
            post,
        }
    }

    /// This rank's number, below [`Mailbox::size`].
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks that there may be.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Sends a message, also to this rank itself. Waits until the receiver has joined and there is room for the message.
    ///
    /// # Errors
    /// [`CommErrorKind::NotTaken`] where the deadline passes first; [`CommErrorKind::PeerLost`] where the receiver has ended and no other has joined
    /// in its place; [`CommErrorKind::Argument`] for a rank that cannot be, or a message that is too long. None of them keeps this mailbox
    /// from going on.
    pub fn send(
        &self,
        to: u32,
        tag: u32,
        bytes: &[u8],
        deadline: Deadline,
    ) -> Result<(), CommError> {
        let seq = self.n_sent.fetch_add(1, Ordering::Relaxed);
        let op = OpKind::Send;
        if let Some(what) = self.wrong_argument(to, bytes.len()) {
            return Err(error(CommErrorKind::Argument { op, seq, what }));
        }
        let expiry = Expiry::of(deadline);
        let taken = match &self.post {
            Post::Desk(desk) => desk.send(to, tag, bytes, expiry),
            Post::Station(station) => station.send(to, tag, bytes, expiry),
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
                    after: deadline.duration(),
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

    /// The next event, or `None` if nothing comes until the deadline.
    pub fn recv(&self, deadline: Deadline) -> Option<Event> {
        self.inbox.take(Expiry::of(deadline))
    }

    /// The events that are there, without waiting.
    pub fn received(&self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.inbox.take(Expiry::of(Deadline::after(Duration::ZERO))))
    }
}

fn error(kind: CommErrorKind) -> CommError {
    CommError::new(kind, [].iter())
}

fn check(limits: &Limits) -> Result<(), CommErrorKind> {
    const SHORTEST_SILENCE: Duration = Duration::from_millis(20);
    let what = if u32::try_from(limits.max_message_bytes).is_err() {
        format!(
            "max_message_bytes is {}, at most 4 GiB - 1 are possible",
            limits.max_message_bytes
        )
    } else if limits.silence < SHORTEST_SILENCE {
        format!(
            "silence is {:?}, at least {SHORTEST_SILENCE:?} are needed",
            limits.silence
        )
    } else {
        return Ok(());
    };
    Err(CommErrorKind::Launch { what })
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mailbox");
        shown.field("rank", &self.rank).field("size", &self.size);
        shown.finish_non_exhaustive()
    }
}

/// How a mailbox that is dropped explains itself.
fn last_word() -> &'static str {
    match std::thread::panicking() {
        true => "its thread panicked",
        false => "it left",
    }
}
