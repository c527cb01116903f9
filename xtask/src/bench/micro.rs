//! `cargo xtask bench micro NAME...`: runs criterion benches and records every sample.
//!
//! Criterion leaves `benchmark.json` (the bench's name) and `sample.json` (iterations and nanoseconds of every sample) in the
//! folder `new` of each bench, below the folder that the variable CRITERION_HOME names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use lexopt::prelude::*;

use crate::answer::Metric;
use crate::json::{self, Json};
use crate::package;
use crate::process::{self, cargo};
use crate::project;
use crate::record::{Record, Sample, summaries};
use crate::statistics::shown;

/// The command's name.
pub(super) const MICRO: &str = "micro";

/// Runs the bench targets that are named, of whichever crates have them.
pub(super) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let (mut names, mut host) = (Vec::new(), None);
    while let Some(arg) = args.next()? {
        match arg {
            Value(name) => names.push(name.string()?),
            Long("host") => host = Some(args.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let known = package::bench_targets()?;
    ensure!(
        !names.is_empty(),
        "name bench targets; there are {}",
        known.join(", ")
    );
    for name in &names {
        ensure!(
            known.contains(name),
            "no bench target {name:?}: there are {}",
            known.join(", ")
        );
    }
    let command = format!("cargo xtask bench {MICRO} {}", names.join(" "));
    let mut record = Record::new(host.as_deref(), command)?;
    let home = project::target().join("criterion-record");
    for name in &names {
        remove_old(&home)?;
        let mut bench = cargo(&["bench", "--workspace", "--locked", "--bench", name]);
        bench.env("CRITERION_HOME", &home);
        process::check(&mut bench)?;
        let samples = samples_below(&home)?;
        ensure!(
            !samples.is_empty(),
            "the bench target `{name}` is not one of criterion: it left no samples"
        );
        record.samples.extend(samples);
    }
    record.report = table(&record.samples);
    println!("{}", record.report);
    println!("bench: written to {}", record.write()?.display());
    Ok(ExitCode::SUCCESS)
}

fn remove_old(home: &Path) -> Result<()> {
    if home.exists() {
        fs::remove_dir_all(home).with_context(|| home.display().to_string())?;
    }
    Ok(())
}

/// All samples of all benches below a folder, in the order of their folders' names.
fn samples_below(folder: &Path) -> Result<Vec<Sample>> {
    let sample = folder.join("new").join("sample.json");
    if sample.exists() {
        let name = read(&folder.join("new").join("benchmark.json"))?;
        let name = name.get("full_id").and_then(Json::as_str);
        return samples(
            name.context("benchmark.json lacks `full_id`")?,
            &read(&sample)?,
        );
    }
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut folders = paths?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    for inner in folders {
        found.extend(samples_below(&inner)?);
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Json> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    json::parse(&text).with_context(|| path.display().to_string())
}

/// Seconds an iteration of every sample of a bench.
fn samples(series: &str, sample: &Json) -> Result<Vec<Sample>> {
    let column = |key: &str| {
        let cells = sample.get(key).and_then(Json::as_array);
        let cells = cells.with_context(|| format!("sample.json lacks `{key}`"))?;
        let numbers: Option<Vec<f64>> = cells.iter().map(Json::as_number).collect();
        numbers.with_context(|| format!("`{key}` of sample.json holds more than numbers"))
    };
    let (iterations, nanoseconds) = (column("iters")?, column("times")?);
    ensure!(
        iterations.len() == nanoseconds.len(),
        "{series}: {} counts and {} times",
        iterations.len(),
        nanoseconds.len()
    );
    let seconds = |(n, time): (&f64, &f64)| time / n * 1e-9;
    let runs = iterations.iter().zip(&nanoseconds).map(seconds);
    let sample = |(run_idx, seconds)| Sample {
        series: series.replace(',', ";"), // raw.csv has commas between its columns
        run_idx,
        metric: Metric::new("seconds", seconds, "s"),
    };
    Ok((0..).zip(runs).map(sample).collect())
}

fn table(samples: &[Sample]) -> String {
    let mut text = String::from(
        "Seconds an iteration; a sample is the mean of some iterations.\n\n\
         | bench | median | lowest | highest |\n|---|---|---|---|\n",
    );
    for ((series, _), (_, times)) in summaries(samples) {
        let [median, min, max] = [times.median, times.min, times.max].map(shown);
        text.push_str(&format!("| {series} | {median} | {min} | {max} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_criterion_leaves() {
        let home = project::target().join(format!("xtask-micro-test-{}", std::process::id()));
        let folder = home.join("act").join("64").join("new");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(home.join("act").join("report")).unwrap();
        let text = r#"{"group_id": "act", "full_id": "act/64"}"#;
        fs::write(folder.join("benchmark.json"), text).unwrap();
        let text = r#"{"sampling_mode": "Linear", "iters": [10.0, 20.0], "times": [50.0, 80.0]}"#;
        fs::write(folder.join("sample.json"), text).unwrap();
        let found = samples_below(&home).unwrap();
        fs::remove_dir_all(&home).unwrap();
        let values: Vec<_> = found.iter().map(|sample| sample.metric.value).collect();
        assert_eq!(values, [5.0 * 1e-9, 4.0 * 1e-9]);
        assert!(found.iter().all(|sample| sample.series == "act/64"));
        assert!(table(&found).contains("| act/64 |"));
    }

    #[test]
    fn counts_without_times_are_refused() {
        let sample = json::parse(r#"{"iters": [1.0], "times": []}"#).unwrap();
        let error = samples("act", &sample).unwrap_err();
        assert!(
            error.to_string().contains("1 counts and 0 times"),
            "{error}"
        );
    }
}
