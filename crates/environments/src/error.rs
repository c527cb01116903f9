//! The errors of this crate: refused steps, alone or in a vector, damaged checkpoints, and values
//! that do not fit their space.

use shardgraph_error::Class;

/// An error of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A step with an action that is not among the candidates.
    #[error("action {action} {reason}; take one of candidates()")]
    NotACandidate {
        /// The action.
        action: u32,
        /// The reason, as a clause.
        reason: &'static str,
    },
    /// A step after the episode ended.
    #[error("the episode ended after {n_steps} steps; reset() begins the next")]
    Ended {
        /// The number of steps of the episode.
        n_steps: u32,
    },
    /// One environment of a vector refused its part of a step.
    #[error("environment {index} of the vector: {source}")]
    InVector {
        /// Its index in the vector.
        index: usize,
        /// Its own error.
        source: Box<Error>,
    },
    /// Bytes that are no checkpoint of these environments.
    #[error(
        "these bytes are no checkpoint of the environments: {reason}; use bytes that the same version wrote for \
         the same configuration, whole and unchanged"
    )]
    Malformed {
        /// The first broken rule, as a clause about the bytes.
        reason: &'static str,
    },
    /// A space that cannot be, a value or a shape that does not fit its space, or a list of another
    /// length than the number of environments.
    #[error("{method}: {what}: expected {expected}, given {given}")]
    Mismatch {
        /// Type and method, as `Space::contains`.
        method: &'static str,
        /// The part that does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// A name that no problem has.
    #[error("expected {expected}; found {given}")]
    UnknownProblem {
        /// The names of all problems.
        expected: String,
        /// The name that was given.
        given: String,
    },
}

impl Error {
    /// The class of this error: its exit code.
    pub fn class(&self) -> Class {
        match self {
            Error::NotACandidate { .. } | Error::Ended { .. } => Class::NoAnswer,
            Error::InVector { source, .. } => source.class(),
            Error::Malformed { .. } | Error::Mismatch { .. } | Error::UnknownProblem { .. } => {
                Class::Input
            }
        }
    }

    #[cold]
    pub(crate) fn mismatch(
        method: &'static str,
        what: &str,
        expected: String,
        given: String,
    ) -> Error {
        Error::Mismatch {
            method,
            what: what.into(),
            expected,
            given,
        }
    }

    #[cold]
    pub(crate) fn in_vector(self, index: usize) -> Error {
        let source = Box::new(self);
        Error::InVector { index, source }
    }
}
