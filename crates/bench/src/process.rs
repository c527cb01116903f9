//! Child processes: scripts of peers, and measured runs of the binary.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
pub(crate) use shardgraph_records::process::{
    Stopwatch, check, command, each_line, shown, stdout_of,
};

use crate::paths;
use crate::report::{Failure, Report};

/// Child processes; those that still run when this goes away are killed.
#[derive(Default)]
pub(crate) struct Children(Vec<Child>);

impl std::ops::Deref for Children {
    type Target = Vec<Child>;

    fn deref(&self) -> &Vec<Child> {
        &self.0
    }
}

impl std::ops::DerefMut for Children {
    fn deref_mut(&mut self) -> &mut Vec<Child> {
        &mut self.0
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed, and nobody can be told here of one that will not die.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a program with a time limit ended.
#[derive(Debug)]
pub(crate) enum Ended {
    InTime(ExitStatus),
    Killed,
}

/// As [`each_line`], but the program is killed when `seconds` have passed.
pub(crate) fn each_line_within(
    command: &mut Command,
    seconds: f64,
    mut line: impl FnMut(&str),
) -> Result<Ended> {
    let watch = Stopwatch::start();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let stdout = child.stdout.take().context("no standard output")?;
    let (sender, lines) = mpsc::channel();
    // Not joined: a grandchild that survives its parent could hold the pipe open for ever.
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        for bytes in lines {
            if sender.send(bytes).is_err() {
                return;
            }
        }
    });
    loop {
        let left = Duration::from_secs_f64((seconds - watch.seconds()).max(0.0));
        match lines.recv_timeout(left) {
            Ok(bytes) => line(&String::from_utf8_lossy(&bytes)),
            Err(RecvTimeoutError::Disconnected) => return Ok(Ended::InTime(child.wait()?)),
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                return Ok(Ended::Killed);
            }
        }
    }
}

/// Waits for a child for so many seconds; none where it had to be killed then.
pub(crate) fn wait_within(child: &mut Child, seconds: f64) -> Result<Option<ExitStatus>> {
    let watch = Stopwatch::start();
    while watch.seconds() <= seconds {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// What a measured run gave.
pub(crate) struct Measured {
    pub(crate) exit_code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) wall_seconds: f64,
    /// `None` where the system does not tell.
    pub(crate) peak_rss_bytes: Option<u64>,
}

/// Runs `program` and takes its wall-clock time and its peak resident memory.
///
/// Memory comes from `/usr/bin/time` (the kernel's own high-water mark of the ended process) where
/// that is installed, otherwise from `VmHWM` in `/proc`, sampled every millisecond: the last sample
/// can miss what a process takes just before it ends.
pub(crate) fn measure(program: &Path, args: &[String], scratch: &Path) -> Result<Measured> {
    let timer = Path::new("/usr/bin/time");
    let report = scratch.join("peak-rss-kib");
    let has_timer = timer.exists();
    let mut command = command(if has_timer { timer } else { program });
    if has_timer {
        command
            .args(["--quiet", "--format", "%M", "--output"])
            .arg(&report)
            .arg(program);
    }
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut measured = run_sampled(&mut command, !has_timer)?;
    if has_timer {
        measured.peak_rss_bytes = kib_of(fs::read_to_string(&report).unwrap_or_default().trim());
    }
    Ok(measured)
}

fn run_sampled(command: &mut Command, sample: bool) -> Result<Measured> {
    let watch = Stopwatch::start();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let (ended, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    let id = child.id();
    let (status, stdout, stderr, wall_seconds) = std::thread::scope(|scope| {
        if sample {
            scope.spawn(|| watch_peak(id, &ended, &peak));
        }
        let streams = read_streams(&mut child);
        let status = child.wait();
        ended.store(true, Ordering::Relaxed);
        streams.map(|(out, err)| (status, out, err, watch.seconds()))
    })?;
    let peak = peak.load(Ordering::Relaxed);
    Ok(Measured {
        exit_code: status?.code(),
        stdout,
        stderr,
        wall_seconds,
        peak_rss_bytes: (peak > 0).then_some(peak),
    })
}

/// Reads both streams at once, so that neither pipe fills up and stops the child.
fn read_streams(child: &mut Child) -> Result<(String, String)> {
    let mut stdout = child.stdout.take().context("no standard output")?;
    let mut stderr = child.stderr.take().context("no standard error")?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| stderr.read_to_end(&mut err));
        stdout.read_to_end(&mut out)?;
        reader.join().unwrap_or(Ok(0))
    })?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(out), text(err)))
}

fn watch_peak(id: u32, ended: &AtomicBool, peak: &AtomicU64) {
    while !ended.load(Ordering::Relaxed) {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        if let Some(bytes) = high_water_mark(&status) {
            peak.fetch_max(bytes, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    kib_of(line.split_whitespace().nth(1)?)
}

fn kib_of(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Runs a script of `crates/bench/peers`, whose lines are rows as JSON, or `SKIPPED:` and why.
pub(crate) fn peer_rows(
    python: &str,
    script: &str,
    request: &Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let mut peer = command(python);
    peer.arg(paths::peer(script)).arg(request.to_string());
    rows(&mut peer, script, out, |row| row)
}

/// Runs `script`, whose lines are rows as JSON that `shaped` puts into their form, or `SKIPPED:` and why.
pub(crate) fn rows(
    run: &mut Command,
    script: &str,
    out: &mut Report,
    shaped: impl Fn(Value) -> Value,
) -> Result<(), Failure> {
    let mut wrong = None;
    let succeeded = each_line(run, |line| {
        match (line.strip_prefix("SKIPPED:"), serde_json::from_str(line)) {
            (Some(why), _) => out.skip(why.trim()),
            (None, Ok(row)) => out.row(shaped(row)),
            (None, Err(_)) => wrong = Some(format!("{script} printed {line:?}")),
        }
    })?;
    match (wrong, succeeded) {
        (Some(wrong), _) => Err(wrong.into()),
        (None, false) => Err(format!("{script} failed: {}", shown(run)).into()),
        (None, true) => Ok(()),
    }
}

/// Runs `script`, whose lines are answers, and returns them; the terminal counts them.
pub(crate) fn answers(run: &mut Command, script: &str) -> Result<String, Failure> {
    let mut answers = String::new();
    let succeeded = each_line(run, |line| {
        answers.push_str(line);
        answers.push('\n');
        println!("{script}: {} answers", answers.lines().count());
    })?;
    match succeeded {
        true => Ok(answers),
        false => Err(format!("{script} failed").into()),
    }
}

#[cfg(test)]
mod tests {
    use shardgraph_records::process::shell;

    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let mut lines = Vec::new();
        let ended = each_line_within(&mut shell("echo a; exec sleep 600"), 1.0, |line| {
            lines.push(line.to_owned());
        });
        assert!(matches!(ended.unwrap(), Ended::Killed));
        assert_eq!(lines, ["a"]);
        let ended = each_line_within(&mut shell("echo b; exit 3"), 600.0, |_| ()).unwrap();
        assert!(matches!(ended, Ended::InTime(status) if status.code() == Some(3)));
    }

    #[test]
    fn a_child_is_waited_for_as_long_as_it_may_run() {
        let within = |script: &str, seconds| {
            let mut child = shell(script).spawn().unwrap();
            wait_within(&mut child, seconds)
                .unwrap()
                .map(|status| status.code())
        };
        assert_eq!(within("exit 3", 60.0), Some(Some(3)));
        assert_eq!(within("exec sleep 600", 0.1), None);
    }

    #[test]
    fn a_measured_run_keeps_both_streams_and_the_exit_code() {
        let measured = run_sampled(&mut shell("echo out; echo err >&2; exit 4"), true).unwrap();
        assert_eq!(measured.exit_code, Some(4));
        assert_eq!(
            (measured.stdout.as_str(), measured.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert!(measured.wall_seconds > 0.0);
    }

    #[test]
    fn reads_the_high_water_mark() {
        assert_eq!(
            high_water_mark("Name:\tx\nVmHWM:\t   12 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(high_water_mark("State:\tZ (zombie)\n"), None);
    }
}
