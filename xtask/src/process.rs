//! Child processes: cargo with a quiet terminal.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::project;

/// Seconds since it was made.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "times whole child processes; no device of this process is involved"
    )]
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// A command in the workspace root that neither asks questions nor draws progress bars.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(project::root())
        .stdin(Stdio::null())
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .env("GIT_TERMINAL_PROMPT", "0");
    if let Some(seed) = PROPERTY_SEED.get() {
        command.env(PROPERTY_SEED_NAME, seed);
    }
    command
}

/// What proptest begins its random cases with.
const PROPERTY_SEED_NAME: &str = "PROPTEST_RNG_SEED";

static PROPERTY_SEED: OnceLock<String> = OnceLock::new();

/// From here on every child draws the same random cases for the same files of the revision: what passes or fails here does so on the
/// next machine. The caller's own seed, where the environment has one, stays. Gives the seed, or nothing outside a checkout.
pub(crate) fn seed_properties() -> Option<String> {
    if let Ok(own) = std::env::var(PROPERTY_SEED_NAME) {
        return Some(own);
    }
    let tree = stdout_of(command("git").args(["rev-parse", "HEAD^{tree}"])).ok()?;
    let seed = u64::from_str_radix(tree.get(..16)?, 16).ok()?;
    Some(PROPERTY_SEED.get_or_init(|| seed.to_string()).clone())
}

/// How cargo builds here, where the caller's environment does not say: whole and once, in one unit a crate and without debug
/// information.
const BUILD: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_DEV_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
];

/// The cargo that started us, with `args`.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = command(program);
    cargo.args(args);
    for (name, value) in BUILD {
        if std::env::var_os(name).is_none() {
            cargo.env(name, value);
        }
    }
    cargo
}

/// Runs to the end; an exit status other than zero is an error.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{status}: {}", shown(command));
    }
    Ok(())
}

/// Runs to the end and returns standard output.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
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
pub(crate) fn each_line(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
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
pub(crate) fn shown(command: &Command) -> String {
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

/// Builds the release binary and returns its path.
pub(crate) fn build_shardgraph() -> Result<PathBuf> {
    check(&mut cargo(&[
        "build",
        "--release",
        "--locked",
        "--package",
        "shardgraph-cli",
    ]))?;
    let name = format!("shardgraph{}", std::env::consts::EXE_SUFFIX);
    Ok(project::target().join("release").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        shell
    }

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
