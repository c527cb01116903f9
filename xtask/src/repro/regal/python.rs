//! A virtual environment of Python with packages of PyPI, for solvers and peers that Rust does not have.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::kernels::{self, toolchain};
use crate::process;
use crate::project;

/// The environment's interpreter, or why there is none.
pub(in crate::repro) type Environment = Result<PathBuf, String>;

/// The environment `name` with these pinned packages, made below `target/` once; other packages take another name.
pub(in crate::repro) fn environment(name: &str, packages: &[String]) -> Result<Environment> {
    let folder = project::target().join("python");
    let _lock = kernels::lock(&folder)?;
    let versions: Vec<&str> = packages
        .iter()
        .map(|package| {
            package
                .split_once("==")
                .map_or(package.as_str(), |(_, v)| v)
        })
        .collect();
    let whole = folder.join(format!("{name}-{}", versions.join("-")));
    // An environment cannot be moved, so a file says that it is whole.
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

fn install(folder: &std::path::Path, packages: &[String]) -> Result<()> {
    let python = toolchain::python_with_pip()?;
    let mut venv = process::command(python);
    toolchain::last_words(venv.args(["-m", "venv"]).arg(folder))?;
    let mut pip = process::command(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--only-binary", ":all:", "--quiet"]);
    pip.args(["--no-input", "--disable-pip-version-check"]);
    pip.args(["--retries", "1", "--timeout", "20"])
        .args(packages);
    println!("$ {}", process::shown(&pip));
    toolchain::last_words(&mut pip)
}
