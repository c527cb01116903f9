//! What can go wrong in this crate: node lists that are no covers, and options out of range.

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
    /// A listed node does not exist.
    NoNode {
        /// The node.
        node: u32,
        /// The graph's number of nodes.
        n_nodes: u32,
    },
    /// A node is listed twice.
    Twice {
        /// The node.
        node: u32,
    },
    /// The listed nodes are no cover.
    Uncovered {
        /// One end of an edge that they leave uncovered.
        u: u32,
        /// The other end.
        v: u32,
    },
    /// The listed nodes are no independent set.
    Joined {
        /// One end of an edge between two of them.
        u: u32,
        /// The other end.
        v: u32,
    },
    /// An option is out of its range.
    Option {
        /// The option.
        field: &'static str,
        /// Its value, written out.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The graph has more entries (two for each edge) than local search can number.
    TooLarge {
        /// The entries.
        n_entries: u64,
    },
    /// A node has more neighbours than local search can weigh.
    TooManyNeighbors {
        /// The largest degree.
        degree: u32,
    },
}

impl Error {
    /// Which error this is.
    #[must_use]
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
            ErrorKind::NoNode { node, n_nodes } => {
                write!(
                    f,
                    "node {node} does not exist: the graph has {n_nodes} nodes"
                )
            }
            ErrorKind::Twice { node } => write!(f, "node {node} is listed twice"),
            ErrorKind::Uncovered { u, v } => {
                write!(f, "the edge between nodes {u} and {v} is not covered")
            }
            ErrorKind::Joined { u, v } => write!(f, "nodes {u} and {v} are joined"),
            ErrorKind::Option {
                field,
                value,
                expected,
            } => write!(f, "{field} = {value}: expected {expected}"),
            ErrorKind::TooLarge { n_entries } => write!(
                f,
                "local search numbers up to {} entries, two for each edge; this graph has {n_entries}",
                u32::MAX
            ),
            ErrorKind::TooManyNeighbors { degree } => write!(
                f,
                "local search takes nodes of fewer than {} neighbours; this graph has one of {degree} neighbours",
                1u32 << 30
            ),
        }
    }
}

impl std::error::Error for Error {}
