//! Kernels on the GPU of this machine, or what a bundle measured on another.
//!
//! The programs are the bench targets `gpu` of `shardgraph-ops` (every kernel) and `gpu_policy` of `shardgraph-solver`
//! (the policy as a whole), and their peer in PyTorch. They print `METRIC:<series>/<metric>:<value>:<unit>`, the same name
//! once for each sample, and `INFO:<name>:<text>`, of which the first prints `device`, `driver` and `clocks`; without a
//! GPU they end with exit code 3 and a sentence.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::built::{cargo, executables};
use crate::answer::parse_metric;
use crate::host::{self, Host, Revision};
use crate::measure::Context;
use crate::paths;
use crate::process::{self, Ended};
use crate::report::{Failure, Origin, Report};

/// How cargo is told of the programs.
const TARGETS: [&str; 8] = [
    "--package",
    "shardgraph-ops",
    "--package",
    "shardgraph-solver",
    "--bench",
    "gpu",
    "--bench",
    "gpu_policy",
];

/// The same work in PyTorch; skipped, with a line, where there is none.
const PEER: &str = "policy_torch.py";

/// The limit of each program and of the peer. With the build before them (90 s on 16 cores) the command stays under 8
/// minutes.
const MAX_SECONDS: [f64; 3] = [210.0, 90.0, 60.0];

/// The exit code that says that a wanted device is missing.
const NO_DEVICE: u8 = 3;

/// What the driver of every NVIDIA GPU makes on Linux.
const DEVICE_FILES: [&str; 2] = ["/dev/nvidiactl", "/dev/dxg"];

/// Measures here, or reads the folder of `--results` that a bundle's `run.sh` has written.
pub(crate) fn run(context: &Context<'_>, _: Value, out: &mut Report) -> Result<(), Failure> {
    let label = context.options.host.as_deref();
    let (lines, host, revision) = match &context.options.results {
        Some(folder) => {
            let text = |name: &str| {
                let path = folder.join(name);
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())
            };
            let (host, revision) = of_bundle(&text("host.txt")?, label)?;
            (text("metrics.txt")?, host, revision)
        }
        None => match measure(context.options.test, out)? {
            Some(lines) => (lines, Host::here(label), Revision::here()),
            None => return Ok(()),
        },
    };
    report(&lines, Origin::new(host, revision), out)?;
    Ok(())
}

/// Builds and runs the programs; `None` without a GPU, which is a skip.
fn measure(is_test: bool, out: &mut Report) -> Result<Option<String>> {
    if let Some(why) = no_gpu(|file| Path::new(file).exists()) {
        out.skip(&why);
        return Ok(None);
    }
    if is_test {
        out.skip("the kernels' benches are tested by the stage `micro-benches`");
        return Ok(None);
    }
    let mut build = cargo(&["bench", "--locked", "--no-run"]);
    let mut built = executables(build.args(TARGETS))?;
    built.sort(); // `gpu` first: it describes the machine
    let mut lines = String::new();
    for ((_, program), seconds) in built.iter().zip(MAX_SECONDS) {
        // Not through `cargo bench`: killing cargo would leave the bench on the GPU.
        let mut bench = process::command(program);
        bench.arg("--bench").env("LD_LIBRARY_PATH", libraries());
        if !print_and_keep(&mut bench, seconds, &mut lines)? {
            out.skip("the bench finds no GPU");
            return Ok(None);
        }
    }
    let mut peer = process::command("python3");
    peer.arg(paths::peer(PEER));
    let python = process::command("python3").arg("--version").output();
    if python.is_err() || !print_and_keep(&mut peer, MAX_SECONDS[2], &mut lines)? {
        out.skip(&format!("the peer {PEER}: no PyTorch that finds the GPU"));
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

/// Rows of a series' metrics, and the lines about the device.
fn report(lines: &str, mut origin: Origin, out: &mut Report) -> Result<()> {
    let (mut info, mut order) = (BTreeMap::new(), Vec::new());
    let mut rows: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for line in lines.lines() {
        if let Some((name, text)) = line.strip_prefix("INFO:").and_then(|l| l.split_once(':')) {
            info.insert(name.to_owned(), text.trim().to_owned());
        } else if let Some(metric) = line.strip_prefix("METRIC:") {
            let metric = parse_metric(metric)?;
            ensure!(metric.value.is_finite(), "{line}: no finite number");
            let (series, name) = metric.name.rsplit_once('/').with_context(|| {
                format!("{line}: expected METRIC:<series>/<metric>:<value>:<unit>")
            })?;
            if !order.iter().any(|known| known == series) {
                order.push(series.to_owned());
            }
            let row = rows.entry(series.to_owned()).or_default();
            let samples = row.entry(name.to_owned()).or_insert_with(|| json!([]));
            if let Value::Array(samples) = samples {
                samples.push(json!(metric.value));
            }
        }
    }
    for name in ["device", "driver", "clocks"] {
        let text = info.get(name);
        let text = text.with_context(|| format!("the bench printed no INFO:{name}"))?;
        origin.notes.push(format!("{name}: {text}"));
    }
    ensure!(!rows.is_empty(), "the bench printed no METRIC");
    origin.device = host::slug(&info["device"]);
    out.origin = Some(origin);
    for series in order {
        let mut row = rows.remove(&series).unwrap_or_default();
        row.insert("series".to_owned(), json!(series));
        out.row(Value::Object(row));
    }
    Ok(())
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

    fn report_of(lines: &str) -> Result<Report> {
        let (host, revision) = of_bundle(HOST, None)?;
        let mut out = Report::default();
        report(lines, Origin::new(host, revision), &mut out)?;
        Ok(out)
    }

    #[test]
    fn lines_become_rows_and_name_the_device() {
        let out = report_of(LINES).unwrap();
        let origin = out.origin.unwrap();
        assert_eq!(origin.device, "nvidia-h200");
        assert_eq!(origin.host.label, "node-1");
        assert_eq!(origin.host.memory_bytes, Some(2048));
        assert!(origin.revision.is_dirty && origin.revision.commit == "abc");
        assert!(
            origin
                .notes
                .contains(&"clocks: sm 1980 MHz: fixed".to_owned())
        );
        assert_eq!(out.lines[0]["rate_gbs"], json!([4000.0, 4200.0]));
        assert_eq!(out.lines[1]["series"], "copy");
    }

    #[test]
    fn what_is_missing_is_an_error_and_no_empty_record() {
        for left_out in ["INFO:device", "INFO:driver", "INFO:clocks"] {
            let without = LINES.replace(left_out, "NOTE");
            let error = report_of(&without).err().unwrap().to_string();
            assert!(error.contains(left_out), "{error}");
        }
        assert!(report_of("INFO:device:x\nINFO:driver:1\nINFO:clocks:2\n").is_err());
        assert!(report_of(&LINES.replace("4100.5", "NaN")).is_err());
        assert!(report_of(&LINES.replace("copy/", "copy_")).is_err());
        for line in HOST.lines().take(7) {
            assert!(of_bundle(&HOST.replace(line, ""), None).is_err(), "{line}");
        }
    }

    #[test]
    fn a_machine_without_the_driver_is_told_before_anything_is_built() {
        assert_eq!(no_gpu(|file| file == "/dev/dxg"), None);
        if cfg!(target_os = "linux") {
            assert!(no_gpu(|_| false).unwrap().contains("no NVIDIA GPU"));
        }
    }
}
