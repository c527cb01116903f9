//! What can go wrong in this crate: settings, warm starts and proposals that make no sense, and threads that do not start.

use std::fmt;

use shardgraph_error::Class;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    #[from]
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A field of [`crate::Config`] is out of its range.
    #[error("{field} = {value}: expected {expected}")]
    Config {
        /// The field.
        field: &'static str,
        /// Its value, written out.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// A warm start is no chromosome of this search.
    #[error("warm start {start_idx} (counted from 0): {reason}")]
    Start {
        /// Which of them, from 0.
        start_idx: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A Beta distribution, or a choice of one for a key, is out of range.
    #[error("mutant proposals: {reason}")]
    Proposal {
        /// What is wrong with it.
        reason: String,
    },
    /// The search cannot be run: no keys, or no decoders.
    #[error("{reason}")]
    Search {
        /// What is missing.
        reason: &'static str,
    },
    /// The operating system refused to start the worker threads.
    #[error("cannot start the worker threads: {reason}; try fewer decoders")]
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

    /// The class of the failure: the program's exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.kind {
            ErrorKind::Threads { .. } => Class::NoAnswer,
            _ => Class::Input,
        }
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
