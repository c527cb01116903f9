//! Learning curves: a policy is trained on and on, and at each point solves graphs whose optimum is known.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::figure::{Point, Series, Tested};
use crate::launch;
use crate::measure::Context;
use crate::opengraphgym::optima::{Optimum, optimum_of};
use crate::paths;
use crate::row::{Measured, Row};
use crate::statistics::shown;

/// Generator seeds of the test graphs, as `benches/data/README.md` has them.
const FIRST_SEED: i64 = 1000;

/// Test graphs of one kind.
struct Graphs<'s> {
    tested: &'s Tested,
    files: Vec<String>,
    optima: Vec<Optimum>,
}

/// The rows of a series: a point for each number of steps and kind of graph.
pub(super) fn rows(context: &Context<'_>, series: &Series) -> Result<Vec<Row>> {
    let graphs = graphs(context, series)?;
    let folder = context.scratch.join("training");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::write(context.scratch.join("settings.toml"), &series.settings)?;
    let mut rows = vec![Vec::new(); graphs.len()];
    let points = super::points(context, series);
    for (i, x) in points.iter().filter_map(Point::number).enumerate() {
        let words = if i == 0 {
            &series.train
        } else {
            &series.resume
        };
        let mut values = launch::places(&context.scratch);
        values.insert("x".to_owned(), shown(x));
        let words = launch::substitute(words, &values)?;
        launch::run_here(&context.program, &words, &context.scratch)?;
        for (graphs, rows) in graphs.iter().zip(&mut rows) {
            let ratio = mean_ratio(context, graphs)?;
            rows.push(Row {
                series: format!("{}, tested on {}", series.name, graphs.tested.spec),
                x: Some(x),
                values: vec![Measured::new("mean_ratio", vec![ratio])],
                paper: graphs.tested.of_paper(x).filter(|_| !context.options.test),
                ..Row::default()
            });
        }
    }
    Ok(rows.concat())
}

fn graphs<'s>(context: &Context<'_>, series: &'s Series) -> Result<Vec<Graphs<'s>>> {
    let csv = fs::read_to_string(paths::root().join(&series.optima))?;
    let n_graphs = context.options.sized(10, 2);
    let mut all = Vec::new();
    for tested in &series.tests {
        let (mut files, mut optima) = (Vec::new(), Vec::new());
        for seed in FIRST_SEED..FIRST_SEED + n_graphs {
            let name = format!("{}-{seed}.mtx", tested.spec.replace(':', "-"));
            let file = context.scratch.join(name).display().to_string();
            let seed_word = seed.to_string();
            let words = [
                "generate",
                &tested.spec,
                "--seed",
                &seed_word,
                "--out",
                &file,
            ];
            let words = words.map(str::to_owned);
            launch::run_here(&context.program, &words, &context.scratch)?;
            files.push(file);
            optima.push(optimum_of(&csv, &tested.spec, seed)?);
        }
        all.push(Graphs {
            tested,
            files,
            optima,
        });
    }
    Ok(all)
}

/// Mean of cover size over optimum, by the policy of this moment.
fn mean_ratio(context: &Context<'_>, graphs: &Graphs<'_>) -> Result<f64> {
    let policy = context.scratch.join("training/policy.safetensors");
    let mut words = ["solve", "--method", "policy"].map(str::to_owned).to_vec();
    words.extend(graphs.files.iter().cloned());
    let policy = policy.display().to_string();
    words.extend(["--model", &policy, "--format", "json"].map(str::to_owned));
    let answer = launch::run_here(&context.program, &words, &context.scratch)?;
    let answers = answer.field("answers").and_then(Value::as_array);
    let answers = answers.context("`solve` of several graphs prints `answers`")?;
    let n = answers.len();
    ensure!(n == graphs.optima.len(), "{n} answers");
    let mut sum = 0.0;
    for (answer, optimum) in answers.iter().zip(&graphs.optima) {
        sum += ratio(answer, optimum).with_context(|| graphs.tested.spec.clone())?;
    }
    Ok(sum / n as f64)
}

fn ratio(answer: &Value, optimum: &Optimum) -> Result<f64> {
    let count = |key: &str| -> Result<f64> {
        let number = answer.get(key).and_then(Value::as_f64);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_optimum_is_of_its_graph() {
        let answer = json!({"nodes": 9, "edges": 14, "objective": 9});
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
