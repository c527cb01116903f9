//! The flight recorder: the last operations of one rank, for the report after a failure.

use crate::op::Call;
use std::fmt;

/// Number of operations that a rank remembers.
pub const FLIGHT_RECORD_LEN: usize = 64;

/// Outcome of a recorded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has begun and not ended.
    Started,
    /// It ended well.
    Done,
    /// It ended with an error.
    Failed,
}

/// One operation of the flight record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The call of this rank.
    pub call: Call,
    /// Its outcome.
    pub outcome: Outcome,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.outcome {
            Outcome::Started => " (started)",
            Outcome::Done => "",
            Outcome::Failed => " (failed)",
        };
        write!(f, "{}{mark}", self.call)
    }
}

/// A ring of the last [`FLIGHT_RECORD_LEN`] operations; it allocates once.
pub(crate) struct Recorder {
    ring: Vec<Recorded>,
    next: usize,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {
            ring: Vec::with_capacity(FLIGHT_RECORD_LEN),
            next: 0,
        }
    }

    pub(crate) fn start(&mut self, call: Call) {
        let entry = Recorded {
            call,
            outcome: Outcome::Started,
        };
        match self.ring.get_mut(self.next) {
            Some(oldest) => *oldest = entry,
            None => self.ring.push(entry),
        }
        self.next = (self.next + 1) % FLIGHT_RECORD_LEN;
    }

    /// Marks the operation started last.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        let last = (self.next + FLIGHT_RECORD_LEN - 1) % FLIGHT_RECORD_LEN;
        if let Some(entry) = self.ring.get_mut(last) {
            entry.outcome = outcome;
        }
    }

    /// The remembered operations, oldest first.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Recorded> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        older.iter().chain(newer)
    }
}
