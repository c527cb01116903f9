//! The same kernels for the processor: builds of the emulator's crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::absent::absent;
use crate::process::{self, cargo};
use crate::project;

/// Where a program looks for the emulator: the constant of the same name in `shardgraph-device`.
const EMULATOR_FILE: &str = "libshardgraph_emulated.so";

/// The exit code of the emulator's compiler where a compiler or a sanitizer is missing.
const NO_COMPILER: i32 = 3;

/// Environment variables.
type Variables = Vec<(String, String)>;

/// Builds the emulator and puts it beside the built programs.
pub(crate) fn put_beside_the_programs() -> Result<()> {
    for profile in ["debug", "release"] {
        put_into(&project::target().join(profile))?;
    }
    Ok(())
}

/// Builds the emulator and copies it into `folder`.
pub(crate) fn put_into(folder: &Path) -> Result<()> {
    compile("plain")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let beside = folder.join(EMULATOR_FILE);
    fs::copy(library("plain"), &beside).with_context(|| beside.display().to_string())?;
    println!("kernels: {}", beside.display());
    Ok(())
}

fn library(build: &str) -> PathBuf {
    project::target().join(format!("emulated/{build}.so"))
}

/// Compiles one build of the emulated kernels: `plain`, `address` or `race`. Gives the variables under which a test uses
/// it; absent where it cannot be compiled.
pub(crate) fn compile(build: &str) -> Result<Variables> {
    let mut run = cargo("run --quiet --locked --package shardgraph-cuemu");
    run.args(["--bin", "cuemu-build", "--", build])
        .arg(library(build));
    variables_of(&mut run)
}

/// The variables that the compiled library wants.
fn variables_of(command: &mut Command) -> Result<Variables> {
    println!("$ {}", process::shown(command));
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("cannot start {}", process::shown(command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    print!("{said}");
    if output.status.code() == Some(NO_COMPILER) {
        return Err(absent(said.lines().last().unwrap_or_default()));
    }
    if !output.status.success() {
        bail!("{}: {}", output.status, process::shown(command));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let variables: Variables = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    ensure!(
        !variables.is_empty(),
        "no variables from {}",
        process::shown(command)
    );
    Ok(variables)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::absent::Absent;
    use crate::project::Project;

    #[test]
    fn the_compiler_gives_variables_or_a_reason() {
        let run = |script: &str| {
            let mut shell = process::command("/bin/sh");
            variables_of(shell.args(["-c", script]))
        };
        let variables = run("echo A=/b; echo C=d=e; echo warning >&2").unwrap();
        let expected = [("A", "/b"), ("C", "d=e")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(variables, expected);
        let missing = run("echo no g++ >&2; exit 3").unwrap_err();
        assert_eq!(missing.downcast::<Absent>().unwrap().to_string(), "no g++");
        assert!(run("echo A=b; exit 1").is_err());
        assert!(run("true").is_err());
    }

    #[test]
    fn programs_look_for_this_file() {
        let device = Project::load()
            .unwrap()
            .text("crates/device/src/device.rs")
            .to_owned();
        let constant = format!("pub const EMULATOR_FILE: &str = \"{EMULATOR_FILE}\";");
        assert!(device.contains(&constant), "{constant}");
    }
}
