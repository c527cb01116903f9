//! The paper's data sets and tables on our graphs: the program behind `cargo xtask repro datasets`, `table1`, `table3`, `tune` and
//! `cp-sat`; and the seconds of a step of training and of a policy, `paper learning '{}'`.
//!
//! `paper COMMAND REQUEST`, the request a JSON object; every line of standard output is a JSON object too, but for those that begin
//! with `SKIPPED:`. Without a command, as in `cargo test --bench paper`, every command runs once on a few small graphs.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own that reports on the terminal"
)]

mod datasets;
mod direct;
mod experiment;
mod learning;
mod overlaps;
mod problems;
mod sets;
mod statistics;
mod tables;
mod timings;
mod tuning;

use std::process::ExitCode;

use serde::de::DeserializeOwned;

/// What any part of the program may fail with; only printed.
type Failure = Box<dyn std::error::Error>;

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
        "datasets" => datasets::run(&parsed(request)?),
        "compare" => tables::run(&parsed(request)?),
        "direct" => direct::run(&parsed(request)?),
        "experiment" => experiment::run(&parsed(request)?),
        "overlaps" => overlaps::run(&parsed(request)?),
        "tune" => tuning::run(&parsed(request)?),
        "learning" => learning::run(&parsed(request)?),
        "timings" => timings::run(&parsed(request)?),
        "problems" => problems::write(&parsed(request)?),
        "check" => problems::check(&parsed(request)?),
        "found" => problems::compare_found(&parsed(request)?),
        other => Err(format!("no command `{other}`").into()),
    }
}

fn parsed<T: DeserializeOwned>(request: &str) -> Result<T, Failure> {
    serde_json::from_str(request).map_err(|error| format!("the request: {error}").into())
}

const SMALL_OVERLAPS: &str = r#"{"policy": "-", "n_synthetic": 2, "seed": 1, "trained_on": [],
    "reported": [{"set": "synthetic", "data": "", "max_graphs": 2, "min_gain": 0.0}]}"#;

/// What an experiment takes, but for what is measured.
const SMALL_EXPERIMENT: &str = r#""series": "small", "objective": "memory", "evaluations": 80, "n_each": 2, "threads": 2,
    "genetic": {"population": 20, "elites": 4, "mutants": 4},
    "source": {"set": "synthetic", "data": "", "max_graphs": 2, "min_gain": 0.0},
    "train": {"preset": "memory", "n_synthetic": 2, "seed": 3, "settings": {"steps": 3, "reward_evaluations": 60, "denominator_seeds": 1,
    "policy": {"feature_evaluations": 60, "encoder": {"graph-network": {"n_rounds": 1}}}}}"#;

/// Every measure once.
fn small_experiments() -> Result<(), Failure> {
    let all = [
        "improvement",
        "histogram",
        "reward",
        "topologies",
        "entropies",
        "actions",
        "curve",
    ];
    for measure in all {
        let request = format!(r#"{{"measure": "{measure}", {SMALL_EXPERIMENT}}}"#);
        run("experiment", &request)?;
    }
    for kind in ["supervised", "reinforced"] {
        let request = format!(
            r#"{{"kind": "{kind}", "series": "small", "evaluations": 100, "nodes": [3, 5], "n_train": 2, "n_test": 2, "steps": 2,
            "genetic": {{"population": 20, "elites": 4, "mutants": 4}}}}"#
        );
        run("direct", &request)?;
    }
    Ok(())
}

/// Every command on the smallest input that means something.
fn small() -> Result<(), Failure> {
    sets::check_split()?;
    statistics::check()?;
    let options =
        r#"{"evaluations": 100, "genetic": {"population": 20, "elites": 4, "mutants": 4}}"#;
    let source = r#"{"set": "synthetic", "data": "", "max_graphs": 2, "min_gain": 0.0}"#;
    run("datasets", &format!(r#"{{"source": {source}}}"#))?;
    for objective in ["runtime", "memory"] {
        let request = format!(
            r#"{{"source": {source}, "objective": "{objective}", "options": {options},
            "candidates": ["brkga/paper", "tuned-brkga/paper", "heft"], "seconds": 600}}"#
        );
        run("compare", &request)?;
    }
    let request = format!(
        r#"{{"source": {source}, "objective": "runtime", "options": {{"evaluations": 450}}, "policy": "runtime", "policy_decoder": "list",
        "bandwidth_gbs": 12, "candidates": ["brkga/paper", "rank-brkga/paper"], "seconds": 600}}"#
    );
    run("compare", &request)?;
    small_experiments()?;
    run("overlaps", SMALL_OVERLAPS)?;
    let grid = r#"{"population": [20, 40], "elite_share": [0.2], "mutant_share": [0.1], "populations": [1], "alpha": [1.0], "beta": [1.0, 2.0]}"#;
    let request = format!(
        r#"{{"sources": [{source}], "objective": "runtime", "options": {options}, "grid": {grid}, "first_graphs": 1}}"#
    );
    run("tune", &request)?;
    run(
        "timings",
        r#"{"n_ops": [20], "evaluations": 200, "runs": 1}"#,
    )?;
    run(
        "learning",
        r#"{"n_nodes": 10, "evaluations": 500, "reward_evaluations": 100, "runs": 1}"#,
    )?;
    let folder = std::env::temp_dir().join(format!("shardgraph-paper-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let folder_json = serde_json::to_string(&folder)?;
    let outcome = run(
        "problems",
        &format!(r#"{{"folder": {folder_json}, "data": "", "large": 0}}"#),
    );
    std::fs::remove_dir_all(&folder)?;
    outcome
}

/// Seconds from some moment on, by the clock on the wall: no device is involved, and the processor's time of one thread is not
/// everywhere to be had.
fn clock() -> impl FnMut() -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "times whole searches of this process; no device is involved"
    )]
    let start = std::time::Instant::now();
    move || start.elapsed().as_secs_f64()
}
