//! Stages that build in release, in a process of their own beside the others: neither waits for the other's build folder, and
//! the processors have work while tests wait.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use super::{Stage, Tally};
use crate::process;
use crate::project;

/// The stages.
pub(super) const STAGES: [Stage; 2] = [Stage::FirstCommand, Stage::Python];

/// The process, while it runs.
pub(super) struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Starts `cargo xtask ci` for the stages; their output goes to a file until they are done.
    pub(super) fn start() -> Result<Beside> {
        let mut ci = process::command(std::env::current_exe()?);
        ci.arg("ci");
        for [name, _] in STAGES.map(Stage::about) {
            ci.args(["--only", &name]);
        }
        Beside::of(&mut ci, "ci-beside.log")
    }

    fn of(command: &mut Command, log: &str) -> Result<Beside> {
        let log = project::target().join(log);
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        command.stdout(file.try_clone()?).stderr(Stdio::from(file));
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", process::shown(command)))?;
        Ok(Beside { child, log })
    }

    /// Waits for the stages, prints what they printed, and counts them.
    pub(super) fn finish(mut self, tally: &mut Tally) -> Result<()> {
        let status = self.child.wait()?;
        let text = fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        let text = String::from_utf8_lossy(&text);
        print!("{text}");
        // One that was killed has no closing line.
        if !tally.add(&text) || !status.success() && tally.n_failed == 0 {
            tally.n_failed += 1;
        }
        Ok(())
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(name: &str, script: &str) -> Tally {
        let mut tally = Tally::default();
        let mut shell = process::command("/bin/sh");
        let beside = Beside::of(shell.args(["-c", script]), name).unwrap();
        beside.finish(&mut tally).unwrap();
        tally
    }

    #[test]
    fn what_ran_beside_is_counted() {
        let closing = "ci: 1 passed, 0 failed, 1 skipped; tests: 7 passed, 0 failed, 1 skipped, 2 ignored (9 s)";
        let tally = tally_of(
            "beside-good.log",
            &format!("echo 'ci: SKIPPED: stage y: no z'; echo 'ci: SKIPPED: w'; echo '{closing}'"),
        );
        assert_eq!(tally.closing_line(), closing.trim_end_matches(" (9 s)"));
        assert_eq!(tally.skipped_stages, ["SKIPPED: stage y: no z"]);
        assert_eq!(tally_of("beside-killed.log", "kill -9 $$").n_failed, 1);
        assert_eq!(
            tally_of("beside-bad.log", &format!("echo '{closing}'; exit 1")).n_failed,
            1
        );
    }
}
