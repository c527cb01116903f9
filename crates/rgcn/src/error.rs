//! The crate's error: a kind for each of what callers tell apart, and a sentence with what would
//! have been right.

use std::fmt;

use shardgraph_collectives::CommError;
use shardgraph_error::Class;
use shardgraph_job::{JobError, class_of_comm};

/// Failure of one of this crate's functions.
///
/// ```
/// use shardgraph_rgcn::{Error, RelationalGraph};
///
/// let error = RelationalGraph::new(2, 1, vec![0], vec![0], vec![2]).unwrap_err();
/// assert!(matches!(error, Error::Graph(_)));
/// assert_eq!(error.to_string(), "edge 0: target 2: expected a node below 2");
/// assert_eq!(error.class().exit_code(), 2);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to open, read, write or rename.
    #[error("{0}")]
    Io(String),
    /// A graph that cannot be read, or whose ids are out of range.
    #[error("{0}")]
    Graph(String),
    /// Labels that cannot be read, or that do not fit the graph.
    #[error("{0}")]
    Labels(String),
    /// A setting out of its range, or settings that contradict each other.
    #[error("{0}")]
    Config(String),
    /// A budget or a limit that is too small for what the job holds in any case.
    #[error("{0}")]
    Memory(String),
    /// A checkpoint or a model of other settings, of another graph, or damaged.
    #[error("{0}")]
    Checkpoint(String),
    /// Training left the range of numbers: the rate is too large.
    #[error("{0}")]
    Diverged(String),
    /// The thread that makes tiles was lost, or waited past its deadline.
    #[error("{0}")]
    Tiles(String),
    /// A rank was lost, waited past its deadline, had no thread, or ended the run for a reason that it announced.
    #[error(transparent)]
    Rank(#[from] CommError),
    /// An operation of the device failed.
    #[error(transparent)]
    Device(#[from] shardgraph_device::Error),
    /// An operation of the network on a device failed, for another reason than the device's.
    #[error(transparent)]
    Operation(shardgraph_autodiff::Error),
}

impl Error {
    /// An error of a kind.
    pub(crate) fn new(kind: fn(String) -> Error, message: impl Into<String>) -> Error {
        kind(message.into())
    }

    /// A setting out of its range.
    pub(crate) fn config(field: &str, value: impl fmt::Display, expected: &str) -> Error {
        Error::Config(format!("{field} = {value}: expected {expected}"))
    }

    /// An error in a file, at a line and a byte in it, both counted from 1; 0 where none is meant.
    pub(crate) fn at(
        kind: fn(String) -> Error,
        file: &str,
        line: u64,
        column: u64,
        reason: &str,
    ) -> Error {
        kind(match (line, column) {
            (0, _) => format!("{file}: {reason}"),
            (_, 0) => format!("{file}:{line}: {reason}"),
            _ => format!("{file}:{line}:{column}: {reason}"),
        })
    }

    /// The class of the failure, which is the exit code of the program.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Diverged(_) => Class::NoAnswer,
            Error::Tiles(_) => Class::LostRank,
            Error::Rank(error) => class_of_comm(error),
            Error::Device(error) => error.class(),
            Error::Operation(error) => error.class(),
            _ => Class::Input,
        }
    }
}

/// The error of weights that are no numbers.
pub(crate) fn diverged() -> Error {
    let message = "training left the range of numbers: expected finite weights; choose a smaller --learning-rate";
    Error::new(Error::Diverged, message)
}

impl From<shardgraph_autodiff::Error> for Error {
    fn from(error: shardgraph_autodiff::Error) -> Error {
        match error {
            shardgraph_autodiff::Error::Device(error) => Error::Device(error),
            shardgraph_autodiff::Error::Comm(error) => error.into(),
            error => Error::Operation(error),
        }
    }
}

impl From<shardgraph_graph::Error> for Error {
    fn from(error: shardgraph_graph::Error) -> Error {
        match error.kind() {
            shardgraph_graph::ErrorKind::Io => Error::Io(error.to_string()),
            _ => Error::Graph(error.to_string()),
        }
    }
}

impl From<shardgraph_storage::Error> for Error {
    fn from(error: shardgraph_storage::Error) -> Error {
        match error {
            shardgraph_storage::Error::Compression { .. } => Error::Graph(error.to_string()),
            _ => Error::Io(error.to_string()),
        }
    }
}

impl From<shardgraph_job::Error> for Error {
    fn from(error: shardgraph_job::Error) -> Error {
        match error {
            shardgraph_job::Error::Io { .. } => Error::Io(error.to_string()),
            shardgraph_job::Error::Comm(error) => error.into(),
            shardgraph_job::Error::Disagreement { .. } => Error::Config(error.to_string()),
            _ => Error::Checkpoint(error.to_string()),
        }
    }
}

impl JobError for Error {
    fn class(&self) -> Class {
        Error::class(self)
    }

    fn comm_error(&self) -> Option<&CommError> {
        match self {
            Error::Rank(error) => Some(error),
            _ => None,
        }
    }
}
