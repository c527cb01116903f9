//! Seconds of every operation on every back end over sizes and numbers of ranks, after a check of
//! each result.
//!
//! `cargo xtask bench collectives` runs it with what the user asked for and makes tables and
//! records. By itself, as in `cargo test --bench collectives`, it does every operation once on
//! small buffers between threads and over TCP, and checks the results.
//!
//! Ranks print nothing but rank 0, which prints one line for each point: `POINT backend=tcp
//! op=all_reduce redop=sum root=-1 ranks=4 bytes=1024 count=256 algorithm=auto wrong=0
//! seconds=1.2e-5,1.3e-5`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own that reports on the terminal"
)]

mod arguments;
mod cost;
mod launch;
mod model;
mod work;

use arguments::Arguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.split_first() {
        Some((mark, rest)) if mark == launch::RANK_MARK => launch::be_rank(rest),
        Some((mode, [n_cores])) if mode == "--fit" => model::fit_all(n_cores),
        Some((mode, [])) if mode == "--predict" => model::predict_all(),
        _ => Arguments::parse(&words).and_then(|arguments| launch::run_all(&arguments)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("collectives: {text}");
            ExitCode::FAILURE
        }
    }
}
