//! What can go wrong in this crate: node lists that are no answers, and options out of range.

use shardgraph_error::Class;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    #[from]
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A listed node does not exist.
    #[error("node {node} does not exist: the graph has {n_nodes} nodes")]
    NoNode {
        /// The node.
        node: u32,
        /// The graph's number of nodes.
        n_nodes: u32,
    },
    /// A node is listed twice.
    #[error("node {node} is listed twice")]
    Twice {
        /// The node.
        node: u32,
    },
    /// The listed nodes are no cover.
    #[error("the edge between nodes {u} and {v} is not covered")]
    Uncovered {
        /// One end of an edge that they leave uncovered.
        u: u32,
        /// The other end.
        v: u32,
    },
    /// The listed nodes are no independent set.
    #[error("nodes {u} and {v} are joined")]
    Joined {
        /// One end of an edge between two of them.
        u: u32,
        /// The other end.
        v: u32,
    },
    /// The listed nodes are no clique.
    #[error("nodes {u} and {v} have no edge between them")]
    NotAdjacent {
        /// One of two nodes without an edge between them.
        u: u32,
        /// The other one.
        v: u32,
    },
    /// The listed nodes are no dominating set.
    #[error("node {node} is not dominated: neither it nor a neighbour is listed")]
    Undominated {
        /// A node that is not listed and has no listed neighbour.
        node: u32,
    },
    /// The system starts no thread.
    #[error("a search thread did not start: {reason}")]
    Thread {
        /// The reason of the system.
        reason: String,
    },
    /// An option is out of its range.
    #[error("{field} = {value}: expected {expected}")]
    Option {
        /// The option.
        field: &'static str,
        /// Its value, written out.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The list of node weights has another length than the graph has nodes.
    #[error("{n_weights} weights for {n_nodes} nodes: expected one weight a node")]
    Weights {
        /// The weights.
        n_weights: usize,
        /// The graph's nodes.
        n_nodes: u32,
    },
    /// The graph has more entries (two for each edge) than local search can number.
    #[error(
        "local search numbers up to {} entries, two for each edge; this graph has {n_entries}",
        u32::MAX
    )]
    TooLarge {
        /// The entries.
        n_entries: u64,
    },
    /// A node has more neighbours than local search can weigh.
    #[error(
        "local search takes nodes of fewer than {} neighbours; this graph has one of {degree} neighbours",
        1u32 << 30
    )]
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

    /// The class of the failure: the program's exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.kind {
            ErrorKind::Thread { .. } => Class::NoAnswer,
            _ => Class::Input,
        }
    }
}
