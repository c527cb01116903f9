//! Peers of the agents in Python: PyTorch loops, stable-baselines3, and the vectors of Gymnasium and EnvPool.

use serde_json::Value;

use crate::options::Options;
use crate::python::NONE;
use crate::report::{Failure, Report};
use crate::{paths, process};

const SCRIPT: &str = "agents_torch.py";
const NO_PYTHON: &str = "not run: PyTorch, stable-baselines3, Gymnasium, EnvPool (give --peer-python an interpreter that has them)";

/// The rows that the script prints for a request; a counted skip without an interpreter.
pub(super) fn run(options: &Options, request: &Value, out: &mut Report) -> Result<(), Failure> {
    let python = options.peer_python.as_deref();
    let Some(python) = python.filter(|python| *python != NONE) else {
        out.skip(NO_PYTHON);
        return Ok(());
    };
    let mut command = process::command(python);
    command.arg(paths::peer(SCRIPT)).arg(request.to_string());
    let mut wrong = None;
    let succeeded = process::each_line(&mut command, |line| {
        match (line.strip_prefix("SKIPPED:"), serde_json::from_str(line)) {
            (Some(why), _) => out.skip(why.trim()),
            (None, Ok(row)) => out.row(row),
            (None, Err(_)) => wrong = Some(format!("{SCRIPT} printed {line:?}")),
        }
    })?;
    match (wrong, succeeded) {
        (Some(wrong), _) => Err(wrong.into()),
        (None, false) => Err(format!("{SCRIPT} failed with {python}").into()),
        (None, true) => Ok(()),
    }
}
