//! The project's own commands: `cargo xtask <command>`.
//!
//! One file per command. What measures is the crate `bench`, which `bench` and `repro` build and call.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program talks on the terminal"
)]

mod bench;
mod bundle;
mod ci;
mod kernels;
mod mpi_shim;
mod package;
mod process;
mod project;
mod python;
mod report;
mod sbom;
mod test_log;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::prelude::*;

/// Every command with its help line; `tidy` holds the documents to this list.
pub(crate) const COMMANDS: [(&str, &str); 10] = [
    (
        "ci",
        "run every check, cheapest first [--only STAGE]... [--list]",
    ),
    (
        "tidy",
        "check the rules that no compiler checks [--record: lower the counts of xtask/tidy.toml]",
    ),
    (
        "kernels",
        "compile cuda/*.cu with nvcc and check them [--record] [--nvcc PATH]; --emulated: for the processor",
    ),
    (
        "bench",
        "measure suites of benches/ and replace their records [SUITE...] [--list] [--test] [--index] [--help]",
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
        "python",
        "build the wheel in a fresh environment under target/ and run the Python package's checks",
    ),
    (
        "sbom",
        "list the program's crates, their licences and what is unsafe in them [--out PATH]",
    ),
    (
        "repro",
        "redo figures of a paper and replace their records PAPER [FIGURE...] [--help]",
    ),
    (
        "report",
        "write a record as one HTML file PAPER/FIGURE [--against RECORD] [--out FILE]",
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
        "bench" | "repro" => bench::run(command, args),
        "mpi-shim" => mpi_shim::run(args),
        "bundle" => bundle::run(args),
        "python" => python::run(args),
        "sbom" => sbom::run(args),
        "report" => report::run(args),
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
