//! The rows of a series, by its kind.

mod command;
mod curve;
mod peer;

use anyhow::{Context as _, Error, Result};

use crate::figure::{By, Kind, Point, Series};
use crate::measure::{self, Context};
use crate::options::Ranks;
use crate::report::{Origin, Report};
use crate::row::Row;
use crate::{data, figure, registry};

/// What a series gave.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) skips: Vec<String>,
    pub(crate) origin: Option<Origin>,
}

/// Measures a series; `before` are the rows of the figure so far, which peers stand beside.
pub(crate) fn measure(context: &Context<'_>, series: &Series, before: &[Row]) -> Result<Outcome> {
    let rows = match series.kind {
        Kind::Measure => return measured(context, series),
        Kind::Command => command::rows(context, series)?,
        Kind::Curve => curve::rows(context, series)?,
        Kind::Peer => peer::rows(context, series, before)?,
    };
    let mut skips = Vec::new();
    for row in &rows {
        println!("{}: {}", context.figure.name, row.in_short());
        let is_skip = row.note.starts_with("not run") && !skips.contains(&row.note);
        skips.extend(is_skip.then(|| row.note.clone()));
    }
    Ok(Outcome {
        rows,
        skips,
        origin: None,
    })
}

fn measured(context: &Context<'_>, series: &Series) -> Result<Outcome> {
    if let Some(why) = missing(context, series) {
        return Ok(Outcome {
            rows: vec![Row::not_run(&series.name, None, &why)],
            skips: vec![why],
            origin: None,
        });
    }
    let run = registry::named(&series.measure).context("no such measurement")?;
    let mut report = Report::new(&context.figure.name);
    let request = measure::request(context, series)?;
    run(context, request, &mut report).map_err(Error::from_boxed)?;
    let row = |line| {
        let mut row = Row::from_line(line, &series.labels, &series.columns);
        if row.series.is_empty() {
            row.series.clone_from(&series.name);
        }
        row
    };
    Ok(Outcome {
        rows: report.lines.iter().map(row).collect(),
        skips: report.skips,
        origin: report.origin,
    })
}

/// Why a series cannot run: its data is absent. A test has inputs of its own.
fn missing(context: &Context<'_>, series: &Series) -> Option<String> {
    match context.options.test && !series.test_command.is_empty() {
        true => None,
        false if context.options.test && series.kind == Kind::Measure => None,
        false => data::absent(&series.data),
    }
}

/// The points of a series: those of the flags, of the test or of the definition.
fn points(context: &Context<'_>, series: &Series) -> Vec<Point> {
    let options = context.options;
    match &options.ranks {
        Some(Ranks(ranks)) if series.by == Some(figure::By::Ranks) => {
            let point = |&n| Point::Number(f64::from(n));
            return ranks.iter().map(point).collect();
        }
        _ => {}
    }
    match options.test && !series.test_xs.is_empty() {
        true => series.test_xs.clone(),
        false => series.xs.clone(),
    }
}

/// A number of the series' sizes, or that of its test.
fn size(context: &Context<'_>, series: &Series, key: &str) -> Option<f64> {
    let of_test = series.test.get(key).filter(|_| context.options.test);
    let value = of_test.or_else(|| series.sizes.get(key))?;
    value
        .as_float()
        .or_else(|| Some(value.as_integer()? as f64))
}

/// Why a point is left out: its graph has more nodes than `--nodes`.
fn too_large(context: &Context<'_>, series: &Series, x: Option<f64>) -> Option<String> {
    let most = f64::from(context.options.nodes?);
    let of_x = x.filter(|_| series.by == Some(By::Nodes));
    let n_nodes = of_x.or_else(|| size(context, series, "nodes"))?;
    (n_nodes > most && !context.options.test)
        .then(|| format!("not run: more than --nodes {most} nodes"))
}

/// How often a point is measured.
fn n_runs(context: &Context<'_>, series: &Series) -> u32 {
    match (context.options.test, context.options.runs) {
        (true, _) => 1,
        (false, Some(runs)) => runs.max(1),
        (false, None) => series.runs.unwrap_or(1).max(1),
    }
}
