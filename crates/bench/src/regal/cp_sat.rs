//! Optima by CP-SAT of OR-Tools, whose schedules are replayed here; `--accept` makes the fixtures of
//! `crates/costgraph-io/tests/corpus` from what it proved.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{problems, seconds};
use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};
use crate::{paths, process, python};

const SCRIPT: &str = "cp_sat.py";
const FIXTURES: &str = "crates/costgraph-io/tests/corpus/cp_sat.jsonl";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// What pip installs.
    package: String,
    /// For each problem.
    seconds: f64,
    workers: u32,
    /// Graphs of the paper's sizes beside the small ones.
    large: u32,
    genetic: Value,
}

/// Solves problems, replays the schedules, and compares BRKGA with what was proved.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let options = context.options;
    let packages = [request.package.clone()];
    let python = match python::interpreter(options, "ortools", &packages)? {
        Ok(python) => python,
        Err(why) => {
            out.skip(&why);
            return Ok(());
        }
    };
    let folder = paths::fresh_scratch("cp-sat")?;
    let large = options.graphs.unwrap_or(options.sized(request.large, 0));
    let problems: problems::Request =
        parsed(json!({"folder": folder, "large": large, "genetic": request.genetic}))?;
    problems::write(&problems, out)?;
    let limit = seconds(options, Some(request.seconds));
    let answers = solve(&python, &folder, limit, request.workers)?;
    fs::write(folder.join("answers.jsonl"), answers)?;
    let lines = problems::check(&problems)?;
    if options.accept {
        let proven = fs::read_to_string(folder.join("proven.jsonl"))?;
        fs::write(paths::root().join(FIXTURES), proven)?;
        out.progress(&format!("wrote {FIXTURES}"));
    }
    let beaten: Vec<&Value> = lines.iter().filter(|line| is_beaten(line)).collect();
    if let Some(line) = beaten.first() {
        return Err(format!("a proven optimum is beaten, which is a mistake: {line}").into());
    }
    for line in lines {
        out.row(with_gaps(line));
    }
    Ok(())
}

/// The script's answers, a line for each problem.
fn solve(python: &Path, folder: &Path, limit: f64, workers: u32) -> Result<String, Failure> {
    let mut solve = process::command(python);
    solve.arg(paths::peer(SCRIPT));
    solve.arg(folder.join("problems.jsonl"));
    solve.args(["--seconds", &limit.to_string()]);
    solve.args(["--workers", &workers.to_string()]);
    process::answers(&mut solve, SCRIPT)
}

fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or(f64::NAN)
}

fn is_beaten(line: &Value) -> bool {
    let best = number(line, "paper").min(number(line, "list"));
    line["status"] == "OPTIMAL" && best < number(line, "value")
}

/// A row: what BRKGA with each decoder has above the solver's value.
fn with_gaps(mut line: Value) -> Value {
    let value = number(&line, "value");
    for (from, to, percent) in [
        ("paper", "brkga_paper", "brkga_paper_percent"),
        ("list", "brkga_list", "brkga_list_percent"),
    ] {
        let found = number(&line, from);
        line[to] = json!(found);
        line[percent] = json!(100.0 * (found / value - 1.0));
        line[from] = Value::Null;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proven_optimum_cannot_be_beaten() {
        let line = |status: &str, paper: u32| json!({"status": status, "value": 10, "paper": paper, "list": 15});
        assert!(is_beaten(&line("OPTIMAL", 9)));
        assert!(!is_beaten(&line("OPTIMAL", 10)));
        assert!(!is_beaten(&line("FEASIBLE", 9)));
        let row = with_gaps(line("OPTIMAL", 12));
        assert!((number(&row, "brkga_paper_percent") - 20.0).abs() < 1e-9);
        assert!(row["paper"].is_null());
    }
}
