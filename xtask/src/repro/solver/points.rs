//! Points of a figure: a command for each value of x, and one number of its answer.

use anyhow::{Context as _, Result, bail, ensure};

use super::{Row, Runner, formula, of_paper};
use crate::answer::{Answer, Metric};
use crate::bench::places;
use crate::definition::{Substitutions, string, strings, substitute};
use crate::process;
use crate::project;
use crate::statistics::{shown, summary};
use crate::toml::Table;

/// The rows of a series.
pub(super) fn rows(runner: &Runner<'_>, series: &Table) -> Result<Vec<Row>> {
    let name = string(series, "name")?;
    let mut rows = Vec::new();
    let missing = runner.left_out(series).or_else(|| absent_data(series));
    for x in runner.xs(series)? {
        let missing = missing.clone().or_else(|| runner.too_large(series, x));
        let ours = match missing {
            None => Some(value(runner, series, x)?),
            Some(_) => None,
        };
        rows.push(Row {
            series: name.clone(),
            x,
            paper: match formula::of_series(runner, series, x)? {
                Some(value) => Some(value),
                None if runner.options.test => None,
                None => of_paper(series, x)?,
            },
            ours,
            peer: None,
            is_peer: false,
            note: missing.unwrap_or_default(),
        });
    }
    if series.get("derive").is_some() {
        ensure!(
            string(series, "derive")? == "efficiency",
            "`derive` is to be efficiency"
        );
        efficiency(&mut rows);
    }
    note_shared_processors(series, &mut rows);
    Ok(rows)
}

/// The data file of a series, where it is not there.
fn absent_data(series: &Table) -> Option<String> {
    let file = string(series, "data").ok()?;
    let is_there = project::data().join(&file).exists();
    (!is_there).then(|| format!("not run: data absent ({file})"))
}

/// Seconds to the share of P-fold speed.
fn efficiency(rows: &mut [Row]) {
    let alone = rows.iter().find(|row| (row.x - 1.0).abs() < 1e-9);
    let Some(alone) = alone.and_then(|row| row.ours) else {
        return;
    };
    for row in rows {
        row.ours = row.ours.map(|seconds| alone / (row.x * seconds));
    }
}

/// Rows with more ranks than processors say nothing about more processors.
fn note_shared_processors(series: &Table, rows: &mut [Row]) {
    let n_cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let is_by_ranks = series.get("by_ranks").is_some();
    for row in rows.iter_mut().filter(|row| is_by_ranks && row.x > n_cores) {
        if row.ours.is_some() {
            row.note = format!("{n_cores} processors shared by {} ranks", shown(row.x));
        }
    }
}

/// The median over the runs, divided by that of `over` where the series has one.
fn value(runner: &Runner<'_>, series: &Table, x: f64) -> Result<f64> {
    let above = median(runner, series, ("command", x))?;
    match series.get("over") {
        None => Ok(above),
        Some(_) => Ok(above / median(runner, series, ("over", x))?),
    }
}

fn median(runner: &Runner<'_>, series: &Table, (key, x): (&str, f64)) -> Result<f64> {
    let words = strings(series, key)?;
    let metric = string(series, "metric")?;
    let mut all = Vec::new();
    for _ in 0..runner.n_runs(series)? {
        let metrics = run(runner, series, (&words, x))?;
        all.push(number_of(&metrics, &metric, x)?);
    }
    Ok(summary(&all).context("no runs")?.median)
}

/// A number of the answer, or two with `/` between them; `x` stands for the point.
fn number_of(metrics: &[Metric], text: &str, x: f64) -> Result<f64> {
    let one = |name: &str| -> Result<f64> {
        if name == "x" {
            return Ok(x);
        }
        let found = metrics.iter().find(|metric| metric.name == name);
        Ok(found
            .with_context(|| format!("the answer has no {name}"))?
            .value)
    };
    match text.split_once('/') {
        None => one(text),
        Some((above, below)) => Ok(one(above)? / one(below)?),
    }
}

/// One run of a command, with its peak memory among the numbers.
fn run(runner: &Runner<'_>, series: &Table, (words, x): (&[String], f64)) -> Result<Vec<Metric>> {
    let folder = runner.scratch.join("run");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let mut values = Substitutions::from([("x".to_owned(), shown(x))]);
    for key in ["nodes", "steps"] {
        if let Ok(value) = runner.size(series, key) {
            values.insert(key.to_owned(), shown(value));
        }
    }
    let words = substitute(words, &places(&runner.scratch, &values))?;
    let measured = process::measure(runner.program, &words, &runner.scratch)?;
    if measured.exit_code != Some(0) {
        let last = measured.stderr.lines().last().unwrap_or("no message");
        bail!("`shardgraph {}`: {last}", words.join(" "));
    }
    let mut metrics = Answer::parse(&measured.stdout)?.metrics;
    let peak = measured.peak_rss_bytes;
    metrics.extend(peak.map(|bytes| Metric::new("peak_rss_bytes", bytes as f64, "B")));
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_quotients() {
        let metrics = [
            Metric::new("seconds", 6.0, "s"),
            Metric::new("steps", 3.0, ""),
        ];
        let number = |text| number_of(&metrics, text, 2.0).ok();
        assert_eq!(number("seconds"), Some(6.0));
        assert_eq!(number("seconds/steps"), Some(2.0));
        assert_eq!(number("seconds/x"), Some(3.0));
        assert_eq!(number("hours"), None);
    }

    #[test]
    fn efficiency_is_of_the_row_of_one_rank() {
        let row = |x, seconds| Row {
            x,
            ours: Some(seconds),
            ..Row::default()
        };
        let mut rows = [row(1.0, 8.0), row(2.0, 5.0), row(4.0, 2.0)];
        efficiency(&mut rows);
        assert_eq!(rows.map(|row| row.ours), [Some(1.0), Some(0.8), Some(1.0)]);
    }

    #[test]
    fn ranks_beyond_the_processors_are_noted() {
        let series = crate::toml::parse("by_ranks = true").unwrap();
        let row = |x, ours| Row {
            x,
            ours,
            ..Row::default()
        };
        let mut rows = [row(1.0, Some(1.0)), row(1e6, Some(1.0)), row(1e6, None)];
        note_shared_processors(&series, &mut rows);
        assert!(rows[0].note.is_empty() && rows[2].note.is_empty());
        assert!(rows[1].note.contains("shared by 1000000 ranks"));
    }
}
