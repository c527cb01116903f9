//! `cargo xtask bench gpu`: measures the kernels on the GPU of this machine, or takes what a bundle measured on another.
//!
//! The programs are the bench targets `gpu` of `shardgraph-device` (every kernel) and `gpu_policy` of `shardgraph-solver`
//! (the policy as a whole), and their peer in PyTorch. They print `METRIC:<series>/<metric>:<value>:<unit>`, the same name
//! once for each sample, and `INFO:<name>:<text>`, of which the first prints `device`, `driver` and `clocks`; without a
//! GPU they end with exit code 3 and a sentence.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};

use crate::answer::{Metric, parse_metric};
use crate::host::{self, Host, Revision};
use crate::json::Json;
use crate::kernels::{self, Built};
use crate::package;
use crate::process::{self, Ended, cargo};
use crate::project;
use crate::record::{Record, Sample, summaries};
use crate::statistics::shown;

/// The command's name, and how cargo is told of its programs.
pub(crate) const GPU_BENCH: &str = "gpu";
pub(crate) const GPU_BENCH_TARGETS: [&str; 8] = [
    "--package",
    "shardgraph-device",
    "--package",
    "shardgraph-solver",
    "--bench",
    "gpu",
    "--bench",
    "gpu_policy",
];

/// The same work in PyTorch; skipped, with a line, where there is none.
pub(crate) const PEER: &str = "xtask/peers/policy_torch.py";

/// The limit of each program and of the peer. With the build before them (90 s on 16 cores) the command stays under 8
/// minutes.
const MAX_SECONDS: [f64; 3] = [210.0, 90.0, 60.0];

/// The exit code that says that a wanted device is missing.
const NO_DEVICE: u8 = 3;

/// What the driver of every NVIDIA GPU makes on Linux.
const DEVICE_FILES: [&str; 2] = ["/dev/nvidiactl", "/dev/dxg"];

/// Measures here, or reads the folder `results` that a bundle's `run.sh` has written.
pub(crate) fn run(results: Option<&Path>, host_label: Option<&str>) -> Result<ExitCode> {
    let (lines, host, revision) = match results {
        Some(folder) => {
            let text = |name: &str| {
                let path = folder.join(name);
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())
            };
            let (host, revision) = of_bundle(&text("host.txt")?, host_label)?;
            (text("metrics.txt")?, host, revision)
        }
        None => match measure()? {
            Some(lines) => (lines, Host::here(host_label), Revision::here()),
            None => return Ok(ExitCode::from(NO_DEVICE)),
        },
    };
    let output = Output::parse(&lines)?;
    let command = "cargo xtask bench gpu".to_owned();
    let record = output.record(Record::of(host, revision, command)?)?;
    println!("bench: written to {}", record.write()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds and runs the program; `None` without a GPU, which is said.
fn measure() -> Result<Option<String>> {
    if let Some(why) = no_gpu(|file| Path::new(file).exists()) {
        eprintln!("bench: {why}");
        return Ok(None);
    }
    match kernels::build(&kernels::Options::default())? {
        Built::Done(summary) => println!("kernels: {summary}"),
        Built::NoToolchain(why) => bail!("there are no kernels to measure: {why}"),
    }
    let mut build = cargo(&["bench", "--locked", "--no-run"]);
    build.args(GPU_BENCH_TARGETS);
    let mut built = package::executables(&mut build)?;
    built.sort(); // `gpu` first: it describes the machine
    let mut lines = String::new();
    for ((_, program), seconds) in built.iter().zip(MAX_SECONDS) {
        // Not through `cargo bench`: killing cargo would leave the bench on the GPU.
        let mut bench = process::command(program);
        bench.arg("--bench").env("LD_LIBRARY_PATH", libraries());
        if !print_and_keep(&mut bench, seconds, &mut lines)? {
            return Ok(None);
        }
    }
    let mut peer = process::command("python3");
    peer.arg(project::root().join(PEER));
    let is_there = process::command("python3")
        .arg("--version")
        .output()
        .is_ok();
    if !is_there || !print_and_keep(&mut peer, MAX_SECONDS[2], &mut lines)? {
        println!("SKIPPED: the peer {PEER}: no PyTorch that finds the GPU");
    }
    Ok(Some(lines))
}

/// Where the loader finds cuBLAS and cuSPARSE: what it knows already, a toolkit, and the folders of Python packages.
fn libraries() -> String {
    const SEARCH: &str = "import glob, sys; print(':'.join(d for p in sys.path for d in glob.glob(p + '/nvidia/*/lib')))";
    let python = process::command("python3").args(["-c", SEARCH]).output();
    let packages = match python {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    };
    let known = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = [known, "/usr/local/cuda/lib64".to_owned(), packages];
    let named = folders.into_iter().filter(|folder| !folder.is_empty());
    named.collect::<Vec<_>>().join(":")
}

/// Runs a program; whether it found what it needs.
fn print_and_keep(command: &mut Command, max_seconds: f64, lines: &mut String) -> Result<bool> {
    let ended = process::each_line_within(command, max_seconds, |line| {
        println!("{line}");
        lines.extend([line, "\n"]);
    })?;
    match ended {
        Ended::InTime(status) if status.success() => Ok(true),
        Ended::InTime(status) if status.code() == Some(i32::from(NO_DEVICE)) => Ok(false),
        Ended::InTime(status) => bail!("{status}: {}", process::shown(command)),
        Ended::Killed => bail!(
            "{} did not end within {max_seconds} s",
            process::shown(command)
        ),
    }
}

/// Why there can be no GPU, known without building anything.
fn no_gpu(exists: impl Fn(&str) -> bool) -> Option<String> {
    let can_tell = cfg!(target_os = "linux");
    let is_there = DEVICE_FILES.into_iter().any(exists);
    (can_tell && !is_there).then(|| {
        format!(
            "no NVIDIA GPU: there is neither {}; `cargo xtask bundle` packs the bench for a machine that has one",
            DEVICE_FILES.join(" nor ")
        )
    })
}

/// What the program said.
struct Output {
    info: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

impl Output {
    fn parse(lines: &str) -> Result<Output> {
        let mut info = BTreeMap::new();
        let mut samples: Vec<Sample> = Vec::new();
        for line in lines.lines() {
            if let Some((name, text)) = line.strip_prefix("INFO:").and_then(|l| l.split_once(':')) {
                info.insert(name.to_owned(), text.trim().to_owned());
            } else if let Some(metric) = line.strip_prefix("METRIC:") {
                let metric = parse_metric(metric)?;
                ensure!(metric.value.is_finite(), "{line}: no finite number");
                let (series, name) = metric.name.rsplit_once('/').with_context(|| {
                    format!("{line}: expected METRIC:<series>/<metric>:<value>:<unit>")
                })?;
                let is_same = |s: &&Sample| s.series == series && s.metric.name == name;
                let run_idx = u32::try_from(samples.iter().filter(is_same).count())?;
                samples.push(Sample {
                    series: series.to_owned(),
                    run_idx,
                    metric: Metric::new(name, metric.value, &metric.unit),
                });
            }
        }
        ensure!(!samples.is_empty(), "the bench printed no METRIC line");
        Ok(Output { info, samples })
    }

    fn info(&self, name: &str) -> Result<&str> {
        let text = self.info.get(name).map(String::as_str);
        text.with_context(|| format!("the bench printed no INFO:{name} line"))
    }

    fn record(self, mut record: Record) -> Result<Record> {
        record.device = host::slug(self.info("device")?);
        let mut report = String::new();
        for name in ["device", "driver", "clocks"] {
            report.push_str(&format!("- {name}: {}\n", self.info(name)?));
        }
        report.push_str(
            "\n| series | metric | unit | median | min | max |\n|---|---|---|---|---|---|\n",
        );
        for ((series, metric), (unit, summary)) in summaries(&self.samples) {
            let numbers = [summary.median, summary.min, summary.max].map(shown);
            let numbers = numbers.join(" | ");
            report.push_str(&format!("| {series} | {metric} | {unit} | {numbers} |\n"));
        }
        let details = self
            .info
            .into_iter()
            .map(|(name, text)| (name, Json::String(text)));
        record.details = Json::Object(details.collect());
        record.samples = self.samples;
        record.report = report;
        Ok(record)
    }
}

/// The machine and the revision from a bundle's `host.txt`: lines of a name and a value.
fn of_bundle(text: &str, label: Option<&str>) -> Result<(Host, Revision)> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(key, _)| *key == name);
        let found = found.with_context(|| format!("host.txt has no line `{name}`"))?;
        Ok::<_, anyhow::Error>(found.1.trim().to_owned())
    };
    let memory_kib: u64 = value("memory_kib")?.parse().context("memory_kib")?;
    let host = Host {
        label: host::slug(label.unwrap_or(&value("hostname")?)),
        cpu: value("cpu")?,
        n_cores: value("cores")?.parse().context("cores")?,
        memory_bytes: Some(memory_kib * 1024),
        system: value("system")?,
        // The bundle was compiled here.
        rustc: Host::here(None).rustc,
    };
    let revision = Revision {
        commit: value("revision")?,
        is_dirty: value("dirty")?.parse().context("dirty")?,
    };
    Ok((host, revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "warming up\nINFO:device:NVIDIA H200\nINFO:driver:580.95.05\nINFO:clocks:sm 1980 MHz: fixed\n\
        METRIC:sparse_csr k=32/rate_gbs:4000:GB/s\nMETRIC:sparse_csr k=32/rate_gbs:4200:GB/s\n\
        METRIC:copy/rate_gbs:4100.5:GB/s\n";
    const HOST: &str = "revision abc\ndirty true\nhostname Node 1\nsystem Linux 6.1\ncores 16\ncpu Some CPU @ 2 GHz\n\
        memory_kib 2\nlibraries /a:/b\n";

    fn record_of(lines: &str) -> Result<Record> {
        let (host, revision) = of_bundle(HOST, None)?;
        let record = Record::of(host, revision, "cargo xtask bench gpu".to_owned())?;
        Output::parse(lines)?.record(record)
    }

    #[test]
    fn lines_become_a_record_that_names_the_device() {
        let record = record_of(LINES).unwrap();
        assert_eq!(record.device, "nvidia-h200");
        assert_eq!(record.host.label, "node-1");
        assert_eq!(record.host.memory_bytes, Some(2048));
        assert!(record.revision.is_dirty && record.revision.commit == "abc");
        let runs: Vec<u32> = record.samples.iter().map(|sample| sample.run_idx).collect();
        assert_eq!(runs, [0, 1, 0]);
        assert_eq!(record.samples[1].series, "sparse_csr k=32");
        assert!(record.report.contains("- clocks: sm 1980 MHz: fixed\n"));
        assert!(
            record
                .report
                .contains("| sparse_csr k=32 | rate_gbs | GB/s | 4100 | 4000 | 4200 |")
        );
    }

    #[test]
    fn what_is_missing_is_an_error_and_no_empty_record() {
        for left_out in ["INFO:device", "INFO:driver", "INFO:clocks"] {
            let without = LINES.replace(left_out, "NOTE");
            let error = record_of(&without).err().unwrap().to_string();
            assert!(error.contains(left_out), "{error}");
        }
        assert!(record_of("INFO:device:x\nINFO:driver:1\nINFO:clocks:2\n").is_err());
        assert!(record_of(&LINES.replace("4100.5", "NaN")).is_err());
        assert!(record_of(&LINES.replace("copy/", "copy_")).is_err());
        for line in HOST.lines().take(7) {
            assert!(of_bundle(&HOST.replace(line, ""), None).is_err(), "{line}");
        }
    }

    #[test]
    fn a_machine_without_the_driver_is_told_before_anything_is_built() {
        assert_eq!(no_gpu(|file| file == "/dev/dxg"), None);
        assert_eq!(no_gpu(|_| true), None);
        if cfg!(target_os = "linux") {
            assert!(no_gpu(|_| false).unwrap().contains("no NVIDIA GPU"));
        }
    }
}
