//! Figures of the papers and suites of measurements: from `benches/` to `bench-results/`.
//!
//! `figure` reads a definition, `series` measures its lines, `row` is what comes out, `table` and
//! `chart` show rows, `record` writes them, `index` lists all records. What one paper alone needs
//! stands in a folder of its name.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that reports on the terminal"
)]

mod answer;
mod field;
mod launch;
mod line;
mod measure;
mod opengraphgym;
mod options;
mod paths;
mod process;
mod python;
mod python_package;
mod record;
mod regal;
mod registry;
mod report;
mod rgcn;
mod rlgraph;
mod robustness;
mod run;
mod series;
mod suites;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use shardgraph_records::{chart, data, figure, host, index, row, statistics};

use crate::options::{Command, Program};

fn main() -> ExitCode {
    match start(Program::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start(program: Program) -> Result<ExitCode> {
    match program.command {
        Command::Repro {
            paper,
            figures,
            options,
        } => run::figures(&run::of_paper(&paper, &figures)?, &options),
        Command::Bench {
            suites, list: true, ..
        } => run::list(&suites),
        Command::Bench { index: true, .. } => {
            index::write()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Bench {
            suites, options, ..
        } => run::figures(&run::of_suites(&suites, &options)?, &options),
        Command::Rank { request } => {
            rlgraph::run_rank(&request)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
