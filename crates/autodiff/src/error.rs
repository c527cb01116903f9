//! What can go wrong while a program is checked, run or differentiated.

use std::fmt;

use shardgraph_collectives::CommError;

use crate::Shape;

/// An error of this crate.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes that do not fit: the operation, what it was given, and what would have been right.
    Shape {
        /// Name of the operation.
        op: &'static str,
        /// The shapes of its operands.
        given: Vec<Shape>,
        /// What would have been right.
        expected: String,
    },
    /// An operation whose adjoint is not defined (only losses' derivatives); the payload is its name.
    NoAdjoint(&'static str),
    /// The device refused.
    Device(shardgraph_device::Error),
    /// A collective operation failed.
    Comm(CommError),
    /// A call that cannot be right; the payload says what to do.
    Usage(String),
    /// Devices and libraries of the ranks that do not go together; the payload says who has what, and what would be right.
    Setup(String),
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The failed collective operation, where that is the cause.
    pub fn comm_error(&self) -> Option<&CommError> {
        match &self.kind {
            ErrorKind::Comm(error) => Some(error),
            _ => None,
        }
    }

    /// The device's error, where that is the cause.
    pub fn device_error(&self) -> Option<&shardgraph_device::Error> {
        match &self.kind {
            ErrorKind::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

impl From<shardgraph_device::Error> for Error {
    fn from(error: shardgraph_device::Error) -> Self {
        ErrorKind::Device(error).into()
    }
}

impl From<CommError> for Error {
    fn from(error: CommError) -> Self {
        ErrorKind::Comm(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Shape {
                op,
                given,
                expected,
            } => {
                let given: Vec<String> = given.iter().map(Shape::to_string).collect();
                write!(f, "{op}: {} do not fit: {expected}", given.join(" and "))
            }
            ErrorKind::NoAdjoint(op) => {
                write!(f, "{op}: second derivatives of a loss are not defined")
            }
            ErrorKind::Device(error) => error.fmt(f),
            ErrorKind::Comm(error) => error.fmt(f),
            ErrorKind::Usage(text) | ErrorKind::Setup(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
