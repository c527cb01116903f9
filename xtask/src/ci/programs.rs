//! The test programs of the workspace, and the documentation tests.

use std::collections::VecDeque;

use anyhow::Result;

use super::asked_for::AskedFor;
use super::test_runs::{self, TestRun};
use crate::package;
use crate::process::cargo;
use crate::test_log::TestLog;

/// Builds all tests and runs them. Writes down which of them ask for the emulator.
pub(super) fn run(log: &mut TestLog) -> Result<()> {
    let mut build = cargo("test --workspace --locked --no-run");
    let programs = test_runs::by_size(package::test_programs(&mut build)?)?;
    let mut lists = Vec::new();
    let mut runs = VecDeque::new();
    for program in &programs {
        let mut run = TestRun::of(program);
        let list = AskedFor::of(&program.path);
        list.write_by(&mut run.command)?;
        lists.push((run.name.clone(), list));
        runs.push_back(run);
    }
    runs.insert(1.min(runs.len()), documentation());
    test_runs::run_all(runs, test_runs::print, &mut |done| {
        let shown = done.output.lines().filter(|line| log.line(line));
        shown.for_each(test_runs::print);
        match lists.iter().find(|(name, _)| *name == done.name) {
            Some((_, list)) if done.has_passed => list.finish(),
            _ => Ok(()),
        }
    })
}

fn documentation() -> TestRun {
    let mut command = cargo("test --workspace --locked --doc");
    command.args(["--", "--show-output"]);
    TestRun {
        name: "documentation tests".to_owned(),
        command,
    }
}
