//! The test programs of the workspace, and the documentation tests.

use std::collections::VecDeque;

use anyhow::Result;

use super::asked_for::AskedFor;
use super::jobs::{self, Job};
use crate::package;
use crate::process::cargo;
use crate::test_log::TestLog;

/// Builds all tests and runs them. Writes down which of them ask for the emulator.
pub(super) fn run(log: &mut TestLog) -> Result<()> {
    let mut build = cargo("test --workspace --locked --no-run");
    let programs = jobs::by_size(package::test_programs(&mut build)?)?;
    let mut lists = Vec::new();
    let mut jobs = VecDeque::new();
    for program in &programs {
        let mut job = Job::of(program);
        let list = AskedFor::of(&program.path);
        list.write_by(&mut job.command)?;
        lists.push((job.name.clone(), list));
        jobs.push_back(job);
    }
    jobs.insert(1.min(jobs.len()), documentation());
    jobs::run_all(jobs, jobs::print, &mut |done| {
        let shown = done.output.lines().filter(|line| log.line(line));
        shown.for_each(jobs::print);
        match lists.iter().find(|(name, _)| *name == done.name) {
            Some((_, list)) if done.has_passed => list.finish(),
            _ => Ok(()),
        }
    })
}

fn documentation() -> Job {
    let mut command = cargo("test --workspace --locked --doc");
    command.args(["--", "--show-output"]);
    Job {
        name: "documentation tests".to_owned(),
        command,
    }
}
