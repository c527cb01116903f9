//! The `shardgraph` command, whole: the Python package's script calls it.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

/// The exit code of Rust's own binaries after a panic.
const PANICKED: u8 = 101;

/// Runs the `shardgraph` command of these arguments, the program's name first; its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(|| shardgraph_cli::run(arguments))));
    outcome.unwrap_or(PANICKED)
}
