//! What can go wrong in this crate: a step that the episode does not allow, and picks that no episode has.

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

impl std::error::Error for Error {}
