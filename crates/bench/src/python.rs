//! Python environments with the packages of a peer, made under `target/python` and kept.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::options::Options;
use crate::paths;
use crate::process;

/// Word of `--peer-python` for no interpreter.
pub(crate) const NONE: &str = "none";

/// The interpreter, or why there is none.
pub(crate) type Interpreter = Result<PathBuf, String>;

/// The interpreter of the flags, or one of an environment with `packages`. A test makes none: it
/// would download.
pub(crate) fn interpreter(
    options: &Options,
    name: &str,
    packages: &[String],
) -> Result<Interpreter> {
    match options.peer_python.as_deref() {
        Some(NONE) => Ok(Err("not run: --peer-python none".to_owned())),
        Some(python) => Ok(Ok(PathBuf::from(python))),
        None if options.test => Ok(Err("not run: a test downloads no packages".to_owned())),
        None => {
            let made = environment(name, packages)?;
            Ok(made.map_err(|why| format!("not run: {why}")))
        }
    }
}

/// An environment with pinned packages; it is made once.
fn environment(name: &str, packages: &[String]) -> Result<Interpreter> {
    let folder = paths::target().join("python");
    let _lock = lock(&folder)?;
    let version = |package: &String| package.split("==").last().unwrap_or_default().to_owned();
    let versions: Vec<String> = packages.iter().map(version).collect();
    let whole = folder.join(format!("{name}-{}", versions.join("-")));
    let (python, mark) = (whole.join("bin/python"), whole.join("installed"));
    if mark.exists() {
        return Ok(Ok(python));
    }
    if whole.exists() {
        fs::remove_dir_all(&whole)?;
    }
    if let Err(error) = install(&whole, packages) {
        return Ok(Err(format!("no {}: {error:#}", packages.join(", "))));
    }
    fs::write(&mark, packages.join("\n")).with_context(|| mark.display().to_string())?;
    Ok(Ok(python))
}

/// A lock on the folder, held while the file lives.
fn lock(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    file.lock().with_context(|| path.display().to_string())?;
    Ok(file)
}

fn install(folder: &Path, packages: &[String]) -> Result<()> {
    let mut venv = process::command("python3");
    last_words(venv.args(["-m", "venv"]).arg(folder))?;
    let mut pip = process::command(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--only-binary", ":all:", "--quiet"]);
    pip.args(["--no-input", "--disable-pip-version-check"]);
    pip.args(["--retries", "1", "--timeout", "20"])
        .args(packages);
    println!("$ {}", process::shown(&pip));
    last_words(&mut pip)
}

/// Runs a command that says nothing unless it fails; its last error line is the error.
fn last_words(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", process::shown(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| line.starts_with("ERROR"));
    bail!(
        "{}",
        last.or(text.lines().last()).unwrap_or("it says nothing")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_and_none_have_no_interpreter() {
        for (python, test) in [(None, true), (Some("none"), false)] {
            let options = Options {
                peer_python: python.map(str::to_owned),
                test,
                ..Options::default()
            };
            assert!(interpreter(&options, "x", &[]).unwrap().is_err());
        }
        let options = Options {
            peer_python: Some("/usr/bin/python3".to_owned()),
            ..Options::default()
        };
        assert!(interpreter(&options, "x", &[]).unwrap().is_ok());
    }
}
