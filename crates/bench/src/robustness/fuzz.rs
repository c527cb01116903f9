//! libFuzzer over every reader, for a time each, with the address sanitizer.
//!
//! The targets are those of `fuzz/Cargo.toml`. They need cargo-fuzz and a nightly compiler; without
//! them the measurement is a counted skip. A corpus is that of the runs before, begun by the example
//! `seeds`, and is minimised at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::measure::Context;
use crate::paths;
use crate::process::{self, Stopwatch};
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Time of each target.
    seconds: u64,
    seed: u64,
    /// Longest time and most memory of one input.
    limit_seconds: u64,
    limit_mib: u64,
}

/// The part of a Cargo.toml that names its programs.
#[derive(Deserialize)]
struct Manifest {
    bin: Vec<Bin>,
}

#[derive(Deserialize)]
struct Bin {
    name: String,
}

/// What libFuzzer says at its end.
#[derive(Debug, Default, PartialEq)]
struct Statistics {
    executions: u64,
    /// Edges of the control flow that were reached.
    edges: u64,
    features: u64,
}

/// A row for each target.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let targets = targets()?;
    if context.options.test {
        out.skip("a test fuzzes nothing");
        return Ok(());
    }
    let version = fuzz("--version").stderr(Stdio::null()).output();
    if !version.is_ok_and(|output| output.status.success()) {
        out.skip("no cargo-fuzz (`cargo install cargo-fuzz`) with a nightly compiler");
        return Ok(());
    }
    let mut seeds = process::command("cargo");
    seeds.args(["run", "--quiet", "--manifest-path", "fuzz/Cargo.toml"]);
    process::check(seeds.args(["--example", "seeds"]))?;
    for target in targets {
        process::check(fuzz("build").arg(&target))?;
        let row = one_target(&target, request)?;
        out.row(row);
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let path = folder().join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let manifest: Manifest = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(manifest.bin.into_iter().map(|bin| bin.name).collect())
}

fn folder() -> PathBuf {
    paths::root().join("fuzz")
}

fn fuzz(verb: &str) -> Command {
    let mut command = process::command("cargo");
    command.args(["+nightly", "fuzz", verb]);
    command
}

fn one_target(target: &str, request: &Request) -> Result<Value> {
    let scratch = paths::fresh_scratch("fuzz")?;
    let log = scratch.join("log");
    let watch = Stopwatch::start();
    let status = fuzz("run")
        .args([target, "--", "-print_final_stats=1"])
        .arg(format!("-max_total_time={}", request.seconds))
        .arg(format!("-seed={}", request.seed))
        .arg(format!("-timeout={}", request.limit_seconds))
        .arg(format!("-rss_limit_mb={}", request.limit_mib))
        .env("TMPDIR", &scratch)
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .status()?;
    let seconds = watch.seconds();
    let text = fs::read_to_string(&log)?;
    let statistics = statistics(&text);
    if status.success() {
        process::check(
            fuzz("cmin")
                .arg(target)
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
    }
    let (files, bytes) = size(&folder().join("corpus").join(target))?;
    Ok(json!({
        "target": target,
        "seconds_of_fuzzing": seconds,
        "executions": statistics.executions,
        "edges": statistics.edges,
        "features": statistics.features,
        "corpus_files": files,
        "corpus_bytes": bytes,
        "violations": u32::from(!status.success()),
        "note": finding(&text),
    }))
}

/// The numbers of the last line of progress and of the statistics.
fn statistics(log: &str) -> Statistics {
    let mut found = Statistics::default();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |key: &str| {
            let place = words.iter().position(|word| *word == key)?;
            words.get(place + 1)?.parse::<u64>().ok()
        };
        found.executions = after("stat::number_of_executed_units:").unwrap_or(found.executions);
        found.edges = after("cov:").unwrap_or(found.edges);
        found.features = after("ft:").unwrap_or(found.features);
    }
    found
}

/// The first line that says what went wrong; nothing where all went well.
fn finding(log: &str) -> &str {
    let is_finding = |line: &&str| {
        line.contains("panicked at") || line.contains("ERROR: ") || line.contains("SUMMARY: ")
    };
    log.lines().find(is_finding).unwrap_or_default()
}

/// Files and bytes of a folder.
fn size(folder: &Path) -> Result<(u64, u64)> {
    let (mut n_files, mut n_bytes) = (0, 0);
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        n_files += 1;
        n_bytes += entry?.metadata()?.len();
    }
    Ok((n_files, n_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_progress_counts() {
        let log = "#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb\n\
            #4096\tpulse  cov: 20 ft: 31 corp: 4/9b lim: 4 exec/s: 2048 rss: 40Mb\n\
            stat::number_of_executed_units: 4100\n";
        let expected = Statistics {
            executions: 4100,
            edges: 20,
            features: 31,
        };
        assert_eq!(statistics(log), expected);
        assert_eq!(finding(log), "");
        let log = "thread '<unnamed>' panicked at a.rs:1:2:\nSUMMARY: libFuzzer: deadly signal\n";
        assert!(finding(log).contains("a.rs:1:2"));
    }

    #[test]
    fn every_target_has_its_file() {
        let targets = targets().unwrap();
        assert!(targets.len() > 20, "{targets:?}");
        for target in targets {
            let file = folder().join("fuzz_targets").join(format!("{target}.rs"));
            assert!(file.exists(), "{}", file.display());
        }
    }
}
