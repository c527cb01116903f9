//! `cargo xtask repro cp-sat`: optima by CP-SAT of OR-Tools, whose schedules are replayed here; `--accept` makes the fixtures of
//! `crates/costgraph/tests/optima` from what it proved.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use super::super::Options;
use super::{Paper, number_at, percent, python, seconds, text_at};
use crate::answer::Metric;
use crate::bench::fresh_scratch;
use crate::definition::{number, string};
use crate::json::Json;
use crate::process;
use crate::project;
use crate::record::{Record, Sample};
use crate::statistics::shown;

const SCRIPT: &str = "xtask/peers/cp_sat.py";
const FIXTURES: &str = "crates/costgraph/tests/corpus/cp_sat.jsonl";

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let paper = Paper::build()?;
    let table = paper.table("cp-sat")?;
    let python = match python::environment("ortools", &[string(table, "package")?])? {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: cp-sat: {why}\ncp-sat: 1 skipped");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let folder = fresh_scratch("cp-sat")?;
    let request = request(&paper, options, &folder)?;
    paper.run("problems", &request, |_| ())?;
    let limit = seconds(options, number(table, "seconds")?);
    let answers = solve(&python, &folder, limit, number(table, "workers")?)?;
    fs::write(folder.join("answers.jsonl"), &answers)?;
    let lines = paper.run("check", &request, |_| ())?.objects;
    if options.accept {
        let proven = fs::read_to_string(folder.join("proven.jsonl"))?;
        fs::write(project::root().join(FIXTURES), proven).context(FIXTURES)?;
        println!("cp-sat: wrote {FIXTURES}");
    }
    report(options, &lines, limit)
}

fn request(paper: &Paper, options: &Options, folder: &Path) -> Result<Json> {
    let large = match (options.graphs, options.test) {
        (Some(graphs), _) => f64::from(graphs),
        (None, true) => 0.0,
        (None, false) => number(paper.table("cp-sat")?, "large")?,
    };
    Ok(Json::object([
        ("folder", Json::text(&folder.display().to_string())),
        ("data", Json::text(super::DATA)),
        ("large", Json::Number(large)),
        ("genetic", paper.genetic()?),
    ]))
}

/// The script's answers, a line for each problem.
fn solve(python: &Path, folder: &Path, limit: f64, workers: f64) -> Result<String> {
    let mut solve = process::command(python);
    solve.arg(project::root().join(SCRIPT));
    solve.arg(folder.join("problems.jsonl"));
    solve.args(["--seconds", &limit.to_string()]);
    solve.args(["--workers", &workers.to_string()]);
    let mut answers = String::new();
    let succeeded = process::each_line(&mut solve, |line| {
        answers.push_str(line);
        answers.push('\n');
        println!("cp-sat: {} answers", answers.lines().count());
    })?;
    ensure!(succeeded, "{SCRIPT} failed");
    Ok(answers)
}

fn report(options: &Options, lines: &[Json], limit: f64) -> Result<ExitCode> {
    let mut record = Record::new(options.host.as_deref(), options.shown("cp-sat"))?;
    let rows: String = lines.iter().map(row).collect();
    let n_beaten = lines.iter().filter(|line| is_beaten(line)).count();
    record.report = format!(
        "`{SCRIPT}`, at most {limit} s for each problem. The replay gives what the solver says of each of its schedules, or the command fails. \
         `bound` is ours (no solver), `solver's bound` what CP-SAT proved; BRKGA has 5000 evaluations.\n\n\
         | graph | ops | devices | objective | status | CP-SAT | solver's bound | bound | BRKGA, paper | above % | BRKGA, list | above % | seconds |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n{rows}\n\
         {} problems, {} proven, {n_beaten} proven optima beaten (a number above 0 is a mistake).\n",
        lines.len(),
        lines.iter().filter(|line| is_proven(line)).count()
    );
    println!("{}", record.report);
    record.samples.extend(lines.iter().flat_map(samples));
    if !options.test {
        println!("cp-sat: written to {}", record.write()?.display());
    }
    Ok(match n_beaten {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn is_proven(line: &Json) -> bool {
    text_at(line, "status") == "OPTIMAL"
}

fn is_beaten(line: &Json) -> bool {
    let number = |key: &str| number_at(line, &[key]);
    is_proven(line) && number("paper").min(number("list")) < number("value")
}

fn row(line: &Json) -> String {
    let number = |key: &str| number_at(line, &[key]);
    let whole = |key: &str| shown(number(key));
    let above = |key: &str| percent(number(key) / number("value") - 1.0);
    let cells = [
        text_at(line, "graph").to_owned(),
        whole("n_ops"),
        whole("n_devices"),
        text_at(line, "objective").to_owned(),
        text_at(line, "status").to_owned(),
        whole("value"),
        whole("solver_bound"),
        whole("lower_bound"),
        whole("paper"),
        above("paper"),
        whole("list"),
        above("list"),
        format!("{:.2}", number("seconds")),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn samples(line: &Json) -> impl Iterator<Item = Sample> {
    let series = format!(
        "cp-sat {} {}",
        text_at(line, "graph"),
        text_at(line, "objective")
    );
    let names = [
        "value",
        "solver_bound",
        "lower_bound",
        "paper",
        "list",
        "seconds",
    ];
    let numbers = names.map(|name| (name, number_at(line, &[name])));
    numbers.into_iter().map(move |(name, value)| Sample {
        series: series.clone(),
        run_idx: 0,
        metric: Metric::new(name, value, ""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn only_a_proven_optimum_cannot_be_beaten() {
        let line = |status: &str, paper: u32| {
            let text = format!(
                r#"{{"graph": "g", "n_ops": 5, "objective": "runtime", "status": "{status}", "value": 10, "paper": {paper}, "list": 15}}"#
            );
            json::parse(&text).unwrap()
        };
        assert!(is_beaten(&line("OPTIMAL", 9)));
        assert!(!is_beaten(&line("OPTIMAL", 10)));
        assert!(!is_beaten(&line("FEASIBLE", 9)));
        let text = row(&line("OPTIMAL", 12));
        assert!(text.contains("| 12 | 20.00 | 15 | 50.00 |"), "{text}");
    }
}
