//! Learning curves: a training run that stops at each point and goes on, with the test graphs solved by the policy of that moment.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use super::super::mvc_quality::{Optimum, optimum_of};
use super::{Row, Runner, of_paper};
use crate::bench::places;
use crate::definition::{Substitutions, string, strings, substitute};
use crate::json::{self, Json};
use crate::process;
use crate::project;
use crate::statistics::shown;
use crate::toml::{Table, Value};

/// Test graphs of one kind, and the paper's numbers for them.
struct Tested<'t> {
    table: &'t Table,
    spec: String,
    files: Vec<String>,
    optima: Vec<Optimum>,
}

/// A row for each point and each kind of test graphs.
pub(super) fn rows(runner: &Runner<'_>, series: &Table) -> Result<Vec<Row>> {
    let name = string(series, "name")?;
    let tests = tests(runner, series)?;
    let folder = runner.scratch.join("training");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::write(
        runner.scratch.join("settings.toml"),
        string(series, "settings")?,
    )?;
    let mut rows = vec![Vec::new(); tests.len()];
    for (i, x) in runner.xs(series)?.into_iter().enumerate() {
        let key = if i == 0 { "train" } else { "resume" };
        let values = Substitutions::from([("x".to_owned(), shown(x))]);
        let words = substitute(&strings(series, key)?, &places(&runner.scratch, &values))?;
        stdout(runner, &words)?;
        for (tested, rows) in tests.iter().zip(&mut rows) {
            rows.push(Row {
                series: format!("{name}, tested on {}", tested.spec),
                x,
                paper: match runner.options.test {
                    true => None,
                    false => of_paper(tested.table, x)?,
                },
                ours: Some(mean_ratio(runner, tested, &folder)?),
                peer: None,
                is_peer: false,
                note: String::new(),
            });
        }
    }
    Ok(rows.concat())
}

/// Makes the test graphs, and looks up their optima.
fn tests<'t>(runner: &Runner<'_>, series: &'t Table) -> Result<Vec<Tested<'t>>> {
    let all = series.get("tests").and_then(Value::as_array);
    let csv = fs::read_to_string(project::root().join(string(series, "optima")?))?;
    let n_graphs = if runner.options.test { 2 } else { 10 };
    let mut tests = Vec::new();
    for table in all.context("a curve has an array of tables `tests`")? {
        let table = table.as_table().context("`tests` holds tables")?;
        let spec = string(table, "spec")?;
        let (mut files, mut optima) = (Vec::new(), Vec::new());
        for seed in 1000..1000 + n_graphs {
            let file = runner
                .scratch
                .join(format!("{}-{seed}.mtx", spec.replace(':', "-")));
            let file = file.display().to_string();
            let seed_word = seed.to_string();
            let words = ["generate", &spec, "--seed", &seed_word, "--out", &file];
            stdout(runner, &words.map(str::to_owned))?;
            files.push(file);
            optima.push(optimum_of(&csv, &spec, seed)?);
        }
        tests.push(Tested {
            table,
            spec,
            files,
            optima,
        });
    }
    Ok(tests)
}

/// The mean over the test graphs of the cover's size over the optimum.
fn mean_ratio(runner: &Runner<'_>, tested: &Tested<'_>, folder: &std::path::Path) -> Result<f64> {
    let policy = folder.join("policy.safetensors").display().to_string();
    let mut words = vec!["solve".to_owned()];
    words.extend(tested.files.iter().cloned());
    words.extend(["--policy", &policy, "--format", "json"].map(str::to_owned));
    let answer = json::parse(&stdout(runner, &words)?)?;
    let answers = answer.get("answers").and_then(Json::as_array);
    let answers = answers.context("`solve` of several graphs prints `answers`")?;
    ensure!(
        answers.len() == tested.optima.len(),
        "{} answers",
        answers.len()
    );
    let mut sum = 0.0;
    for (answer, optimum) in answers.iter().zip(&tested.optima) {
        sum += ratio(answer, optimum).with_context(|| tested.spec.clone())?;
    }
    Ok(sum / answers.len() as f64)
}

/// The cover of an answer over the optimum, which has to be of the same graph.
fn ratio(answer: &Json, optimum: &Optimum) -> Result<f64> {
    let count = |key: &str| -> Result<f64> {
        let number = answer.get(key).and_then(Json::as_number);
        number.with_context(|| format!("an answer without {key}"))
    };
    let sizes = (count("nodes")? as usize, count("edges")? as usize);
    let known = (optimum.n_nodes, optimum.n_edges);
    ensure!(
        sizes == known,
        "a graph of {sizes:?} nodes and edges, and an optimum of one of {known:?}"
    );
    let (size, best) = (count("objective")?, optimum.size as f64);
    ensure!(size >= best, "a cover of {size} below the optimum {best}");
    Ok(size / best)
}

fn stdout(runner: &Runner<'_>, words: &[String]) -> Result<String> {
    let measured = process::measure(runner.program, words, &runner.scratch)?;
    if measured.exit_code != Some(0) {
        let last = measured.stderr.lines().last().unwrap_or("no message");
        bail!("`shardgraph {}`: {last}", words.join(" "));
    }
    Ok(measured.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimum_is_of_its_graph() {
        let answer = json::parse("{\"nodes\": 9, \"edges\": 14, \"objective\": 9}").unwrap();
        let optimum = |n_edges, size| Optimum {
            n_nodes: 9,
            n_edges,
            size,
        };
        assert!((ratio(&answer, &optimum(14, 6)).unwrap() - 1.5).abs() < 1e-12);
        assert!(ratio(&answer, &optimum(15, 6)).is_err());
        assert!(ratio(&answer, &optimum(14, 10)).is_err());
    }
}
