//! What can go wrong in this crate: a step that the episode does not allow, alone or in a vector, bytes that
//! are no checkpoint, picks that no episode has, and spaces and values that do not fit.

use std::fmt;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A step with an action that is not among the candidates.
    NotACandidate {
        /// The action.
        action: u32,
        /// Why not, as a clause.
        reason: &'static str,
    },
    /// A step after the episode ended.
    Ended {
        /// How many steps the episode had.
        n_steps: u32,
    },
    /// One environment of a vector refused its part of a step.
    OfEnvironment {
        /// Its index in the vector.
        index: usize,
        /// What it refused.
        error: Box<Error>,
    },
    /// An episode of a vector is done as it begins.
    EndedAtReset {
        /// The environment's index in the vector.
        index: u32,
    },
    /// Bytes that are no checkpoint of these environments.
    Malformed {
        /// The first broken rule, as a clause about the bytes.
        reason: &'static str,
    },
    /// A space that cannot be, a value or a shape that is not as its space says, or a list of another length than the environments
    /// are many.
    Mismatch {
        /// Type and method, as `Space::contains`.
        method: &'static str,
        /// What does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// A list of picks names a node that the graph does not have.
    PickOutOfRange {
        /// The pick.
        pick: u32,
        /// Its place in the list.
        step: u32,
        /// How many nodes the graph has.
        n_nodes: u32,
    },
    /// A list of picks names a node twice.
    PickRepeated {
        /// The pick.
        pick: u32,
        /// The second place in the list.
        step: u32,
    },
}

impl Error {
    /// Which error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    #[cold]
    pub(crate) fn mismatch(
        method: &'static str,
        what: &str,
        expected: String,
        given: String,
    ) -> Error {
        ErrorKind::Mismatch {
            method,
            what: what.into(),
            expected,
            given,
        }
        .into()
    }

    #[cold]
    pub(crate) fn of_environment(self, index: usize) -> Error {
        let error = Box::new(self);
        ErrorKind::OfEnvironment { index, error }.into()
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
            ErrorKind::NotACandidate { action, reason } => {
                write!(f, "action {action} {reason}; take one of candidates()")
            }
            ErrorKind::Ended { n_steps } => {
                write!(
                    f,
                    "the episode ended after {n_steps} steps; reset() begins the next"
                )
            }
            ErrorKind::OfEnvironment { index, error } => {
                write!(f, "environment {index} of the vector: {error}")
            }
            ErrorKind::EndedAtReset { index } => write!(
                f,
                "environment {index} of the vector is done before its first step; give it a problem with something to do"
            ),
            ErrorKind::Mismatch {
                method,
                what,
                expected,
                given,
            } => write!(f, "{method}: {what}: expected {expected}, given {given}"),
            ErrorKind::Malformed { reason } => write!(
                f,
                "these bytes are no checkpoint of the environments: {reason}; use bytes that the same version wrote for the \
                 same configuration, whole and unchanged"
            ),
            ErrorKind::PickOutOfRange {
                pick,
                step,
                n_nodes,
            } => write!(
                f,
                "pick {step} is node {pick}, but the graph has {n_nodes} nodes; replay picks on the graph they were made on"
            ),
            ErrorKind::PickRepeated { pick, step } => write!(
                f,
                "pick {step} is node {pick}, which an earlier pick removed; a list of picks names each node once"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::OfEnvironment { error, .. } => Some(error),
            _ => None,
        }
    }
}
