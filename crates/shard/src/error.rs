//! The crate's errors: entries that do not fit a shard, node ids beyond the graph, and unknown names.

use shardgraph_error::Class;

/// Everything that this crate's functions can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A COO entry that the shard cannot hold.
    #[error(
        "the entry (row {row}, column {column}) {reason}; pass each entry of the shard once, inside its ranges"
    )]
    Entry {
        /// The entry's row.
        row: u32,
        /// The entry's column.
        column: u32,
        /// Its fault, as a clause.
        reason: &'static str,
    },
    /// An edge names a node that the graph does not have.
    #[error(
        "an edge names node {node}, but the graph has {n_nodes} nodes (0..{n_nodes}); finish with a larger node count"
    )]
    NodeOutOfRange {
        /// The largest id seen.
        node: u32,
        /// Number of nodes that the graph was finished with.
        n_nodes: u32,
    },
    /// A name that stands for nothing here.
    #[error("expected {expected}, not `{given}`")]
    Name {
        /// The name.
        given: String,
        /// The names that there are.
        expected: &'static str,
    },
    /// The graph crate refused the edges.
    #[error(transparent)]
    Graph(#[from] shardgraph_graph::Error),
}

impl Error {
    /// Always [`Class::Input`].
    #[must_use]
    pub fn class(&self) -> Class {
        Class::Input
    }
}
