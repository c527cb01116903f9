//! Criterion's benches, sample by sample.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::built::cargo;
use crate::measure::Context;
use crate::paths;
use crate::process;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// A bench target of criterion.
    target: String,
}

/// A row for each function of the target.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    if context.options.test {
        out.skip("criterion's benches are tested by the stage `micro-benches`");
        return Ok(());
    }
    let home = paths::fresh_scratch("criterion")?;
    let mut bench = cargo(&[
        "bench",
        "--workspace",
        "--locked",
        "--bench",
        &request.target,
    ]);
    bench.env("CRITERION_HOME", &home);
    process::check(&mut bench)?;
    let lines = samples_below(&home)?;
    if lines.is_empty() {
        return Err(format!("`{}` left no samples of criterion", request.target).into());
    }
    lines.into_iter().for_each(|line| out.row(line));
    Ok(())
}

/// Lines of the folders that hold samples, however deep.
fn samples_below(folder: &Path) -> Result<Vec<Value>> {
    let sample = folder.join("new/sample.json");
    if sample.exists() {
        let name = read(&folder.join("new/benchmark.json"))?;
        let name = name["full_id"].as_str();
        let name = name.context("benchmark.json lacks `full_id`")?;
        return Ok(vec![line(name, &read(&sample)?)?]);
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut folders = paths?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    let mut lines = Vec::new();
    for inner in folders {
        lines.extend(samples_below(&inner)?);
    }
    Ok(lines)
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Seconds of an iteration; a sample is the mean of some iterations.
fn line(name: &str, sample: &Value) -> Result<Value> {
    let column = |key: &str| -> Vec<f64> {
        let cells = sample[key].as_array().into_iter().flatten();
        cells.filter_map(Value::as_f64).collect()
    };
    let (iterations, nanoseconds) = (column("iters"), column("times"));
    ensure!(
        !iterations.is_empty() && iterations.len() == nanoseconds.len(),
        "{name}: {} counts and {} times",
        iterations.len(),
        nanoseconds.len()
    );
    let pairs = iterations.iter().zip(&nanoseconds);
    let seconds: Vec<f64> = pairs.map(|(n, time)| time / n * 1e-9).collect();
    Ok(json!({"bench": name, "seconds": seconds}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_seconds_of_an_iteration() {
        let sample = json!({"iters": [2, 4], "times": [2e9, 2e9]});
        assert_eq!(line("a/b", &sample).unwrap()["seconds"], json!([1.0, 0.5]));
        assert!(line("a", &json!({"iters": [1], "times": []})).is_err());
    }
}
