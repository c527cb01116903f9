//! Errors of programs that are checked, run or differentiated.

use shardgraph_collectives::{CommError, CommErrorKind};
use shardgraph_error::Class;

use crate::Shape;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes that do not fit: the operation, its operands' shapes, and what would have been right.
    #[error("{op}: {} do not fit: {expected}", shapes(.given))]
    Shape {
        /// Name of the operation.
        op: &'static str,
        /// The shapes of its operands.
        given: Vec<Shape>,
        /// The shapes that would have been right.
        expected: String,
    },
    /// An operation whose adjoint is not defined (only losses' derivatives); the payload is its name.
    #[error("{0}: second derivatives of a loss are not defined")]
    NoAdjoint(&'static str),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] shardgraph_device::Error),
    /// A collective operation failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A call that cannot be right; the payload names the cure.
    #[error("{0}")]
    Usage(String),
    /// Devices and libraries of the ranks that do not go together: each rank's, and what would be right.
    #[error("{0}")]
    Setup(String),
}

fn shapes(given: &[Shape]) -> String {
    let given: Vec<String> = given.iter().map(Shape::to_string).collect();
    given.join(" and ")
}

impl Error {
    /// The class of the failure: the program's exit code.
    pub fn class(&self) -> Class {
        match self {
            Self::Device(error) => error.class(),
            Self::Comm(error) => match error.kind() {
                CommErrorKind::Argument { .. } | CommErrorKind::Panicked { .. } => Class::NoAnswer,
                CommErrorKind::NoThread { .. } => Class::MissingDevice,
                _ => Class::LostRank,
            },
            Self::Setup(_) => Class::Input,
            _ => Class::NoAnswer,
        }
    }

    /// The failed collective operation, where that is the cause.
    pub fn comm_error(&self) -> Option<&CommError> {
        match self {
            Self::Comm(error) => Some(error),
            _ => None,
        }
    }

    /// The device's error, where that is the cause.
    pub fn device_error(&self) -> Option<&shardgraph_device::Error> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}
