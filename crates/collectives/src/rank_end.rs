//! Ends of ranks: the causes for which a world completes no further operation, with the rank to
//! blame. One account for all back ends.

use crate::error::{CommErrorKind, rank_name};
use crate::op::Call;
use serde::{Deserialize, Serialize};
use shardgraph_error::Class;

/// The end of a rank, after which a world can complete no further operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankEnd {
    pub(crate) cause: Cause,
    /// The rank where it began; `None` if it has no number here.
    pub(crate) rank: Option<u32>,
    /// After leaving: the number of operations that the rank had completed. After a mismatch: the
    /// number of that operation, in which every rank can see both sides.
    pub(crate) seq: Option<u64>,
    /// Exit code of the failure's class, if the rank announced one.
    pub(crate) exit_code: Option<u8>,
    /// The event there, as text.
    #[serde(serialize_with = "crate::codec::short_text")]
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// The rank dropped its communicator.
    Left,
    /// It dropped its communicator by a panic, whose message comes when its thread has unwound;
    /// unless the panic is caught before.
    Panicking,
    Panicked,
    /// Its connection broke without a message: the process or the machine is gone.
    Lost,
    Aborted,
}

impl RankEnd {
    pub(crate) fn new(cause: Cause, rank: Option<u32>, why: impl Into<String>) -> RankEnd {
        RankEnd {
            cause,
            rank,
            seq: None,
            exit_code: None,
            why: why.into(),
        }
    }

    /// A rank drops its communicator, in order or by a panic.
    pub(crate) fn dropped(rank: u32, is_panicking: bool) -> RankEnd {
        match is_panicking {
            true => RankEnd::new(Cause::Panicked, Some(rank), "its thread panicked"),
            false => RankEnd::new(Cause::Left, Some(rank), "it dropped its communicator"),
        }
    }

    /// Error of an operation that can no longer complete.
    pub(crate) fn error(&self, call: &Call) -> CommErrorKind {
        let why = self.why.clone();
        match self.cause {
            Cause::Aborted => self.aborted(why),
            _ => CommErrorKind::PeerLost {
                rank: self.rank,
                op: call.op,
                seq: call.seq,
                why,
            },
        }
    }

    /// Error beside the operations: the one of every operation after the first that met this end.
    pub(crate) fn failure(&self) -> CommErrorKind {
        let why = match self.cause {
            Cause::Aborted => self.why.clone(),
            _ => format!("{} was lost ({})", rank_name(self.rank), self.why),
        };
        self.aborted(why)
    }

    fn aborted(&self, why: String) -> CommErrorKind {
        CommErrorKind::Aborted {
            by: self.rank,
            class: self.exit_code.and_then(Class::from_exit_code),
            why,
        }
    }

    /// The first cause stays, but leaving gives way to a failure, and a panic to its own message.
    pub(crate) fn gives_way_to(&self, later: &RankEnd) -> bool {
        match self.cause {
            Cause::Left => later.cause != Cause::Left,
            Cause::Panicking => later.cause == Cause::Panicked && later.rank == self.rank,
            Cause::Panicked | Cause::Lost | Cause::Aborted => false,
        }
    }
}

/// Ends of the ranks of one world, in the order in which they became known.
#[derive(Debug, Default)]
pub(crate) struct Ends(Vec<RankEnd>);

impl Ends {
    pub(crate) fn push(&mut self, end: RankEnd) {
        self.0.push(end);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RankEnd> + Clone {
        self.0.iter()
    }

    /// The first end that is not a mere leaving.
    pub(crate) fn failure(&self) -> Option<&RankEnd> {
        self.iter().find(|end| end.cause != Cause::Left)
    }

    /// The first rank that left before it had completed the operation `seq`.
    pub(crate) fn leaving_before(&self, seq: u64) -> Option<&RankEnd> {
        let is_early =
            |end: &&RankEnd| end.cause == Cause::Left && end.seq.is_none_or(|n| n <= seq);
        self.iter().find(is_early)
    }

    pub(crate) fn has_left(&self, rank: u32) -> bool {
        let is_its = |end: &RankEnd| end.cause == Cause::Left && end.rank == Some(rank);
        self.iter().any(is_its)
    }
}
