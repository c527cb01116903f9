//! Ranks as real processes: starts itself again under an MPI launcher, with 2, 3 and 6 ranks, and
//! reads what each rank says.
//!
//! `cargo test -p shardgraph-collectives --test mpi -- [FILTER] [--mpiexec PATH --library PATH]`.
//! Without the flags it takes the MPI that `cargo xtask ci --only mpi` has put into `target/mpi`;
//! where there is none it says so and passes.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own that reports as the test harness does"
)]

#[path = "../suite/checks.rs"]
mod checks;
mod driver;
#[path = "../suite/naive.rs"]
mod naive;
mod rank;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((mark, rest)) if mark == driver::RANK_MARK => rank::main(rest),
        _ => driver::main(&arguments),
    }
}
