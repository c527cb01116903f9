//! What can go wrong on a device.

use std::fmt;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name that is no device kind; the payload is the name.
    UnknownDevice(String),
    /// A back end that this build does not have; the payload is its name.
    Unavailable(String),
    /// A buffer of the wrong length: operation, operand, length wanted, length given.
    Length {
        /// The operation that was called.
        op: &'static str,
        /// The operand that does not fit.
        operand: &'static str,
        /// The number of elements that the operation needs.
        wanted: usize,
        /// The number of elements that it was given.
        given: usize,
    },
    /// A row index outside the table: operation, index, rows of the table.
    Index {
        /// The operation that was called.
        op: &'static str,
        /// The offending index.
        index: u64,
        /// The number of rows that exist.
        n_rows: u64,
    },
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether the wanted device is missing (exit code 3 of the command line).
    pub fn is_missing_device(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable(_))
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::UnknownDevice(name) => write!(
                f,
                "unknown device `{name}`: expected host, emulated, cuda or cuda:N"
            ),
            ErrorKind::Unavailable(name) => write!(
                f,
                "device `{name}` is not part of this build: use --device host"
            ),
            ErrorKind::Length {
                op,
                operand,
                wanted,
                given,
            } => write!(
                f,
                "{op}: operand `{operand}` has {given} elements, {wanted} are needed"
            ),
            ErrorKind::Index { op, index, n_rows } => {
                write!(f, "{op}: row {index} is outside a table of {n_rows} rows")
            }
        }
    }
}

impl std::error::Error for Error {}
