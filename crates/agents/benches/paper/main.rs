//! The figures of the RLgraph paper on cart and pole: the program behind `cargo xtask repro fig4a` to `fig8`.
//!
//! `paper COMMAND REQUEST`, the request a JSON object; every line of standard output is a JSON object too, a row of a table whose arrays hold
//! a number of each repetition. An answer that fails its check ends the program. Without a command, as in `cargo test --bench paper`, every
//! command runs once on the smallest settings.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own that reports on the terminal"
)]

mod acting;
mod building;
mod learning;
mod processes;
mod replicas;
mod scaling;
mod tasks;
mod topologies;

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
        "build" => building::run(&parsed(request)?),
        "act" => acting::run(&parsed(request)?),
        "topology" => topologies::run(&parsed(request)?),
        "scale" => scaling::run(&parsed(request)?),
        "tasks" => tasks::run(&parsed(request)?),
        "learn" => learning::run(&parsed(request)?),
        "replicas" => replicas::run(&parsed(request)?),
        // One of the processes that `topology` starts.
        "rank" => processes::run_rank(&parsed(request)?),
        other => Err(format!("no command `{other}`").into()),
    }
}

fn parsed<T: DeserializeOwned>(request: &str) -> Result<T, Failure> {
    serde_json::from_str(request).map_err(|error| format!("the request: {error}").into())
}

/// Every command on the smallest input that means something.
fn small() -> Result<(), Failure> {
    run("build", r#"{"runs": 1}"#)?;
    run("act", r#"{"environments": [1, 3], "states": 6, "runs": 1}"#)?;
    for agent in ["cartpole-apex", "cartpole-impala"] {
        let request = format!(
            r#"{{"agent": "{agent}", "actors": [1, 2], "launches": ["threads", "processes"], "steps": 3000, "runs": 1}}"#
        );
        run("topology", &request)?;
    }
    run("scale", r#"{"actors": [256], "steps": 4000, "runs": 1}"#)?;
    run(
        "tasks",
        r#"{"environments": [1, 4], "samples": [50], "steps": 3000, "runs": 1}"#,
    )?;
    run(
        "learn",
        r#"{"agent": "cartpole-dqn", "seeds": 1, "steps": 10500, "every": 5000, "goal": 450, "at_least": 0}"#,
    )?;
    run(
        "replicas",
        r#"{"batches": [4], "ranks": [1, 2], "updates": 2, "runs": 1}"#,
    )
}

/// Fails with a sentence where an answer is not what it must be.
fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(wrong().into()),
    }
}
