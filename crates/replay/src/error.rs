//! The errors of this crate: steps outside an episode, rows of another form, memories with too few
//! rows, numbers that are not finite, and damaged bytes.

use shardgraph_error::Class;

/// An error of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Recording or ending while no episode is open.
    #[error("no episode is open; begin_episode comes before record")]
    NoOpenEpisode,
    /// A reward or target that is infinite or not a number.
    #[error(
        "the {what} is {value}; a memory holds finite numbers, so find out where training diverged"
    )]
    NotFinite {
        /// The number's meaning: `"reward"`, `"target"`, `"TD error"`.
        what: &'static str,
        /// The number.
        value: f32,
    },
    /// Something of another form or outside its range.
    #[error("{method}: {what}: expected {expected}, given {given}")]
    Mismatch {
        /// Type and method, as `UniformMemory::insert`.
        method: &'static str,
        /// The part that does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// Sampling more rows than the memory holds.
    #[error(
        "{method}: a batch of {expected} needs a memory of at least as many rows, and this one holds {given}; \
         insert more before the first update"
    )]
    TooFewItems {
        /// Type and method.
        method: &'static str,
        /// The number of rows that were asked for.
        expected: usize,
        /// The number of rows in the memory.
        given: usize,
    },
    /// A row that was overwritten, or was never inserted.
    #[error(
        "{method}: row {id} is not in the memory, which holds rows {oldest}..{newest}; use a batch before the rows \
         that it names are overwritten"
    )]
    Stale {
        /// Type and method.
        method: &'static str,
        /// The row's number.
        id: u64,
        /// The number of the oldest row that is left.
        oldest: u64,
        /// One more than the number of the newest row.
        newest: u64,
    },
    /// A memory that is larger than what the system gives.
    #[error(
        "{method}: the system has no room for priorities of {n_bytes} bytes: choose a smaller capacity"
    )]
    NoRoom {
        /// Type and method.
        method: &'static str,
        /// The bytes that its priorities take.
        n_bytes: u64,
    },
    /// Bytes that do not decode to rows or a memory.
    #[error(
        "these bytes are no replay memory and no block of rows: {reason}; use bytes that the same version wrote, \
         whole and unchanged"
    )]
    Malformed {
        /// The first broken rule, as a clause.
        reason: &'static str,
    },
}

impl Error {
    /// The class of this error: its exit code.
    pub fn class(&self) -> Class {
        match self {
            Error::Mismatch { .. } | Error::NoRoom { .. } | Error::Malformed { .. } => Class::Input,
            _ => Class::NoAnswer,
        }
    }

    #[cold]
    pub(crate) fn malformed(reason: &'static str) -> Error {
        Error::Malformed { reason }
    }

    #[cold]
    pub(crate) fn mismatch(
        method: &'static str,
        what: impl Into<String>,
        expected: impl Into<String>,
        given: impl ToString,
    ) -> Error {
        Error::Mismatch {
            method,
            what: what.into(),
            expected: expected.into(),
            given: given.to_string(),
        }
    }
}
