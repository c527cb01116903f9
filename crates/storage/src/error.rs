//! The crate's errors; each names its file or folder.

use std::io;
use std::path::{Path, PathBuf};

use shardgraph_error::{Class, Kind, LocatedError};

/// Everything that this crate's functions can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to open, read or lock.
    #[error("{file}: cannot {doing}: {source}")]
    Io {
        /// File or folder.
        file: String,
        /// Verb, as in `open`.
        doing: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A folder or a device where a file is meant, or a pipe that gives too much.
    #[error("{file}: {reason}")]
    NotReadable {
        /// Name of the input.
        file: String,
        /// Finding and cure.
        reason: String,
    },
    /// A compressed stream that is damaged, ends early or expands suspiciously.
    #[error("{}: {reason}", at_line(.file, *.line))]
    Compression {
        /// Name of the input.
        file: String,
        /// Line of the text, counted from 1; 0 where no line is meant.
        line: u64,
        /// Finding and cure.
        reason: String,
    },
    /// A folder that another process holds.
    #[error(
        "{}: another process trains in this folder: wait for it, or choose another folder",
        .folder.display()
    )]
    FolderHeld {
        /// The folder.
        folder: PathBuf,
    },
    /// Bytes that are no NumPy array of two dimensions.
    #[error("{reason}")]
    Npy {
        /// Finding and cure.
        reason: String,
    },
    /// Bytes that no [`crate::Encoder`] made for this reading.
    #[error("byte {at}: expected {expected}, found {n_left} more bytes")]
    Truncated {
        /// Position in the bytes.
        at: usize,
        /// Value that should be there.
        expected: &'static str,
        /// Bytes from there to the end.
        n_left: usize,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let file = path.display().to_string();
        move |source| Error::Io {
            file,
            doing,
            source,
        }
    }

    /// Always [`Class::Input`]: a file or folder of the user's is not as it has to be.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::Input
    }
}

impl<K: Kind> From<Error> for LocatedError<K> {
    fn from(error: Error) -> Self {
        match error {
            Error::Io {
                file,
                doing,
                source,
            } => Self::io(doing, Path::new(&file), source),
            Error::NotReadable { file, reason } => Self::new(K::IO, reason).or_at(&file, 0, 0),
            Error::Compression { file, line, reason } => {
                Self::new(K::COMPRESSION, reason).or_at(&file, line, 0)
            }
            other => Self::new(K::IO, other.to_string()),
        }
    }
}

fn at_line(file: &str, line: u64) -> String {
    match line {
        0 => file.to_owned(),
        _ => format!("{file}:{line}"),
    }
}
