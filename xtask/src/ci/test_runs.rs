//! Test programs, two at a time: many wait for processes, for time limits or for their longest test, and use no processor then.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::{Context as _, Result, ensure};

use crate::package::TestProgram;
use crate::process::{self, Stopwatch};

/// Programs that run side by side.
const N_LANES: usize = 2;

/// Programs whose seconds are printed at the end.
const N_SLOWEST: usize = 20;

/// A test program, or what runs like one.
pub(super) struct TestRun {
    pub(super) name: String,
    pub(super) command: Command,
}

impl TestRun {
    /// The program as cargo would run it.
    pub(super) fn of(program: &TestProgram) -> TestRun {
        let folder = &program.folder;
        let mut command = process::command(&program.path);
        command.arg("--show-output").current_dir(folder);
        command.env("CARGO_MANIFEST_DIR", folder);
        TestRun {
            name: format!("{} ({})", program.target, shown(folder)),
            command,
        }
    }
}

fn shown(folder: &Path) -> String {
    let root = crate::project::root();
    let short = folder.strip_prefix(&root).unwrap_or(folder);
    short.display().to_string()
}

/// What became of a run.
pub(super) struct Done {
    pub(super) name: String,
    seconds: f64,
    pub(super) output: String,
    pub(super) has_passed: bool,
}

#[cfg(test)]
impl Done {
    pub(super) fn of(name: &str, output: &str) -> Done {
        Done {
            name: name.to_owned(),
            seconds: 0.0,
            output: output.to_owned(),
            has_passed: true,
        }
    }
}

/// A line on the terminal.
pub(super) fn print(line: &str) {
    println!("{line}");
}

/// The programs with the largest first: they take longest.
pub(super) fn by_size(mut programs: Vec<TestProgram>) -> Result<Vec<TestProgram>> {
    let mut sizes = Vec::new();
    for program in programs.drain(..) {
        let n_bytes = fs::metadata(&program.path)?.len();
        sizes.push((n_bytes, program));
    }
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.path.cmp(&b.1.path)));
    Ok(sizes.into_iter().map(|(_, program)| program).collect())
}

/// Starts the runs, gives each that is done to `take`, and says which were slowest. Fails where one has failed.
pub(super) fn run_all(
    runs: VecDeque<TestRun>,
    print: fn(&str),
    take: &mut dyn FnMut(&Done) -> Result<()>,
) -> Result<()> {
    let queue = Mutex::new(runs);
    let (sender, receiver) = mpsc::channel();
    let mut all = Vec::new();
    thread::scope(|scope| {
        for _ in 0..N_LANES {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                loop {
                    let run = queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(run) = run else { break };
                    if sender.send(run_one(run)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for done in receiver {
            let done = done?;
            print(&format!("\n--- {}: {:.1} s", done.name, done.seconds));
            take(&done)?;
            all.push(done);
        }
        Ok::<_, anyhow::Error>(())
    })?;
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    print("\nslowest test programs:");
    for done in all.iter().take(N_SLOWEST) {
        print(&format!("{:8.1} s  {}", done.seconds, done.name));
    }
    let failed: Vec<&str> = all
        .iter()
        .filter(|done| !done.has_passed)
        .map(|done| done.name.as_str())
        .collect();
    ensure!(failed.is_empty(), "tests fail: {}", failed.join(", "));
    Ok(())
}

fn run_one(mut run: TestRun) -> Result<Done> {
    let watch = Stopwatch::start();
    let output = run.command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", run.name))?;
    Ok(Done {
        name: run.name,
        seconds: watch.seconds(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        has_passed: output.status.success(),
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn runs(scripts: &[(&str, &str)]) -> VecDeque<TestRun> {
        let run = |(name, script): &(&str, &str)| {
            let mut command = process::command("/bin/sh");
            command.args(["-c", script]);
            let name = (*name).to_owned();
            TestRun { name, command }
        };
        scripts.iter().map(run).collect()
    }

    #[test]
    fn every_program_runs_and_a_failing_one_is_known() {
        let runs = runs(&[("a", "echo 1"), ("b", "echo 2; exit 101"), ("c", "echo 3")]);
        let mut outputs = Vec::new();
        let error = run_all(runs, |_| (), &mut |done| {
            outputs.push(done.output.clone());
            Ok(())
        })
        .unwrap_err();
        outputs.sort();
        assert_eq!(outputs, ["1\n", "2\n", "3\n"]);
        assert_eq!(error.to_string(), "tests fail: b");
    }

    #[test]
    fn what_takes_the_output_can_refuse_it() {
        let error = run_all(runs(&[("a", "true")]), |_| (), &mut |_| bail!("no test"));
        assert_eq!(error.unwrap_err().to_string(), "no test");
    }
}
