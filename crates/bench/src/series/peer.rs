//! A peer's seconds beside our number of another series, measured in the same run by a script in Python.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::data;
use crate::figure::{By, Point, Series};
use crate::measure::{self, Context};
use crate::paths;
use crate::process::{self, Ended};
use crate::python;
use crate::row::{Measured, Row};
use crate::statistics::summary;

/// A script's exit code where the interpreter lacks the package.
const NO_PACKAGE: i32 = 3;

/// The limit of one request.
const LIMIT_S: f64 = 1800.0;

/// The rows of a series.
pub(super) fn rows(context: &Context<'_>, series: &Series, before: &[Row]) -> Result<Vec<Row>> {
    let python = match data::absent(&series.data).filter(|_| !context.options.test) {
        Some(why) => Err(why),
        None => python::interpreter(context.options, "torch", &series.packages)?,
    };
    let mut rows = Vec::new();
    for x in super::points(context, series).iter().map(Point::number) {
        let is_it = |row: &&Row| row.series == series.against && row.x == x;
        let ours = before.iter().find(is_it).and_then(Row::ours);
        let (peer, note) = match (&python, super::too_large(context, series, x)) {
            (_, Some(why)) => (None, why),
            (Err(why), None) => (None, why.clone()),
            (Ok(python), None) => match seconds(context, series, python, x) {
                Ok((seconds, note)) => (Some(seconds), note),
                Err(error) => (None, format!("not run: {error:#}")),
            },
        };
        let beside = ours.filter(|_| peer.is_some());
        rows.push(Row {
            series: series.name.clone(),
            x,
            values: beside
                .map(|ours| Measured::new("ours", vec![ours]))
                .into_iter()
                .collect(),
            peer,
            note,
            ..Row::default()
        });
    }
    Ok(rows)
}

/// The median of the peer's seconds, and what it is.
fn seconds(
    context: &Context<'_>,
    series: &Series,
    python: &Path,
    x: Option<f64>,
) -> Result<(f64, String)> {
    let request = request(context, series, x)?;
    let mut command = process::command(python);
    command
        .arg(paths::peer(&series.script))
        .arg(request.to_string());
    let mut printed = String::new();
    let ended = process::each_line_within(&mut command, LIMIT_S, |line| printed.push_str(line))?;
    let script = &series.script;
    match ended {
        Ended::InTime(status) if status.success() => (),
        Ended::InTime(status) if status.code() == Some(NO_PACKAGE) => {
            bail!("{} has no PyTorch", python.display())
        }
        Ended::InTime(status) => bail!("{script} ended with {status}"),
        Ended::Killed => bail!("{script} was killed after {LIMIT_S} s"),
    }
    let answer: Value = serde_json::from_str(&printed).with_context(|| printed.clone())?;
    let all = answer.get("seconds").and_then(Value::as_array);
    let all: Vec<f64> = all
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    let median = summary(&all).context("the peer gave no seconds")?.median;
    let version = answer.get("version").and_then(Value::as_str);
    Ok((
        median,
        format!("PyTorch {}", version.unwrap_or("of no version")),
    ))
}

fn request(context: &Context<'_>, series: &Series, x: Option<f64>) -> Result<Value> {
    let mut request = measure::request(context, series)?;
    request["runs"] = json!(super::n_runs(context, series));
    if request.get("threads").is_none() {
        request["threads"] = json!(1);
    }
    let of_x = x.filter(|_| series.by == Some(By::Nodes));
    if let Some(nodes) = of_x.or_else(|| super::size(context, series, "nodes")) {
        request["nodes"] = json!(nodes);
    }
    if let Some(file) = series.data.first() {
        let path: PathBuf = paths::data().join(file);
        request["graph"] = json!(path);
    }
    Ok(request)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::figure::Figure;
    use crate::options::Options;

    const FIGURE: &str = "title = 't'\n[[series]]\nname = 'b'\nkind = 'peer'\nagainst = 'a'\nscript = 'solver_torch.py'\nxs = [2]\nsizes = { nodes = 70 }\nrequest = { form = 'csr' }\n";

    /// The peer's row by an interpreter that is a shell script.
    fn row(name: &str, script: &str) -> Row {
        let figure: Figure = toml::from_str(FIGURE).unwrap();
        let scratch = paths::fresh_scratch(&format!("peer-{name}-{}", std::process::id())).unwrap();
        let python = scratch.join("python");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options {
            peer_python: Some(python.display().to_string()),
            ..Options::default()
        };
        let context = Context {
            figure: &figure,
            options: &options,
            program: PathBuf::new(),
            scratch: scratch.clone(),
        };
        let before = [Row {
            series: "a".to_owned(),
            x: Some(2.0),
            values: vec![Measured::new("seconds", vec![0.5])],
            ..Row::default()
        }];
        let rows = rows(&context, &figure.series[0], &before).unwrap();
        fs::remove_dir_all(&scratch).unwrap();
        rows[0].clone()
    }

    #[test]
    fn the_peers_median_stands_beside_our_number() {
        // The request has the sizes; without them the script fails.
        let found = row(
            "median",
            "case \"$2\" in *'\"nodes\":70'*) ;; *) exit 9;; esac\necho '{\"seconds\": [3, 1, 2], \"version\": \"9\"}'",
        );
        assert_eq!((found.ours(), found.peer), (Some(0.5), Some(2.0)));
        assert_eq!(
            (found.ratio(), found.note.as_str()),
            (Some(4.0), "PyTorch 9")
        );
    }

    #[test]
    fn a_peer_that_cannot_run_is_a_row_that_says_so() {
        for (name, exit, why) in [("none", 3, "has no PyTorch"), ("broken", 9, "ended with")] {
            let found = row(name, &format!("exit {exit}"));
            assert_eq!((found.peer, found.ours()), (None, None));
            assert!(found.note.starts_with("not run: ") && found.note.contains(why));
        }
    }
}
