//! Errors of collective operations. Each names the rank to look at.

use crate::flight::Recorded;
use crate::op::{Call, OpKind};
use shardgraph_error::Class;
use std::fmt;
use std::io;
use std::time::Duration;

/// Failure of a collective operation, with the operations that led to it.
///
/// After an error only [`Comm::abort`](crate::Comm::abort),
/// [`Comm::flight_record`](crate::Comm::flight_record) and dropping the communicator are legal;
/// everything else answers [`CommErrorKind::Aborted`].
///
/// ```
/// use shardgraph_collectives::{Comm, CommErrorKind, Timeout, Op};
///
/// let mut comm = Comm::solo();
/// let mut recv = [0u32; 3];
/// let op = Op::AllGather { send: (&[1u32, 2]).into(), recv: (&mut recv).into() };
/// let error = comm.run(op, Timeout::default()).unwrap_err();
/// assert!(matches!(error.kind(), CommErrorKind::Argument { .. }));
/// assert!(error.to_string().contains("2 elements"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CommError {
    inner: Box<Inner>,
}

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: CommErrorKind,
    /// The last operations of the rank that reports, oldest first.
    recent: Vec<Recorded>,
}

/// Kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommErrorKind {
    /// A rank ended, by a panic or by dropping its communicator, before this operation.
    #[error("{} was lost ({why}) before #{seq} {op}", rank_name(*rank))]
    PeerLost {
        /// The lost rank in this communicator's numbering; `None` if it is none of this
        /// communicator's ranks.
        rank: Option<u32>,
        /// The operation of this rank that cannot complete.
        op: OpKind,
        /// Its sequence number.
        seq: u64,
        /// Cause of the end; after a panic, its message.
        why: String,
    },
    /// Some ranks did not arrive in time.
    #[error(
        "#{seq} {op} timed out after {after:?}: ranks {missing:?} did not arrive (raise the timeout if they are only slow)"
    )]
    Timeout {
        /// The operation that waited.
        op: OpKind,
        /// Its sequence number.
        seq: u64,
        /// Time that it waited.
        after: Duration,
        /// The ranks that had not arrived, ascending.
        missing: Vec<u32>,
    },
    /// Two ranks asked for different things at the same place in the order of operations.
    #[error("ranks differ at #{seq}: rank {} asks for [{mine}], rank {} for [{theirs}]", mine.rank, theirs.rank)]
    Mismatch {
        /// The sequence number on this rank.
        seq: u64,
        /// The call of this rank (in `AllToAllV` between two other ranks: that of the sender
        /// for).
        mine: Call,
        /// The call of the first rank that differs.
        theirs: Call,
    },
    /// A rank gave up: it called `abort`, or one of its operations had failed.
    #[error("aborted by {}: {why}", rank_name(*by))]
    Aborted {
        /// The rank where it began; `None` if it is none of this communicator's ranks.
        by: Option<u32>,
        /// Class of the failure there, if that rank announced one ([`Comm::abort_as`](crate::Comm::abort_as)).
        class: Option<Class>,
        /// The first error, as text.
        why: String,
    },
    /// An argument does not fit: nothing was sent.
    #[error("#{seq} {op}: {what}")]
    Argument {
        /// The operation.
        op: OpKind,
        /// Its sequence number.
        seq: u64,
        /// The misfit, and the right value.
        what: String,
    },
    /// A message found no room with its receiver; see [`messages`](crate::messages). Nothing of it
    /// was sent.
    #[error("rank {rank} took no message for {after:?}: {why}")]
    NotTaken {
        /// The receiver.
        rank: u32,
        /// Time that the sender waited.
        after: Duration,
        /// State of the queue to the receiver.
        why: String,
    },
    /// A setting, or a variable of the environment, that makes no world; or processes that do not
    /// belong to one world.
    #[error("{what}")]
    Launch {
        /// The wrong value, its source, and the right value.
        what: String,
    },
    /// The closure of this rank panicked; reported by [`threads::run`](crate::threads::run).
    #[error("rank {rank} panicked: {text}")]
    Panicked {
        /// The rank.
        rank: u32,
        /// The message of the panic.
        text: String,
    },
    /// The system gave no thread for a rank; reported by [`threads::run`](crate::threads::run).
    #[error("no thread for rank {rank}: {text}: take fewer ranks, or raise the limit of threads")]
    NoThread {
        /// The rank.
        rank: u32,
        /// The system's message.
        text: String,
    },
    /// There is no library for the back end.
    #[error("{what}")]
    MissingLibrary {
        /// The library, and the way to get it.
        what: String,
    },
    /// The system or library under the back end refused.
    #[error("back end error {code}: {text}")]
    Backend {
        /// Its error code.
        code: i32,
        /// Its message.
        text: String,
    },
}

impl CommErrorKind {
    /// Class of the failure, by the remedy: correct the launch, install a library, or look for a
    /// lost rank; after an abort, the class that the rank announced.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            CommErrorKind::Launch { .. } => Class::Input,
            CommErrorKind::MissingLibrary { .. } | CommErrorKind::NoThread { .. } => {
                Class::MissingDevice
            }
            CommErrorKind::Aborted { class, .. } => class.unwrap_or(Class::LostRank),
            _ => Class::LostRank,
        }
    }
}

impl CommError {
    pub(crate) fn new<'a>(
        kind: CommErrorKind,
        recent: impl DoubleEndedIterator<Item = &'a Recorded>,
    ) -> CommError {
        /// Enough to see the pattern of the loop that failed, short enough for one line.
        const SHOWN: usize = 4;
        let mut recent: Vec<Recorded> = recent.rev().take(SHOWN).copied().collect();
        recent.reverse();
        CommError {
            inner: Box::new(Inner { kind, recent }),
        }
    }

    /// Kind of a failure.
    pub fn kind(&self) -> &CommErrorKind {
        &self.inner.kind
    }

    /// As [`CommErrorKind::class`].
    #[must_use]
    pub fn class(&self) -> Class {
        self.inner.kind.class()
    }

    /// The last operations of the rank that reports, oldest first; at most four.
    /// [`Comm::flight_record`](crate::Comm::flight_record) has more.
    pub fn recent(&self) -> &[Recorded] {
        &self.inner.recent
    }
}

impl std::error::Error for CommError {}

impl fmt::Debug for CommError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommError({self})")
    }
}

impl fmt::Display for CommError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner.kind)?;
        for (position, entry) in self.inner.recent.iter().enumerate() {
            let lead = if position == 0 {
                "; last operations: "
            } else {
                ", "
            };
            write!(f, "{lead}{entry}")?;
        }
        Ok(())
    }
}

/// Error of the system under a back end.
pub(crate) fn refused(error: io::Error) -> CommErrorKind {
    CommErrorKind::Backend {
        code: error.raw_os_error().unwrap_or_default(),
        text: error.to_string(),
    }
}

/// `rank 3`, or a word for a rank that has no number here.
pub(crate) fn rank_name(rank: Option<u32>) -> String {
    match rank {
        Some(rank) => format!("rank {rank}"),
        None => "a rank outside this communicator".to_string(),
    }
}
