//! The project's own commands: `cargo xtask <command>`.
//!
//! One file per command. Depends on nothing but std, lexopt and anyhow, so that it builds in seconds
//! before anything else does; TOML and JSON are read by the two small readers in here.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program talks on the terminal"
)]

mod answer;
mod bench;
mod bundle;
mod ci;
mod cursor;
mod definition;
mod host;
mod json;
mod kernels;
mod mpi_shim;
mod package;
mod process;
mod project;
mod record;
mod repro;
mod statistics;
mod test_log;
mod tidy;
mod toml;

use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::prelude::*;

/// Every command with its help line; `tidy` holds the documents to this list.
pub(crate) const COMMANDS: [(&str, &str); 7] = [
    (
        "ci",
        "run every check, cheapest first [--only STAGE]... [--list]",
    ),
    (
        "tidy",
        "check the rules that no compiler checks [--record: lower the ratchet]",
    ),
    (
        "kernels",
        "compile cuda/*.cu with nvcc and check them [--record] [--nvcc PATH]; --emulated: for the processor",
    ),
    (
        "bench",
        "measure benches/*.toml and write bench-results/ [NAME...] [--list] [--test] [--host LABEL]; \
         gpu [--results FOLDER]: the kernels on a GPU; \
         micro NAME...: criterion benches; \
         collectives [-b 8 -e 64M -f 2 -c 1 ...] [--tables]: operations between ranks; \
         scaling [--predict]: seconds per step by ranks; scaling --job solver|line|rgcn|place|all [--ranks 1..6] [--backend threads|local|nccl] [--test]",
    ),
    (
        "mpi-shim",
        "compile the library for an MPI without the standard interface [--mpicc PATH] [--out PATH]",
    ),
    (
        "bundle",
        "pack programs, kernels and a run script for a machine with a GPU and no Rust",
    ),
    (
        "repro",
        "redo a figure, a table or a shipped file [NAME] [--list] [--accept] [--runs N] [--host LABEL] [--test]; \
         figures of the solver: [--nodes N] [--peer-python PYTHON|none]; tables of REGAL: [--no-learning] [--set NAME] [--graphs N] [--seconds S] [--threads N]",
    ),
];

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let mut args = lexopt::Parser::from_env();
    match args.next()? {
        Some(Value(command)) => dispatch(&command.string()?, args),
        Some(Long("help") | Short('h')) => {
            print!("{}", usage());
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => Err(other.unexpected().into()),
        None => bail!("no command given\n{}", usage()),
    }
}

fn dispatch(command: &str, args: lexopt::Parser) -> Result<ExitCode> {
    match command {
        "ci" => ci::run(args),
        "tidy" => tidy::run(args),
        "kernels" => kernels::run(args),
        "bench" => bench::run(args),
        "mpi-shim" => mpi_shim::run(args),
        "bundle" => bundle::run(args),
        "repro" => repro::run(args),
        other => bail!("no command {other:?}\n{}", usage()),
    }
}

fn usage() -> String {
    let mut text = String::from("cargo xtask <command>\n");
    for (name, help) in COMMANDS {
        text.push_str(&format!("  {name:<8} {help}\n"));
    }
    text
}
