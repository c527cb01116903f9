//! Measurements of the Python package: its wheel beside the packages that it serves, by scripts of `crates/python/benches`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::measure::Context;
use crate::report::{Failure, Report};
use crate::{paths, process, python};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Pinned; maturin is one of them, which builds the wheel.
    packages: Vec<String>,
    /// A file of `crates/python/benches`.
    script: String,
    /// What the script is given, as JSON.
    arguments: Value,
}

/// Builds and installs the wheel, and makes a row of every line of the script.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let python = match python::interpreter(context.options, "package", &request.packages)? {
        Ok(python) => python,
        Err(why) => {
            out.skip(&why);
            return Ok(());
        }
    };
    install(&python)?;
    let folder = paths::root().join("crates/python/benches");
    let mut script = process::command(&python);
    script.arg(folder.join(&request.script));
    script.arg(request.arguments.to_string());
    process::rows(&mut script, &request.script, out, |row| row)
}

/// The wheel of this checkout into the environment of `python`.
fn install(python: &Path) -> Result<()> {
    let wheels = paths::fresh_scratch("wheel")?;
    let mut build = process::command(python);
    build.args(["-m", "maturin", "build", "--release", "--locked"]);
    build.arg("--manifest-path");
    build.arg(paths::root().join("crates/python/Cargo.toml"));
    build.arg("--interpreter").arg(python);
    build.arg("--out").arg(&wheels);
    build.env("CARGO_TARGET_DIR", paths::target().join("python-build"));
    println!("$ {}", process::shown(&build));
    process::check(&mut build)?;
    let mut install = process::command(python);
    install.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    install.args(["--force-reinstall", "--disable-pip-version-check"]);
    process::check(install.arg(wheel_of(&wheels)?))
}

/// The one wheel of a folder.
fn wheel_of(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut wheels = paths.filter(|path| path.extension() == Some(OsStr::new("whl")));
    wheels.next().context("maturin made no wheel")
}
