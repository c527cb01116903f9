//! From the crates' errors to Python's: ReadError with path and line, CapacityError, ValueError, OSError.

use std::error::Error as _;
use std::io;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use shardgraph_error::Class;

/// An error as Python sees it.
pub(crate) trait IntoPyErr {
    /// The exception that stands for this error.
    fn into_py(self, py: Python<'_>) -> PyErr;
}

/// An exception of `shardgraph._errors`.
fn exception<A>(py: Python<'_>, name: &str, args: A) -> PyErr
where
    A: for<'py> pyo3::call::PyCallArgs<'py>,
{
    let made = py
        .import("shardgraph._errors")
        .and_then(|module| module.getattr(name))
        .and_then(|class| class.call1(args));
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

/// A `CapacityError` with this sentence.
pub(crate) fn capacity(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "CapacityError", (message,))
}

/// A `ReadError`: the sentence, the file and the line, 0 for none.
pub(crate) fn read_error(py: Python<'_>, message: &str, path: &str, line: u64) -> PyErr {
    exception(py, "ReadError", (message, path, line))
}

/// The exception of a class of failures.
pub(crate) fn by_class(class: Class, message: String) -> PyErr {
    match class {
        Class::Input => PyValueError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    }
}

impl IntoPyErr for shardgraph_graph::Error {
    fn into_py(self, py: Python<'_>) -> PyErr {
        use shardgraph_graph::ErrorKind;
        let message = self.to_string();
        let cause = self.source().and_then(|source| source.downcast_ref());
        match (self.kind(), cause) {
            (ErrorKind::TooLarge, _) => capacity(py, &message),
            (ErrorKind::Io, Some(cause)) => io_error(cause, &message),
            _ if !self.place().file.is_empty() => {
                read_error(py, &message, &self.place().file, self.place().line)
            }
            _ => PyValueError::new_err(message),
        }
    }
}

/// The subclass of OSError of this kind, with our sentence.
pub(crate) fn io_error(cause: &io::Error, message: &str) -> PyErr {
    io::Error::new(cause.kind(), message).into()
}

impl IntoPyErr for shardgraph_solver::Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}

impl IntoPyErr for shardgraph_classical::Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}

/// A wrong argument, in a sentence.
pub(crate) struct Wrong(pub(crate) String);

impl IntoPyErr for Wrong {
    fn into_py(self, _: Python<'_>) -> PyErr {
        PyValueError::new_err(self.0)
    }
}

impl IntoPyErr for PyErr {
    fn into_py(self, _: Python<'_>) -> PyErr {
        self
    }
}
