//! The crate's one error: a kind, coarse enough to choose an exit code, and a sentence that says what would have been right.

use std::fmt;

/// Everything that this crate's functions can fail with.
///
/// ```
/// use shardgraph_rgcn::{ErrorKind, RelationalGraph};
///
/// let error = RelationalGraph::new(2, 1, vec![0], vec![0], vec![2]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Graph);
/// assert_eq!(error.to_string(), "edge 0: target 2: expected a node below 2");
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read, write or rename.
    Io,
    /// A graph that cannot be read, or whose ids are out of range.
    Graph,
    /// Labels that cannot be read, or that do not fit the graph.
    Labels,
    /// A setting out of its range, or settings that contradict each other.
    Config,
    /// A budget or a limit that is too small for what the job holds in any case.
    Memory,
    /// A checkpoint or a model of other settings, of another graph, or damaged.
    Checkpoint,
    /// Training left the range of numbers: the rate is too large.
    Diverged,
    /// A rank was lost, or waited past its deadline.
    Rank,
}

impl Error {
    /// An error of a kind.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            kind,
            message: message.into(),
        }
    }

    /// A setting out of its range.
    pub(crate) fn config(field: &str, value: impl fmt::Display, expected: &str) -> Error {
        let message = format!("{field} = {value}: expected {expected}");
        Error::new(ErrorKind::Config, message)
    }

    /// An error in a file, at a line and a byte in it, both counted from 1; 0 where none is meant.
    pub(crate) fn at(kind: ErrorKind, file: &str, line: u64, column: u64, reason: &str) -> Error {
        let message = match (line, column) {
            (0, _) => format!("{file}: {reason}"),
            (_, 0) => format!("{file}:{line}: {reason}"),
            _ => format!("{file}:{line}:{column}: {reason}"),
        };
        Error::new(kind, message)
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether what the user gave cannot be right (exit code 2 of the command line).
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self.kind, ErrorKind::Diverged | ErrorKind::Rank)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<shardgraph_graph::Error> for Error {
    fn from(error: shardgraph_graph::Error) -> Error {
        let kind = match error.kind() {
            shardgraph_graph::ErrorKind::Io => ErrorKind::Io,
            _ => ErrorKind::Graph,
        };
        Error::new(kind, error.to_string())
    }
}

impl From<shardgraph_collectives::CommError> for Error {
    fn from(error: shardgraph_collectives::CommError) -> Error {
        Error::new(ErrorKind::Rank, error.to_string())
    }
}

impl From<shardgraph_runs::Error> for Error {
    fn from(error: shardgraph_runs::Error) -> Error {
        let kind = match error.kind() {
            shardgraph_runs::ErrorKind::Io { .. } => ErrorKind::Io,
            _ => ErrorKind::Checkpoint,
        };
        Error::new(kind, error.to_string())
    }
}
