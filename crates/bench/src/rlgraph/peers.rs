//! Peers of the agents in Python: PyTorch loops, stable-baselines3, and the vectors of Gymnasium and EnvPool.

use serde_json::Value;

use crate::options::Options;
use crate::process;
use crate::report::{Failure, Report};

const SCRIPT: &str = "agents_torch.py";
const NO_PYTHON: &str = "not run: PyTorch, stable-baselines3, Gymnasium, EnvPool (give --peer-python an interpreter that has them)";

/// The rows that the script prints for a request; a counted skip without an interpreter.
pub(super) fn run(options: &Options, request: &Value, out: &mut Report) -> Result<(), Failure> {
    let Some(python) = options.interpreter() else {
        out.skip(NO_PYTHON);
        return Ok(());
    };
    process::peer_rows(python, SCRIPT, request, out)
}
