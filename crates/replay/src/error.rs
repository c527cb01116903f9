//! What can go wrong in this crate: recording outside an episode, numbers that are not finite, and bytes that are no memory.

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
        /// `"reward"` or `"target"`.
        what: &'static str,
        /// The number.
        value: f32,
    },
    /// Bytes that do not decode to a memory.
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
            ErrorKind::Malformed { reason } => write!(
                f,
                "these bytes are not a replay memory: {reason}; use bytes that the same version wrote, whole and unchanged"
            ),
        }
    }
}

impl std::error::Error for Error {}
