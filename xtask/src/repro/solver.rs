//! `cargo xtask repro solver-fig6` to `solver-fig11`, `solver-efficiency` and `solver-memory`: the paper on OpenGraphGym-MG, figure by figure.
//!
//! Every number comes out of the program itself, run as a user runs it; what runs, and what the paper says, stands in `benches/repro/solver.toml`.
//! Each figure is a table with rows `paper | ours | PyTorch on this machine`, a CSV file and a picture.

mod chart;
mod curve;
mod formula;
mod peer;
mod points;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::rlgraph::around;
use crate::answer::Metric;
use crate::bench::fresh_scratch;
use crate::definition::{number, string};
use crate::json::Json;
use crate::process;
use crate::project;
use crate::record::{Record, Sample};
use crate::statistics::shown;
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/solver.toml";

/// The figures, in the paper's order.
pub(super) const FIGURES: [&str; 8] = [
    "solver-fig6",
    "solver-fig7",
    "solver-fig8",
    "solver-fig9",
    "solver-fig10",
    "solver-fig11",
    "solver-efficiency",
    "solver-memory",
];

/// One point of one line of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) series: String,
    pub(super) x: f64,
    pub(super) paper: Option<f64>,
    pub(super) ours: Option<f64>,
    pub(super) peer: Option<f64>,
    /// Whether `ours` is the number of another series, to stand beside the peer's.
    pub(super) is_peer: bool,
    /// Why something is missing, or what to keep in mind.
    pub(super) note: String,
}

/// What runs the parts of a figure.
struct Runner<'a> {
    program: &'a Path,
    options: &'a Options,
    /// For files that a figure leaves: graphs, policies.
    scratch: PathBuf,
}

/// Redoes the figure of the options' name.
pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let name = options.name;
    let definition = toml::read(&project::root().join(DEFINITION))?;
    let figure = figure(&definition, name)?;
    let program = process::build_shardgraph()?;
    let mut record = Record::new(options.host.as_deref(), options.shown(name))?;
    let rows = rows_of(name, figure, &program, options)?;
    record.report = format!(
        "## {}\n\n{}",
        string(figure, "title")?,
        table(figure, &rows)?
    );
    record.report.push_str(&around(figure)?);
    record.samples = samples(name, figure, &rows)?;
    record.details = Json::Array(rows.iter().map(Row::to_json).collect());
    record.files = files(name, figure, &rows)?;
    println!("{}", record.report);
    if options.test {
        let folder = fresh_scratch(&format!("{name}-test"))?;
        for (file, content) in &record.files {
            fs::write(folder.join(file), content)?;
        }
        println!("{name}: pictures are in {}", folder.display());
    } else {
        println!("{name}: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The small run of every figure, for the bench stage: each has rows of its own, a table and a picture.
pub(crate) fn test(program: &Path) -> Result<()> {
    let definition = toml::read(&project::root().join(DEFINITION))?;
    for name in FIGURES {
        let options = Options {
            name,
            test: true,
            peer_python: Some(peer::NONE.to_owned()),
            ..Options::default()
        };
        let figure = figure(&definition, name)?;
        let rows = rows_of(name, figure, program, &options).with_context(|| name.to_owned())?;
        let n_ours = rows.iter().filter(|row| row.ours.is_some()).count();
        let is_absent = rows.iter().all(|row| row.note.contains("not run"));
        ensure!(n_ours > 0 || is_absent, "{name}: no row of ours");
        table(figure, &rows)?;
        ensure!(files(name, figure, &rows)?.len() == 2, "{name}: no picture");
    }
    Ok(())
}

fn figure<'t>(definition: &'t Table, name: &str) -> Result<&'t Table> {
    let figure = definition.get(name).and_then(Value::as_table);
    figure.with_context(|| format!("{DEFINITION} lacks `{name}`"))
}

/// The lines of a figure in their order.
fn series(figure: &Table) -> Result<Vec<&Table>> {
    let all = figure.get("series").and_then(Value::as_array);
    let all = all.context("a figure has an array of tables `series`")?;
    let tables: Option<Vec<&Table>> = all.iter().map(Value::as_table).collect();
    tables.context("`series` holds tables")
}

fn rows_of(name: &str, figure: &Table, program: &Path, options: &Options) -> Result<Vec<Row>> {
    let runner = Runner {
        program,
        options,
        scratch: fresh_scratch(name)?,
    };
    let mut rows: Vec<Row> = Vec::new();
    for series in series(figure)? {
        let title = string(series, "name")?;
        let new = match string(series, "kind")?.as_str() {
            "points" => points::rows(&runner, series),
            "curve" => curve::rows(&runner, series),
            "peer" => peer::rows(&runner, series, &rows),
            other => anyhow::bail!("{other:?} is no kind of series"),
        };
        let new = new.with_context(|| title.clone())?;
        for row in &new {
            println!("{name}: {}", row.in_short());
        }
        rows.extend(new);
    }
    Ok(rows)
}

impl Runner<'_> {
    /// A number of the series, or that of its test.
    fn size(&self, series: &Table, key: &str) -> Result<f64> {
        match self.options.test {
            true => number(series, &format!("test_{key}")).or_else(|_| number(series, key)),
            false => number(series, key),
        }
    }

    /// The values on the x axis.
    fn xs(&self, series: &Table) -> Result<Vec<f64>> {
        let all = numbers(series, if self.options.test { "test_xs" } else { "xs" })?;
        ensure!(!all.is_empty(), "a series without points");
        Ok(all)
    }

    /// Why a series is left out, if it is.
    fn left_out(&self, series: &Table) -> Option<String> {
        let n_nodes = number(series, "nodes").ok()?;
        let most = f64::from(self.options.nodes?);
        (n_nodes > most && !self.options.test)
            .then(|| format!("not run: more than --nodes {most} nodes"))
    }

    /// Why a point is left out, where x is a number of nodes.
    fn too_large(&self, series: &Table, x: f64) -> Option<String> {
        let most = f64::from(self.options.nodes?);
        let is_large = series.get("by_nodes").is_some() && x > most;
        is_large.then(|| format!("not run: more than --nodes {most} nodes"))
    }

    /// How often a point is measured.
    fn n_runs(&self, series: &Table) -> Result<u32> {
        match (self.options.test, self.options.runs) {
            (true, _) => Ok(1),
            (false, Some(runs)) => Ok(runs.max(1)),
            (false, None) => Ok(number(series, "runs").unwrap_or(1.0) as u32),
        }
    }
}

/// A list of numbers; none where the key is absent.
fn numbers(table: &Table, key: &str) -> Result<Vec<f64>> {
    let Some(value) = table.get(key) else {
        return Ok(Vec::new());
    };
    let all = value.as_array().map(|all| all.iter().map(Value::as_number));
    let all: Option<Vec<f64>> = all.and_then(Iterator::collect);
    all.with_context(|| format!("`{key}` is to be a list of numbers"))
}

/// What the paper says at a point.
fn of_paper(series: &Table, x: f64) -> Result<Option<f64>> {
    let (xs, ys) = (numbers(series, "paper_x")?, numbers(series, "paper_y")?);
    ensure!(
        xs.len() == ys.len(),
        "`paper_x` and `paper_y` differ in length"
    );
    let found = xs
        .iter()
        .zip(&ys)
        .find(|(other, _)| (**other - x).abs() < 1e-9);
    Ok(found.map(|(_, y)| *y))
}

impl Row {
    fn in_short(&self) -> String {
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), shown);
        format!(
            "{} at {}: paper {}, ours {}, PyTorch {} {}",
            self.series,
            shown(self.x),
            cell(self.paper),
            cell(self.ours),
            cell(self.peer),
            self.note
        )
    }

    /// What this series measured of ours.
    fn own(&self) -> Option<f64> {
        self.ours.filter(|_| !self.is_peer)
    }

    /// PyTorch's number over ours.
    fn ratio(&self) -> Option<f64> {
        let ratio = self.peer? / self.ours?;
        ratio.is_finite().then_some(ratio)
    }

    fn to_json(&self) -> Json {
        let cell = |value: Option<f64>| value.map_or(Json::Null, Json::Number);
        Json::object([
            ("series", Json::text(&self.series)),
            ("x", Json::Number(self.x)),
            ("paper", cell(self.paper)),
            ("ours", cell(self.ours)),
            ("pytorch", cell(self.peer)),
            ("note", Json::text(&self.note)),
        ])
    }
}

/// The table of a figure. A cell without a number says that nothing ran.
fn table(figure: &Table, rows: &[Row]) -> Result<String> {
    let mut text = format!(
        "| {} | {} | paper | ours | PyTorch on this machine | PyTorch / ours | |\n|---|---|---|---|---|---|---|\n",
        string(figure, "y")?,
        string(figure, "x")?
    );
    for row in rows {
        let cell = |value: Option<f64>| value.map_or(String::new(), shown);
        let ran = |value: Option<f64>| value.map_or("not run".to_owned(), shown);
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            row.series,
            shown(row.x),
            cell(row.paper),
            ran(row.ours),
            ran(row.peer),
            cell(row.ratio()),
            row.note
        ));
    }
    Ok(text)
}

fn samples(name: &str, figure: &Table, rows: &[Row]) -> Result<Vec<Sample>> {
    let unit = string(figure, "unit")?;
    let mut samples = Vec::new();
    for row in rows {
        for (who, value) in [("ours", row.own()), ("pytorch", row.peer)] {
            let Some(value) = value else { continue };
            samples.push(Sample {
                series: format!("{name} {} {}", row.series.replace(',', ""), shown(row.x)),
                run_idx: 0,
                metric: Metric::new(who, value, &unit),
            });
        }
    }
    Ok(samples)
}

/// The figure's numbers as CSV and as a picture.
pub(super) fn files(name: &str, figure: &Table, rows: &[Row]) -> Result<Vec<(String, String)>> {
    let svg = chart::svg(
        &chart::Axes {
            title: &string(figure, "title")?,
            x: &string(figure, "x")?,
            y: &string(figure, "y")?,
            is_log: figure.get("log").is_some(),
        },
        rows,
    );
    Ok(vec![
        (format!("{name}.csv"), chart::csv(rows)),
        (format!("{name}.svg"), svg),
    ])
}

#[cfg(test)]
mod tests;
