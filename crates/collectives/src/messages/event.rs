//! Events and limits of mailboxes, and the types that their threads share.

use crate::error::CommErrorKind;
use std::time::Duration;

/// Event that a mailbox receives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Message {
        /// The sender.
        from: u32,
        /// The number that the sender gave it, for the receiver to tell kinds of messages apart.
        tag: u32,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// A rank is there and can be sent to.
    Joined {
        /// Its number.
        rank: u32,
        /// Larger each time that one of this number joins.
        generation: u64,
    },
    /// A rank has ended or cannot be reached; everything that came of it was received before this.
    /// It stays lost until one joins under its number, also where nothing but the connection broke.
    Lost {
        /// Its number.
        rank: u32,
        /// Generation of the lost one.
        generation: u64,
        /// Cause of the loss.
        why: String,
    },
    /// To rank 0 of processes: one of this number was rejected because it does not fit, or declined
    /// by itself ([`tcp::decline`](crate::tcp::decline())). Reported once until one of its number
    /// joins.
    Rejected {
        /// Its number.
        rank: u32,
        /// The misfit, or its own reason.
        why: String,
    },
}

/// Bounds of queues, and of the silence of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message in bytes, at most 4 GiB - 1; 64 MiB by default. The same on all ranks.
    pub max_message_bytes: usize,
    /// Bytes that one rank's messages may take up on their way to another before the sender waits,
    /// in each of the queues that there are (between threads one, with the receiver; over TCP one
    /// on either side); 64 MiB by default. A message has room where nothing else waits.
    pub queue_bytes: usize,
    /// Over TCP a rank of which nothing was heard for so long is lost: its host is gone, the
    /// network cut, or its process stopped. Ranks with nothing to say send a sign of life four
    /// times as often. 60 s by default, at least 20 ms. The same on all ranks.
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

/// One of the processes or threads with a rank's number: a later one has a larger generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) rank: u32,
    pub(super) generation: u64,
}

/// A message on its way.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) to: u32,
    pub(super) tag: u32,
    pub(super) bytes: &'a [u8],
}

/// Reason for which a message was not taken.
pub(super) enum Refusal {
    Lost(String),
    NoRoom(String),
}

pub(super) fn check(limits: &Limits) -> Result<(), CommErrorKind> {
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

/// The goodbye of a mailbox that is dropped.
pub(super) fn last_word() -> &'static str {
    match std::thread::panicking() {
        true => "its thread panicked",
        false => "it left",
    }
}
