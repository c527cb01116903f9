//! The project's own commands: `cargo xtask <command>`.
//!
//! One file per command. What measures is the crate `bench`, which `bench` and `repro` build and call.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program talks on the terminal"
)]

mod absent;
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
#[cfg(unix)]
#[cfg(test)]
mod tests;
mod tidy;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The project's own commands
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

/// Every command; `tidy` holds the documents to this list.
#[derive(Subcommand)]
enum Command {
    /// Run every check, cheapest first
    Ci(ci::Args),
    /// Check the rules that no compiler checks
    Tidy(tidy::Args),
    /// Compile cuda/*.cu with nvcc and check them
    Kernels(kernels::Args),
    /// Measure suites of benches/ and replace their records
    #[command(disable_help_flag = true)]
    Bench(Words),
    /// Redo figures of a paper and replace their records
    #[command(disable_help_flag = true)]
    Repro(Words),
    /// Compile the library for an MPI without the standard interface
    MpiShim(mpi_shim::Args),
    /// Pack programs, kernels and a run script for a machine with a GPU and no Rust
    Bundle,
    /// Build the wheel in a fresh environment under target/ and run the Python package's checks
    Python,
    /// List the program's crates, their licences and what is unsafe in them
    Sbom(sbom::Args),
    /// Write a record as one HTML file
    Report(report::Args),
}

/// What the program of `crates/bench` reads.
#[derive(clap::Args)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(Xtask::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Ci(args) => return ci::run(&args),
        Command::Tidy(args) => return tidy::run(&args),
        Command::Bench(args) => return bench::run("bench", &args.words),
        Command::Repro(args) => return bench::run("repro", &args.words),
        Command::Kernels(args) => kernels::run(&args)?,
        Command::MpiShim(args) => mpi_shim::run(&args)?,
        Command::Bundle => bundle::run()?,
        Command::Python => python::run()?,
        Command::Sbom(args) => sbom::run(&args)?,
        Command::Report(args) => report::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
