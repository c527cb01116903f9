//! The crate's errors: folders that cannot be taken, damaged files, ranks that disagree or are lost, wrong settings.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shardgraph_collectives::{CommError, CommErrorKind};
use shardgraph_error::Class;

/// Everything that this crate's functions can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder that could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A run's folder that cannot be taken.
    #[error("{}: {reason}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Finding and cure.
        reason: String,
    },
    /// A file that is damaged, incomplete, or something else than its name says.
    #[error("{path}: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// Finding and cure.
        reason: String,
    },
    /// A JSON file of another version.
    #[error(
        "{path}: version {given} is not known here: this program reads version {expected}; go on with the program that wrote it"
    )]
    Version {
        /// The file.
        path: String,
        /// The version that this program reads.
        expected: u32,
        /// The version in the file, as JSON.
        given: String,
    },
    /// A checkpoint of a run on another kind of device.
    #[error(
        "{path}: the run computes on `{expected}`, and `{given}` rounds otherwise: resume it with --device {expected}"
    )]
    Device {
        /// The checkpoint.
        path: String,
        /// The kind of the run.
        expected: String,
        /// The kind that was asked for.
        given: String,
    },
    /// Something that cannot be written: a mistake of the calling program.
    #[error("{method}: {reason}")]
    Refused {
        /// Type and method, as `Checkpoint::add`.
        method: &'static str,
        /// Finding and cure.
        reason: String,
    },
    /// Bytes of another rank that are no whole checkpoint.
    #[error(
        "a checkpoint arrived incomplete; give Checkpoint::from_bytes all bytes of Checkpoint::to_bytes"
    )]
    Torn,
    /// Options of a run that cannot be right together.
    #[error("{0}")]
    Options(String),
    /// Ranks with different inputs.
    #[error(
        "rank {rank} has another {fact} than rank 0: start all ranks with the same arguments and files"
    )]
    Disagreement {
        /// The first rank that differs.
        rank: usize,
        /// Name of the input.
        fact: String,
    },
    /// Ranks that trained different parameters: a defect of the program.
    #[error(
        "the program contradicts itself, please report this: the ranks trained different parameters"
    )]
    DifferentParameters,
    /// A settings file that is not as it has to be.
    #[error("{file}:{line}: {}{reason}", in_key(.key))]
    Settings {
        /// The file.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// Dotted key; empty where the error is in no key.
        key: String,
        /// Finding and cure.
        reason: String,
    },
    /// A collective operation failed.
    #[error(transparent)]
    Comm(#[from] CommError),
}

impl Error {
    /// Class of the failure, which is the exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Refused { .. } | Error::Torn | Error::DifferentParameters => Class::NoAnswer,
            Error::Comm(error) => class_of_comm(error),
            _ => Class::Input,
        }
    }

    /// True if a file is gone or damaged, rather than that the system could not read it now.
    pub(crate) fn is_damage(&self) -> bool {
        let Error::Io { source, .. } = self else {
            return true;
        };
        let is_no_file = [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory];
        is_no_file.contains(&source.kind())
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    }

    pub(crate) fn folder(path: &Path, reason: impl Into<String>) -> Error {
        Error::Folder {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }

    pub(crate) fn damaged(path: impl fmt::Display, reason: impl Into<String>) -> Error {
        Error::Damaged {
            path: path.to_string(),
            reason: reason.into(),
        }
    }

    pub(crate) fn refused(method: &'static str, reason: impl Into<String>) -> Error {
        Error::Refused {
            method,
            reason: reason.into(),
        }
    }
}

/// Class of a failed collective operation: that of the rank which ended the world, if it announced one.
pub fn class_of_comm(error: &CommError) -> Class {
    match error.kind() {
        CommErrorKind::Argument { .. } | CommErrorKind::Panicked { .. } => Class::NoAnswer,
        CommErrorKind::Aborted { class, .. } => class.unwrap_or(Class::LostRank),
        CommErrorKind::NoThread { .. } => Class::MissingDevice,
        _ => Class::LostRank,
    }
}

fn in_key(key: &str) -> String {
    match key {
        "" | "." => String::new(),
        key => format!("`{key}`: "),
    }
}

impl From<shardgraph_storage::Error> for Error {
    fn from(error: shardgraph_storage::Error) -> Error {
        use shardgraph_storage::Error as Storage;
        match error {
            Storage::Io { file, source, .. } => Error::io(Path::new(&file))(source),
            Storage::FolderHeld { ref folder } => {
                let reason =
                    "another process trains in this folder: wait for it, or choose another folder";
                Error::folder(folder, reason)
            }
            _ => Error::Torn,
        }
    }
}

/// Error of a job that [`crate::run`] and [`crate::Ranks`] can pass on, compare and announce to other ranks.
pub trait JobError: std::error::Error + From<Error> {
    /// Class of the failure.
    fn class(&self) -> Class;

    /// The failed collective operation, where that is the cause.
    fn comm_error(&self) -> Option<&CommError>;
}

impl JobError for Error {
    fn class(&self) -> Class {
        Error::class(self)
    }

    fn comm_error(&self) -> Option<&CommError> {
        match self {
            Error::Comm(error) => Some(error),
            _ => None,
        }
    }
}
