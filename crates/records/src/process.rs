//! Child processes in the workspace, quiet on the terminal.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::paths;

/// Seconds since it was made.
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "times whole child processes; no device of this process is involved"
    )]
    /// Begins now.
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// A command in the workspace root that neither asks questions nor draws progress bars.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(paths::root())
        .stdin(Stdio::null())
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .env("GIT_TERMINAL_PROMPT", "0");
    command
}

/// A script of `sh` in the workspace root, with both of its streams piped.
pub fn shell(script: &str) -> Command {
    let mut shell = command("sh");
    shell
        .args(["-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    shell
}

/// Runs to the end.
///
/// # Errors
/// When it does not start, or ends with another exit status than zero.
pub fn check(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{status}: {}", shown(command));
    }
    Ok(())
}

/// Runs to the end and returns standard output.
///
/// # Errors
/// As [`check`].
pub fn stdout_of(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{}: {}", output.status, shown(command));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs to the end and hands over each line of standard output as it comes. True: exit status zero.
///
/// # Errors
/// When it does not start, or its output cannot be read.
pub fn each_line(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let stdout = child.stdout.take().context("no standard output")?;
    for bytes in BufReader::new(stdout).split(b'\n') {
        line(&String::from_utf8_lossy(&bytes?));
    }
    Ok(child.wait()?.success())
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_shows_it() {
        let message = check(&mut shell("exit 3")).unwrap_err().to_string();
        assert!(
            message.contains("3") && message.ends_with("sh -c 'exit 3'"),
            "{message}"
        );
        assert!(stdout_of(&mut shell("exit 1")).is_err());
        assert!(check(&mut command("no-such-program-here")).is_err());
    }

    #[test]
    fn lines_come_one_by_one() {
        let mut lines = Vec::new();
        assert!(
            each_line(&mut shell("echo a; echo b"), |line| lines
                .push(line.to_owned()))
            .unwrap()
        );
        assert_eq!(lines, ["a", "b"]);
        assert!(!each_line(&mut shell("exit 1"), |_| ()).unwrap());
    }
}
