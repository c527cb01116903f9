//! `cargo xtask bench` and `cargo xtask repro`: build the program of `crates/bench` in release, with the binary that it
//! measures, and hand it the words.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::kernels;
use crate::process::{self, cargo};
use crate::project;

/// The suite that measures kernels, which are compiled first.
const GPU: &str = "gpu";

/// Runs either command.
pub(crate) fn run(command: &str, words: &[OsString]) -> Result<ExitCode> {
    let is_measured_here = !words.iter().any(|word| word == "--results");
    if words.iter().any(|word| word == GPU) && is_measured_here {
        kernels::build(&kernels::Args::default())?.print();
    }
    let mut build = cargo("build --release --locked --quiet");
    build.args(["--package", "shardgraph-cli"]);
    build.args(["--package", "shardgraph-bench"]);
    process::check(&mut build)?;
    let name = format!("shardgraph-bench{}", std::env::consts::EXE_SUFFIX);
    let mut program = process::command(project::target().join("release").join(name));
    let status = program.arg(command).args(words).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}
