//! The same work in PyTorch, from an environment that is made for it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::super::program;
use super::super::regal::python;
use super::{Row, Runner};
use crate::definition::{number, string, strings};
use crate::json::{self, Json};
use crate::process::{self, Ended};
use crate::project;
use crate::statistics::summary;
use crate::toml::{Table, Value};

const SCRIPT: &str = "xtask/peers/solver_torch.py";

/// The script's exit code without PyTorch.
const NO_PYTORCH: i32 = 3;

/// Longer than any request here takes.
const LIMIT_S: f64 = 1800.0;

/// In place of an interpreter: no peer.
pub(super) const NONE: &str = "none";

/// A row for each x, with our number of the series that it stands against.
pub(super) fn rows(runner: &Runner<'_>, series: &Table, before: &[Row]) -> Result<Vec<Row>> {
    let name = string(series, "name")?;
    let against = string(series, "against")?;
    let left_out = runner.left_out(series);
    let python = match left_out {
        Some(reason) => Err(reason),
        None => interpreter(runner, series)?,
    };
    let mut rows = Vec::new();
    for x in runner.xs(series)? {
        let is_it = |row: &&Row| row.series == against && (row.x - x).abs() < 1e-9;
        let ours = before.iter().find(is_it).and_then(|row| row.ours);
        let (peer, note) = match (&python, runner.too_large(series, x)) {
            (_, Some(reason)) => (None, reason),
            // The rows of ours are worth their hours without the peer's.
            (Ok(python), None) => match seconds(runner, series, (python, x)) {
                Ok((seconds, version)) => (Some(seconds), format!("PyTorch {version}")),
                Err(error) => (None, format!("not run: {error:#}")),
            },
            (Err(reason), None) => (None, reason.clone()),
        };
        rows.push(Row {
            series: name.clone(),
            x,
            paper: None,
            ours,
            peer,
            is_peer: true,
            note,
        });
    }
    Ok(rows)
}

/// The interpreter, or why there is none.
fn interpreter(runner: &Runner<'_>, series: &Table) -> Result<Result<PathBuf, String>> {
    match runner.options.peer_python.as_deref() {
        Some(NONE) => Ok(Err("not run: --peer-python none".to_owned())),
        Some(python) => Ok(Ok(PathBuf::from(python))),
        None => {
            let packages = strings(series, "packages")?;
            let made = python::environment("torch", &packages)?;
            Ok(made.map_err(|reason| format!("not run: {reason}")))
        }
    }
}

/// The median of the peer's runs, and its version.
fn seconds(
    runner: &Runner<'_>,
    series: &Table,
    (python, x): (&std::path::Path, f64),
) -> Result<(f64, String)> {
    let request = request(runner, series, x)?;
    let mut command = process::command(python);
    command.args([SCRIPT, &request.to_string()]);
    let mut printed = String::new();
    let ended = process::each_line_within(&mut command, LIMIT_S, |line| printed.push_str(line))?;
    match ended {
        Ended::InTime(status) if status.success() => (),
        Ended::InTime(status) if status.code() == Some(NO_PYTORCH) => {
            bail!("{} has no PyTorch", python.display())
        }
        Ended::InTime(status) => bail!("{SCRIPT} ended with {status}"),
        Ended::Killed => bail!("{SCRIPT} was killed after {LIMIT_S} s"),
    }
    let answer = json::parse(&printed)?;
    let all = answer.get("seconds").and_then(Json::as_array);
    let all: Option<Vec<f64>> = all.map(|all| all.iter().filter_map(Json::as_number).collect());
    let median = all
        .as_deref()
        .and_then(summary)
        .map(|summary| summary.median);
    let version = answer.get("version").and_then(Json::as_str);
    let seconds = median.context("the peer gave no seconds")?;
    Ok((seconds, version.unwrap_or("of no version").to_owned()))
}

/// The table `request`, with the sizes of the run; `by = "nodes"` puts x there.
fn request(runner: &Runner<'_>, series: &Table, x: f64) -> Result<Json> {
    let own = series.get("request").and_then(Value::as_table);
    let Json::Object(mut pairs) = program::object(own.context("a peer has a table `request`")?)
    else {
        bail!("a request is a table");
    };
    let mut put = |key: &str, value: f64| pairs.insert(key.to_owned(), Json::Number(value));
    put("runs", f64::from(runner.n_runs(series)?));
    put("threads", number(series, "threads").unwrap_or(1.0));
    match series.get("by").and_then(Value::as_str) {
        Some(key) => put(key, x),
        None => match runner.size(series, "nodes") {
            Ok(nodes) => put("nodes", nodes),
            Err(_) => None,
        },
    };
    if let Ok(file) = string(series, "data") {
        let path = project::data().join(file).display().to_string();
        pairs.insert("graph".to_owned(), Json::text(&path));
    }
    Ok(Json::Object(pairs))
}
