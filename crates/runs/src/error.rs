//! What can go wrong in this crate: folders that cannot be taken, files that are damaged, and contents that cannot be kept.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate; [`Error::kind`] says which.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder that could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A run's folder that cannot be taken.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A file that is damaged, incomplete, or something else than its name says.
    Damaged {
        /// The file.
        path: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A JSON file of another version.
    Version {
        /// The file.
        path: String,
        /// The version that this program reads.
        expected: u32,
        /// What the file says, as JSON.
        given: String,
    },
    /// A checkpoint of a run on another kind of device.
    Device {
        /// The checkpoint.
        path: String,
        /// The kind that the run is on.
        expected: String,
        /// The kind that it was to go on on.
        given: String,
    },
    /// Something that cannot be written: a mistake of the calling program.
    Refused {
        /// Type and method, as `Checkpoint::add`.
        method: &'static str,
        /// What was given, what is expected.
        reason: String,
    },
    /// Bytes of another rank that are no whole checkpoint.
    Torn,
}

impl Error {
    /// Which error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether this tells of a file that is gone or damaged, and not of a system that could not read it now.
    pub(crate) fn is_damage(&self) -> bool {
        let ErrorKind::Io { source, .. } = &self.kind else {
            return true;
        };
        let is_no_file = [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory];
        is_no_file.contains(&source.kind())
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| ErrorKind::Io { path, source }.into()
    }

    pub(crate) fn folder(path: &Path, reason: impl Into<String>) -> Error {
        let (path, reason) = (path.to_path_buf(), reason.into());
        ErrorKind::Folder { path, reason }.into()
    }

    pub(crate) fn damaged(path: impl fmt::Display, reason: impl Into<String>) -> Error {
        let (path, reason) = (path.to_string(), reason.into());
        ErrorKind::Damaged { path, reason }.into()
    }

    pub(crate) fn refused(method: &'static str, reason: impl Into<String>) -> Error {
        let reason = reason.into();
        ErrorKind::Refused { method, reason }.into()
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
            ErrorKind::Io { path, source } => write!(f, "{}: {source}", path.display()),
            ErrorKind::Folder { path, reason } => write!(f, "{}: {reason}", path.display()),
            ErrorKind::Damaged { path, reason } => write!(f, "{path}: {reason}"),
            ErrorKind::Version {
                path,
                expected,
                given,
            } => write!(
                f,
                "{path}: version {given} is not known here: this program reads version {expected}; go on with the program \
                 that wrote it"
            ),
            ErrorKind::Device {
                path,
                expected,
                given,
            } => write!(
                f,
                "{path}: the run computes on `{expected}`, and `{given}` rounds otherwise: resume it with --device {expected}"
            ),
            ErrorKind::Refused { method, reason } => write!(f, "{method}: {reason}"),
            ErrorKind::Torn => write!(
                f,
                "a checkpoint arrived incomplete; give Checkpoint::from_bytes all bytes of Checkpoint::to_bytes"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
