//! What can go wrong in a collective operation, said so that a user knows which rank to look at.

use crate::flight::Recorded;
use crate::op::{Call, OpKind};
use std::fmt;
use std::time::Duration;

/// Why a collective operation failed, with the operations that led to it.
///
/// After an error only [`Comm::abort`](crate::Comm::abort), [`Comm::flight_record`](crate::Comm::flight_record) and dropping
/// the communicator are legal; everything else answers [`CommErrorKind::Aborted`].
///
/// ```
/// use shardgraph_collectives::{Comm, CommErrorKind, Deadline, Op};
///
/// let mut comm = Comm::solo();
/// let mut recv = [0u32; 3];
/// let op = Op::AllGather { send: (&[1u32, 2]).into(), recv: (&mut recv).into() };
/// let error = comm.run(op, Deadline::default()).unwrap_err();
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

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommErrorKind {
    /// A rank ended, by a panic or by dropping its communicator, before this operation.
    PeerLost {
        /// The lost rank in this communicator's numbering; `None` if it is none of this communicator's ranks.
        rank: Option<u32>,
        /// The operation of this rank that cannot complete.
        op: OpKind,
        /// Its sequence number.
        seq: u64,
        /// How the rank ended; after a panic, its message.
        why: String,
    },
    /// Some ranks did not arrive in time.
    Timeout {
        /// The operation that waited.
        op: OpKind,
        /// Its sequence number.
        seq: u64,
        /// How long it waited.
        after: Duration,
        /// The ranks that had not arrived, ascending.
        missing: Vec<u32>,
    },
    /// Two ranks asked for different things at the same place in the order of operations.
    Mismatch {
        /// The sequence number on this rank.
        seq: u64,
        /// What this rank asked for (in `AllToAllV` between two other ranks: what the sender asked for).
        mine: Call,
        /// What the first rank that differs asked for.
        theirs: Call,
    },
    /// A rank gave up: it called `abort`, or one of its operations had failed.
    Aborted {
        /// The rank where it began; `None` if it is none of this communicator's ranks.
        by: Option<u32>,
        /// The first error, as text.
        why: String,
    },
    /// An argument does not fit: nothing was sent.
    Argument {
        /// The operation.
        op: OpKind,
        /// Its sequence number.
        seq: u64,
        /// What does not fit and what would have been right.
        what: String,
    },
    /// A message found no room with its receiver; see [`messages`](crate::messages). Nothing of it was sent.
    NotTaken {
        /// The receiver.
        rank: u32,
        /// How long the sender waited.
        after: Duration,
        /// What the receiver has not done.
        why: String,
    },
    /// A setting, or a variable of the environment, that makes no world; or processes that do not belong to one world.
    Launch {
        /// What cannot be right, where it comes from, and what would be right.
        what: String,
    },
    /// The closure of this rank panicked; reported by [`threads::run`](crate::threads::run).
    Panicked {
        /// The rank.
        rank: u32,
        /// The message of the panic.
        text: String,
    },
    /// The system or library under the back end refused.
    Backend {
        /// Its error code.
        code: i32,
        /// Its message.
        text: String,
    },
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

    /// What went wrong.
    pub fn kind(&self) -> &CommErrorKind {
        &self.inner.kind
    }

    /// The last operations of the rank that reports, oldest first; at most four. [`Comm::flight_record`](crate::Comm::flight_record) has more.
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

/// `rank 3`, or a word for a rank that has no number here.
pub(crate) fn rank_name(rank: Option<u32>) -> String {
    match rank {
        Some(rank) => format!("rank {rank}"),
        None => "a rank outside this communicator".to_string(),
    }
}

impl fmt::Display for CommErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommErrorKind::PeerLost { rank, op, seq, why } => {
                write!(
                    f,
                    "{} was lost ({why}) before #{seq} {op}",
                    rank_name(*rank)
                )
            }
            CommErrorKind::Timeout {
                op,
                seq,
                after,
                missing,
            } => write!(
                f,
                "#{seq} {op} timed out after {after:?}: ranks {missing:?} did not arrive (raise the deadline if they are only slow)"
            ),
            CommErrorKind::Mismatch { seq, mine, theirs } => write!(
                f,
                "ranks differ at #{seq}: rank {} asks for [{mine}], rank {} for [{theirs}]",
                mine.rank, theirs.rank
            ),
            CommErrorKind::Aborted { by, why } => {
                write!(f, "aborted by {}: {why}", rank_name(*by))
            }
            CommErrorKind::Argument { op, seq, what } => write!(f, "#{seq} {op}: {what}"),
            CommErrorKind::NotTaken { rank, after, why } => {
                write!(f, "rank {rank} took no message for {after:?}: {why}")
            }
            CommErrorKind::Launch { what } => f.write_str(what),
            CommErrorKind::Panicked { rank, text } => write!(f, "rank {rank} panicked: {text}"),
            CommErrorKind::Backend { code, text } => write!(f, "back end error {code}: {text}"),
        }
    }
}
