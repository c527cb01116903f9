//! What can go wrong in this crate: settings, warm starts and proposals that make no sense, and threads that do not start.

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
    /// A field of [`crate::Config`] is out of its range.
    Config {
        /// The field.
        field: &'static str,
        /// Its value, written out.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// A warm start is no chromosome of this search.
    Start {
        /// Which of them, from 0.
        start_idx: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A Beta distribution, or a choice of one for a key, is out of range.
    Proposal {
        /// What is wrong with it.
        reason: String,
    },
    /// The search cannot be run: no keys, or no decoders.
    Search {
        /// What is missing.
        reason: &'static str,
    },
    /// The operating system refused to start the worker threads.
    Threads {
        /// What it said.
        reason: String,
    },
}

impl Error {
    /// Which error this is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn config(
        field: &'static str,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Error {
        ErrorKind::Config {
            field,
            value: value.to_string(),
            expected: expected.into(),
        }
        .into()
    }

    pub(crate) fn proposal(reason: impl Into<String>) -> Error {
        ErrorKind::Proposal {
            reason: reason.into(),
        }
        .into()
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
            ErrorKind::Config {
                field,
                value,
                expected,
            } => write!(f, "{field} = {value}: expected {expected}"),
            ErrorKind::Start { start_idx, reason } => {
                write!(f, "warm start {start_idx} (counted from 0): {reason}")
            }
            ErrorKind::Proposal { reason } => write!(f, "mutant proposals: {reason}"),
            ErrorKind::Search { reason } => f.write_str(reason),
            ErrorKind::Threads { reason } => write!(
                f,
                "cannot start the worker threads: {reason}; try fewer decoders"
            ),
        }
    }
}

impl std::error::Error for Error {}
