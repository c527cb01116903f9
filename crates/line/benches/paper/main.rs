//! The figures of the paper on LINE by a hybrid system: the program behind `cargo xtask repro line-fig3` to `line-fig7`.
//!
//! `paper COMMAND REQUEST`, the request a JSON object; every line of standard output is a JSON object too, a row of a table whose arrays hold
//! a number of each repetition. A graph that is not there is a line `SKIPPED: ...`. Without a command, as in `cargo test --bench paper`, every
//! command runs once on the smallest settings.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own that reports on the terminal"
)]

mod graphs;
mod peers;
mod quality;
mod times;

use std::process::ExitCode;

use serde::de::DeserializeOwned;

/// What any part of the program may fail with; only printed.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // Cargo adds a flag of its own.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let outcome = match words.as_slice() {
        [] => small(),
        [command, request] => run(command, request),
        _ => Err("expected a command and a request in JSON".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paper: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, request: &str) -> Result<(), Failure> {
    match command {
        "time" => times::run(&parsed(request)?),
        "bytes" => times::bytes(&parsed(request)?),
        "quality" => quality::run(&parsed(request)?),
        "in-flight" => quality::in_flight(&parsed(request)?),
        "time-to-auc" => quality::time_to_auc(&parsed(request)?),
        "peer" => peers::run(&parsed(request)?),
        other => Err(format!("no command `{other}`").into()),
    }
}

fn parsed<T: DeserializeOwned>(request: &str) -> Result<T, Failure> {
    serde_json::from_str(request).map_err(|error| format!("the request: {error}").into())
}

/// Every command on the smallest input that means something.
fn small() -> Result<(), Failure> {
    run(
        "time",
        r#"{"graphs": ["ba:300:4"], "dims": [8], "threads": [1, 2], "epochs": 1, "runs": 1, "variants": ["faithful", "share 16 fp16"]}"#,
    )?;
    run(
        "bytes",
        r#"{"edges": 1000, "epochs": 2, "seconds": 1, "gb_per_s": 240}"#,
    )?;
    run(
        "quality",
        r#"{"graphs": ["sbm:200:4:0.3:0.01"], "variants": ["faithful", "parts 2 share 2 fp16 hogwild", "adagrad"], "epochs": [20], "runs": 1}"#,
    )?;
    run(
        "in-flight",
        r#"{"graphs": ["sbm:200:4:0.3:0.01"], "variants": ["faithful"], "edges_in_flight": [0, 64], "epochs": 20, "runs": 1}"#,
    )?;
    run(
        "time-to-auc",
        r#"{"graph": "sbm:200:4:0.3:0.01", "variants": ["faithful"], "epochs": [20, 40], "runs": 1, "uniform": 0.55, "degree_matched": 0.55}"#,
    )?;
    peers::small()
}
