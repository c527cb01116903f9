//! The test programs of the workspace, two at a time: many wait for processes and time limits, and use no processor then.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::{Context as _, Result, ensure};

use crate::package::{self, TestProgram};
use crate::process::{self, Stopwatch, cargo};
use crate::test_log::TestLog;

/// Programs that run side by side.
const N_LANES: usize = 2;

/// Programs whose seconds are printed at the end.
const N_SLOWEST: usize = 20;

/// A test program, or the documentation tests.
struct Job {
    name: String,
    command: Command,
}

/// What became of a job.
struct Done {
    name: String,
    seconds: f64,
    output: String,
    has_passed: bool,
}

/// Builds all tests and runs them.
pub(super) fn run(log: &mut TestLog) -> Result<()> {
    let mut build = cargo("test --workspace --locked --no-run");
    let programs = package::test_programs(&mut build)?;
    let mut sized = Vec::new();
    for program in programs {
        let n_bytes = fs::metadata(&program.path)?.len();
        sized.push((n_bytes, program));
    }
    // The largest first: the end-to-end tests take longest.
    sized.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.path.cmp(&b.1.path)));
    let programs = sized.into_iter().map(|(_, program)| job(program));
    let mut jobs: VecDeque<Job> = programs.collect();
    jobs.insert(1.min(jobs.len()), documentation());
    let mut done = run_all(jobs, log, &mut |line| println!("{line}"))?;
    done.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    println!("\nslowest test programs:");
    for job in done.iter().take(N_SLOWEST) {
        println!("{:8.1} s  {}", job.seconds, job.name);
    }
    let failed: Vec<&str> = done
        .iter()
        .filter(|job| !job.has_passed)
        .map(|job| job.name.as_str())
        .collect();
    ensure!(failed.is_empty(), "tests fail: {}", failed.join(", "));
    Ok(())
}

/// The program as cargo would run it.
fn job(program: TestProgram) -> Job {
    let folder = program.folder;
    let mut command = process::command(program.path);
    command.arg("--show-output").current_dir(&folder);
    command.env("CARGO_MANIFEST_DIR", &folder);
    Job {
        name: format!("{} ({})", program.target, shown(&folder)),
        command,
    }
}

fn documentation() -> Job {
    let mut command = cargo("test --workspace --locked --doc");
    command.args(["--", "--show-output"]);
    Job {
        name: "documentation tests".to_owned(),
        command,
    }
}

fn shown(folder: &Path) -> String {
    let root = crate::project::root();
    let short = folder.strip_prefix(&root).unwrap_or(folder);
    short.display().to_string()
}

/// Runs the jobs and hands on the lines of each when it is done.
fn run_all(
    jobs: VecDeque<Job>,
    log: &mut TestLog,
    print: &mut dyn FnMut(&str),
) -> Result<Vec<Done>> {
    let queue = Mutex::new(jobs);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..N_LANES {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                loop {
                    let job = queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(job) = job else { break };
                    if sender.send(run_job(job)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut all = Vec::new();
        for done in receiver {
            let done = done?;
            print(&format!("\n--- {}: {:.1} s", done.name, done.seconds));
            let shown = done.output.lines().filter(|line| log.line(line));
            shown.for_each(&mut *print);
            all.push(done);
        }
        Ok(all)
    })
}

fn run_job(mut job: Job) -> Result<Done> {
    let watch = Stopwatch::start();
    let output = job.command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", job.name))?;
    Ok(Done {
        name: job.name,
        seconds: watch.seconds(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        has_passed: output.status.success(),
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str) -> Job {
        let mut command = process::command("/bin/sh");
        command.args(["-c", script]);
        Job {
            name: name.to_owned(),
            command,
        }
    }

    #[test]
    fn every_program_runs_and_a_failing_one_is_known() {
        let passed = "test result: ok. 2 passed; 0 failed; 1 ignored;";
        let jobs = [
            job("a", &format!("echo '{passed}'")),
            job(
                "b",
                "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored;'; exit 101",
            ),
            job("c", &format!("echo '{passed}'")),
        ];
        let mut log = TestLog::default();
        let done = run_all(jobs.into(), &mut log, &mut |_| ()).unwrap();
        let failed: Vec<&str> = done
            .iter()
            .filter(|job| !job.has_passed)
            .map(|job| job.name.as_str())
            .collect();
        assert_eq!(failed, ["b"]);
        assert_eq!((log.n_passed, log.n_failed, log.n_ignored), (5, 1, 2));
    }
}
