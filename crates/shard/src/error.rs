//! What can go wrong in this crate: entries that do not fit a shard, bytes that are no shard, and node ids beyond the graph.

use std::fmt;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A COO entry that the shard cannot hold.
    Entry {
        /// The entry's row.
        row: u32,
        /// The entry's column.
        column: u32,
        /// What is wrong with it, as a clause.
        reason: &'static str,
    },
    /// Bytes that do not decode to a shard.
    Malformed {
        /// Which form was expected: `"CSR shard"` or `"bit shard"`.
        form: &'static str,
        /// The first broken rule, as a clause.
        reason: &'static str,
    },
    /// An edge names a node that the graph does not have.
    NodeOutOfRange {
        /// The largest id seen.
        node: u32,
        /// How many nodes the graph was finished with.
        n_nodes: u32,
    },
    /// A name that stands for nothing here.
    Name {
        /// The name.
        given: String,
        /// The names that there are.
        expected: &'static str,
    },
    /// The graph crate refused the edges.
    Graph(shardgraph_graph::Error),
}

impl Error {
    /// Which error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn entry(row: u32, column: u32, reason: &'static str) -> Error {
        ErrorKind::Entry {
            row,
            column,
            reason,
        }
        .into()
    }

    pub(crate) fn name(given: &str, expected: &'static str) -> Error {
        let given = given.to_owned();
        ErrorKind::Name { given, expected }.into()
    }

    pub(crate) fn malformed(form: &'static str, reason: &'static str) -> Error {
        ErrorKind::Malformed { form, reason }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind }
    }
}

impl From<shardgraph_graph::Error> for Error {
    fn from(source: shardgraph_graph::Error) -> Error {
        ErrorKind::Graph(source).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Entry {
                row,
                column,
                reason,
            } => write!(
                f,
                "the entry (row {row}, column {column}) {reason}; pass each entry of the shard once, inside its ranges"
            ),
            ErrorKind::Malformed { form, reason } => write!(
                f,
                "these bytes are not a {form}: {reason}; use bytes that the same version wrote, whole and unchanged"
            ),
            ErrorKind::NodeOutOfRange { node, n_nodes } => write!(
                f,
                "an edge names node {node}, but the graph has {n_nodes} nodes (0..{n_nodes}); finish with a larger node count"
            ),
            ErrorKind::Name { given, expected } => write!(f, "expected {expected}, not `{given}`"),
            ErrorKind::Graph(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Graph(source) => Some(source),
            _ => None,
        }
    }
}
