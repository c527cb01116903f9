//! Genetic engines of PyPI beside ours: alone with a decoder that decodes nothing, and on whole problems.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::problems;
use crate::answer::parse_metric;
use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};
use crate::{paths, process, python};

/// Engines with the paper's decoder in Python.
const SCHEDULES: &str = "brkga_schedules.py";
/// Engines alone.
const ENGINES: &str = "brkga_engines.py";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    packages: Vec<String>,
    evaluations: u64,
    /// Lengths of chromosomes for the engines alone.
    n_keys: Vec<u32>,
    /// Whole problems: the smallest graphs of the synthetic set.
    graphs: u32,
    genetic: Genetic,
}

/// Numbers of the genetic algorithm that the scripts take.
#[derive(Deserialize)]
struct Genetic {
    population: u32,
    elites: u32,
    mutants: u32,
    rho: f64,
}

/// Measures both, or skips them where pip gives no packages.
pub(crate) fn run(context: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    let genetic = request["genetic"].clone();
    let request: Request = parsed(request)?;
    let python = match python::interpreter(context.options, "brkga", &request.packages)? {
        Ok(python) => python,
        Err(why) => {
            out.skip(&why);
            return Ok(());
        }
    };
    alone(&request, &python, out)?;
    let folder = paths::fresh_scratch("engines")?;
    let problems: problems::Request = parsed(json!({
        "folder": folder, "only_large": true, "large": request.graphs,
        "evaluations": request.evaluations, "genetic": genetic,
    }))?;
    problems::write(&problems, out)?;
    let found = schedules(&request, &python, &folder.join("problems.jsonl"))?;
    fs::write(folder.join("found.jsonl"), found)?;
    problems::compare_found(&problems, out)
}

/// Processor time of the engines alone, for as many evaluations as a search has.
fn alone(request: &Request, python: &Path, out: &mut Report) -> Result<(), Failure> {
    let mut run = process::command(python);
    run.arg(paths::peer(ENGINES));
    run.args(request.n_keys.iter().map(u32::to_string));
    let mut lines = Vec::new();
    let succeeded = process::each_line(&mut run, |line| {
        println!("peers: {line}");
        lines.push(line.to_owned());
    })?;
    let mut samples: Vec<(String, Vec<f64>)> = Vec::new();
    for metric in lines.iter().filter_map(|line| line.strip_prefix("METRIC:")) {
        let metric = parse_metric(metric)?;
        let name = metric.name.trim_end_matches("/evaluation").to_owned();
        let seconds = metric.value * 1e-6 * request.evaluations as f64;
        match samples.iter_mut().find(|(known, _)| *known == name) {
            Some((_, samples)) => samples.push(seconds),
            None => samples.push((name, vec![seconds])),
        }
    }
    for (name, seconds) in samples {
        out.row(json!({"table": "Engines alone, without a decoder", "search": name, "seconds": seconds}));
    }
    match succeeded {
        true => Ok(()),
        false => Err(format!("{ENGINES} failed").into()),
    }
}

fn schedules(request: &Request, python: &Path, problems: &Path) -> Result<String, Failure> {
    let Genetic {
        population,
        elites,
        mutants,
        rho,
    } = &request.genetic;
    let mut run = process::command(python);
    run.arg(paths::peer(SCHEDULES)).arg(problems);
    run.arg(request.evaluations.to_string());
    run.args([population, elites, mutants].map(u32::to_string));
    run.arg(rho.to_string());
    process::answers(&mut run, SCHEDULES)
}
