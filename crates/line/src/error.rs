//! The crate's one error: a kind, coarse enough to choose an exit code, and a sentence that says what would have been right.

use std::{fmt, io, path::Path};

/// Everything that this crate's functions can fail with.
///
/// ```
/// use shardgraph_line::{Config, ErrorKind};
///
/// let config = Config { dim: 0, ..Config::default() };
/// let error = config.check().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Config);
/// assert_eq!(error.to_string(), "dim = 0: expected 1 to 65536 columns");
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
    /// A graph that cannot be read, or that has not what the job needs.
    Graph,
    /// A file of this crate's, or an embedding file, that is damaged, cut short, or of another version or kind.
    File,
    /// A setting out of its range, or settings that contradict each other.
    Config,
    /// The memory limit, or the machine's memory, is too small for what the job holds in any case.
    Memory,
    /// A checkpoint of other settings or of another graph.
    Checkpoint,
    /// A wait that passed its deadline.
    Deadline,
    /// Training left the range of numbers: the rate is too large.
    Diverged,
    /// The device failed, or a thread could not be started.
    Device,
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
        Error::new(
            ErrorKind::Config,
            format!("{field} = {value}: expected {expected}"),
        )
    }

    /// The system's error while `doing` (a verb) `path`.
    pub(crate) fn io(doing: &str, path: &Path, source: &io::Error) -> Error {
        let message = format!("{}: cannot {doing}: {source}", path.display());
        Error::new(ErrorKind::Io, message)
    }

    /// A file that is not what it should be.
    pub(crate) fn file(path: &Path, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::File, format!("{}: {what}", path.display()))
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether what the user gave cannot be right (exit code 2 of the command line).
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(
            self.kind,
            ErrorKind::Deadline | ErrorKind::Device | ErrorKind::Diverged
        )
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
        Error::new(ErrorKind::Graph, error.to_string())
    }
}

impl From<shardgraph_device::Error> for Error {
    fn from(error: shardgraph_device::Error) -> Error {
        let kind = match error.kind() {
            shardgraph_device::ErrorKind::OutOfMemory { .. } => ErrorKind::Memory,
            _ => ErrorKind::Device,
        };
        Error::new(kind, error.to_string())
    }
}
