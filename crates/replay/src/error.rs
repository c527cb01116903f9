//! What can go wrong in this crate: recording outside an episode, rows of another form, memories with too little in them, numbers
//! that are not finite, and bytes that are no rows or memory.

use std::fmt;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Recording or ending while no episode is open.
    NoOpenEpisode,
    /// A reward or target that is infinite or not a number.
    NotFinite {
        /// What the number is: `"reward"`, `"target"`, `"TD error"`.
        what: &'static str,
        /// The number.
        value: f32,
    },
    /// Something of another form or outside its range.
    Mismatch {
        /// Type and method, as `UniformMemory::insert`.
        method: &'static str,
        /// What does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// Sampling more rows than the memory holds.
    TooFewItems {
        /// Type and method.
        method: &'static str,
        /// How many rows were asked for.
        expected: usize,
        /// How many the memory holds.
        given: usize,
    },
    /// A row that was overwritten, or was never inserted.
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
    NoRoom {
        /// Type and method.
        method: &'static str,
        /// The bytes that its priorities take.
        n_bytes: u64,
    },
    /// Bytes that do not decode to rows or a memory.
    Malformed {
        /// The first broken rule, as a clause.
        reason: &'static str,
    },
}

impl Error {
    /// Which error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn malformed(reason: &'static str) -> Error {
        ErrorKind::Malformed { reason }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::NoOpenEpisode => {
                write!(f, "no episode is open; begin_episode comes before record")
            }
            ErrorKind::NotFinite { what, value } => write!(
                f,
                "the {what} is {value}; a memory holds finite numbers, so find out where training diverged"
            ),
            ErrorKind::Mismatch {
                method,
                what,
                expected,
                given,
            } => write!(f, "{method}: {what}: expected {expected}, given {given}"),
            ErrorKind::TooFewItems {
                method,
                expected,
                given,
            } => write!(
                f,
                "{method}: a batch of {expected} needs a memory of at least as many rows, and this one holds {given}; \
                 insert more before the first update"
            ),
            ErrorKind::Stale {
                method,
                id,
                oldest,
                newest,
            } => write!(
                f,
                "{method}: row {id} is not in the memory, which holds rows {oldest}..{newest}; use a batch before the rows \
                 that it names are overwritten"
            ),
            ErrorKind::NoRoom { method, n_bytes } => write!(
                f,
                "{method}: the system has no room for priorities of {n_bytes} bytes: choose a smaller capacity"
            ),
            ErrorKind::Malformed { reason } => write!(
                f,
                "these bytes are no replay memory and no block of rows: {reason}; use bytes that the same version wrote, whole and unchanged"
            ),
        }
    }
}

impl std::error::Error for Error {}
