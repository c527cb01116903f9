//! `cargo xtask bench` and `cargo xtask repro`: build the program of `crates/bench` in release, with the binary that it
//! measures, and hand it the words.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::kernels::{self, Built};
use crate::process::{self, cargo};
use crate::project;

/// The suite that measures kernels, which are compiled first.
const GPU: &str = "gpu";

/// Runs either command.
pub(crate) fn run(command: &str, mut args: lexopt::Parser) -> Result<ExitCode> {
    let words: Vec<_> = args.raw_args()?.collect();
    let is_measured_here = !words.iter().any(|word| word == "--results");
    if words.iter().any(|word| word == GPU) && is_measured_here {
        match kernels::build(&kernels::Options::default())? {
            done @ Built::Done { .. } => done.print(),
            Built::NoToolchain(why) => bail!("there are no kernels to measure: {why}"),
        }
    }
    let mut build = cargo(&["build", "--release", "--locked", "--quiet"]);
    build.args([
        "--package",
        "shardgraph-cli",
        "--package",
        "shardgraph-bench",
    ]);
    process::check(&mut build)?;
    let name = format!("shardgraph-bench{}", std::env::consts::EXE_SUFFIX);
    let mut program = process::command(project::target().join("release").join(name));
    let status = program.arg(command).args(words).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}
