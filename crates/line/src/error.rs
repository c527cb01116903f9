//! The crate's error: variants that a caller tells apart, sentences with a cure.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shardgraph_collectives::CommError;
use shardgraph_error::{Class, SettingError};

/// Everything that this crate's functions can fail with.
///
/// ```
/// use shardgraph_error::Class;
/// use shardgraph_line::{Config, Error};
///
/// let config = Config { dim: 0, ..Config::default() };
/// let error = config.check().unwrap_err();
/// assert!(matches!(error, Error::Setting(_)) && error.class() == Class::Input);
/// assert_eq!(error.to_string(), "dim = 0: expected 1 to 65536 columns");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to open, read, write or rename.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// Verb of what failed.
        action: String,
        /// File or folder.
        path: PathBuf,
        /// Reason of the system.
        source: io::Error,
    },
    /// A graph that lacks what the job needs.
    #[error("{0}")]
    Graph(String),
    /// A graph that cannot be read.
    #[error(transparent)]
    Reader(#[from] shardgraph_graph::Error),
    /// A store or an embedding file that is damaged, cut short, or of another version or kind.
    #[error("{0}")]
    File(String),
    /// A setting out of its range, or settings that contradict each other.
    #[error("{} = {}: expected {}", .0.field, .0.given, .0.expected)]
    Setting(SettingError),
    /// The memory limit, or the machine's memory, is too small.
    #[error("{0}")]
    Memory(String),
    /// A checkpoint of other settings or of another graph.
    #[error("{0}")]
    Checkpoint(String),
    /// A wait that passed its deadline.
    #[error("{0}")]
    Timeout(String),
    /// Training left the range of numbers: the learning rate is too large.
    #[error("{0}")]
    Diverged(String),
    /// A thread could not be started, or panicked.
    #[error("{0}")]
    Thread(String),
    /// The device failed.
    #[error(transparent)]
    Device(shardgraph_device::Error),
    /// A run's folder cannot be taken, or a checkpoint there is damaged or of another version.
    #[error(transparent)]
    Job(#[from] shardgraph_job::Error),
}

impl Error {
    pub(crate) fn graph(message: impl Into<String>) -> Error {
        Error::Graph(message.into())
    }

    pub(crate) fn memory(message: impl Into<String>) -> Error {
        Error::Memory(message.into())
    }

    pub(crate) fn checkpoint(message: impl Into<String>) -> Error {
        Error::Checkpoint(message.into())
    }

    pub(crate) fn thread(message: impl Into<String>) -> Error {
        Error::Thread(message.into())
    }

    /// A setting out of its range.
    pub(crate) fn setting(field: &str, given: impl fmt::Display, expected: &str) -> Error {
        Error::Setting(SettingError::new(field, given, expected))
    }

    /// The system's error while doing `action`, a verb.
    pub(crate) fn io(action: &str, path: &Path, source: io::Error) -> Error {
        Error::Io {
            action: action.to_owned(),
            path: path.to_owned(),
            source,
        }
    }

    /// A file that is not what it should be.
    pub(crate) fn file(path: &Path, problem: impl fmt::Display) -> Error {
        Error::File(format!("{}: {problem}", path.display()))
    }

    /// Class of the failure, which is the exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Timeout(_) | Error::Diverged(_) | Error::Thread(_) | Error::Device(_) => {
                Class::NoAnswer
            }
            Error::Job(error) => error.class(),
            _ => Class::Input,
        }
    }
}

impl shardgraph_job::JobError for Error {
    fn class(&self) -> Class {
        Error::class(self)
    }

    fn comm_error(&self) -> Option<&CommError> {
        match self {
            Error::Job(error) => error.comm_error(),
            _ => None,
        }
    }
}

impl From<shardgraph_device::Error> for Error {
    fn from(error: shardgraph_device::Error) -> Error {
        match error.kind() {
            shardgraph_device::ErrorKind::OutOfMemory { .. } => Error::Memory(error.to_string()),
            _ => Error::Device(error),
        }
    }
}
