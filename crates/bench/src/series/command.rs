//! Points of a series: a command of the binary for each x, and numbers of its answer.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use crate::answer::Answer;
use crate::figure::{By, Derive, Point, Series};
use crate::launch::{self, Ran, Values};
use crate::measure::Context;
use crate::options::Backend;
use crate::paths::fresh_scratch;
use crate::row::{Measured, Row};
use crate::statistics::shown;

/// The rows of a series.
pub(super) fn rows(context: &Context<'_>, series: &Series) -> Result<Vec<Row>> {
    let backend = match series.by {
        Some(By::Ranks) => context.options.backend,
        _ => Backend::Threads,
    };
    let missing = super::missing(context, series).or_else(|| without_gpu(series, backend));
    let mut same = SameFields::default();
    let mut rows = Vec::new();
    let points = super::points(context, series);
    let points = match points.is_empty() {
        true => vec![None],
        false => points.into_iter().map(Some).collect(),
    };
    for point in points {
        let x = point.as_ref().and_then(Point::number);
        let missing = missing.clone();
        let missing = missing.or_else(|| super::too_large(context, series, x));
        let measured = match missing {
            Some(why) => Err(why),
            None => measured(context, series, point.as_ref(), &mut same)?,
        };
        rows.push(row(context, series, point.as_ref(), measured));
    }
    if let Some(derive) = series.derive {
        efficiency(&mut rows, derive);
    }
    if series.by == Some(By::Ranks) && !backend.is_on_gpu() {
        note_shared_processors(&mut rows);
    }
    Ok(rows)
}

fn without_gpu(series: &Series, backend: Backend) -> Option<String> {
    let why = series
        .no_devices
        .as_ref()
        .filter(|_| backend != Backend::Threads)?;
    Some(format!("not run: {why}"))
}

fn row(
    context: &Context<'_>,
    series: &Series,
    point: Option<&Point>,
    measured: Result<Vec<Measured>, String>,
) -> Row {
    let x = point.and_then(Point::number);
    let word = point.filter(|_| x.is_none()).map(Point::text);
    let of_formula = series.formula.as_ref().and_then(|formula| {
        let size = |key: &str| super::size(context, series, key);
        formula.at(&size, x?)
    });
    let of_paper = series.of_paper(x).filter(|_| !context.options.test);
    Row {
        series: series.name.clone(),
        labels: word
            .map(|word| ("variant".to_owned(), word))
            .into_iter()
            .collect(),
        x,
        values: measured.clone().unwrap_or_default(),
        paper: of_formula.or(of_paper),
        peer: None,
        note: measured.err().unwrap_or_default(),
    }
}

/// The numbers of a point over all runs, or why nothing ran.
fn measured(
    context: &Context<'_>,
    series: &Series,
    point: Option<&Point>,
    same: &mut SameFields,
) -> Result<Result<Vec<Measured>, String>> {
    let command = match context.options.test && !series.test_command.is_empty() {
        true => &series.test_command,
        false => &series.command,
    };
    let x = point.and_then(Point::number);
    let (mut all, mut units) = (BTreeMap::<String, Vec<f64>>::new(), BTreeMap::new());
    for _ in 0..super::n_runs(context, series) {
        let answer = match once(context, series, command, point)? {
            Ran::Missing(why) => return Ok(Err(format!("not run: {why}"))),
            Ran::Answer(answer) => answer,
        };
        check(context, series, &answer, same)?;
        let Some(metric) = &series.metric else {
            for metric in &answer.metrics {
                all.entry(metric.name.clone())
                    .or_default()
                    .push(metric.value);
                units.insert(metric.name.clone(), metric.unit.clone());
            }
            continue;
        };
        let mut value = launch::number_of(&answer, metric, x)? * series.scale.unwrap_or(1.0);
        if !series.over.is_empty() {
            match once(context, series, &series.over, point)? {
                Ran::Missing(why) => return Ok(Err(format!("not run: {why}"))),
                Ran::Answer(below) => value /= launch::number_of(&below, metric, x)?,
            }
        }
        for name in &series.extra {
            if let Ok(value) = launch::number_of(&answer, name, x) {
                all.entry(name.clone()).or_default().push(value);
                units.insert(name.clone(), launch::unit_of(name).to_owned());
            }
        }
        all.entry(metric.clone()).or_default().push(value);
        units.insert(metric.clone(), launch::unit_of(metric).to_owned());
    }
    let mut values: Vec<Measured> = Vec::new();
    for (name, samples) in all {
        let unit = units.remove(&name).unwrap_or_default();
        values.push(Measured {
            name,
            unit,
            samples,
        });
    }
    // What is drawn stands first: the metric, or the time.
    let first = series.metric.as_deref().unwrap_or("seconds");
    values.sort_by_key(|value| value.name != first);
    Ok(Ok(values))
}

/// One run in an empty scratch folder.
fn once(
    context: &Context<'_>,
    series: &Series,
    words: &[String],
    point: Option<&Point>,
) -> Result<Ran> {
    let scratch = fresh_scratch(&format!("{}/run", context.figure.path()))?;
    let mut values = launch::places(&scratch);
    values.extend(sizes(context, series));
    if let Some(point) = point {
        let text = point.number().map_or_else(|| point.text(), shown);
        values.insert("x".to_owned(), text);
    }
    if !series.prepare.is_empty() {
        let words = launch::substitute(&series.prepare, &values)?;
        launch::run_here(&context.program, &words, &scratch)?;
    }
    let words = launch::substitute(words, &values)?;
    let backend = match series.by {
        Some(By::Ranks) => context.options.backend,
        _ => Backend::Threads,
    };
    let ran = launch::run(&context.program, &words, &scratch, backend)
        .with_context(|| series.name.clone())?;
    if matches!(ran, Ran::Answer(_)) {
        for file in &series.makes {
            ensure!(scratch.join(file).exists(), "the run left no {file}");
        }
    }
    Ok(ran)
}

fn sizes(context: &Context<'_>, series: &Series) -> Values {
    let names = series.sizes.keys();
    let value = |name: &String| Some((name.clone(), shown(super::size(context, series, name)?)));
    names.filter_map(value).collect()
}

/// Expected fields, equal fields, and at full size the limits.
fn check(
    context: &Context<'_>,
    series: &Series,
    answer: &Answer,
    same: &mut SameFields,
) -> Result<()> {
    answer.check_fields(&series.expect)?;
    if !context.options.test {
        answer.check_limits(&series.at_most)?;
    }
    same.check(&series.same, answer)
}

/// Fields that are equal in all runs of a series.
#[derive(Default)]
struct SameFields(Option<Vec<serde_json::Value>>);

impl SameFields {
    fn check(&mut self, names: &[String], answer: &Answer) -> Result<()> {
        let field = |name: &String| {
            let field = answer.field(name).cloned();
            field.with_context(|| format!("the answer has no `{name}`"))
        };
        let values: Vec<_> = names.iter().map(field).collect::<Result<_>>()?;
        let first = self.0.get_or_insert_with(|| values.clone());
        ensure!(
            *first == values,
            "{names:?} differ between runs: {first:?}, {values:?}"
        );
        Ok(())
    }
}

/// Seconds to the share of P-fold speed.
fn efficiency(rows: &mut [Row], derive: Derive) {
    let alone = rows.iter().find(|row| row.x == Some(1.0));
    let Some(alone) = alone.and_then(Row::ours) else {
        return;
    };
    for row in rows {
        let n_ranks = row.x.unwrap_or(1.0);
        let Some(seconds) = row.values.first() else {
            continue;
        };
        let shares = seconds.samples.iter().map(|s| alone / (n_ranks * s));
        let share = Measured {
            name: "efficiency".to_owned(),
            unit: "1".to_owned(),
            samples: shares.collect(),
        };
        match derive {
            Derive::Efficiency => row.values[0] = share,
            Derive::Scaling => row.values.insert(1, share),
        }
    }
}

/// Rows with more ranks than processors say nothing about more processors.
fn note_shared_processors(rows: &mut [Row]) {
    let n_cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    for row in rows {
        let n_ranks = row.x.unwrap_or(1.0);
        if n_ranks > n_cores && !row.values.is_empty() {
            row.note = format!("{n_cores} processors shared by {} ranks", shown(n_ranks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(x: f64, seconds: Option<f64>) -> Row {
        let measured = |seconds| Measured::new("seconds", vec![seconds]);
        Row {
            x: Some(x),
            values: seconds.map(measured).into_iter().collect(),
            ..Row::default()
        }
    }

    #[test]
    fn efficiency_is_of_the_row_of_one_rank() {
        let mut rows = [
            seconds(1.0, Some(8.0)),
            seconds(2.0, Some(5.0)),
            seconds(4.0, Some(2.0)),
        ];
        efficiency(&mut rows, Derive::Efficiency);
        assert_eq!(
            rows.map(|row| row.ours()),
            [Some(1.0), Some(0.8), Some(1.0)]
        );
    }

    #[test]
    fn ranks_beyond_the_processors_are_noted() {
        let mut rows = [
            seconds(1.0, Some(1.0)),
            seconds(1e6, Some(1.0)),
            seconds(1e6, None),
        ];
        note_shared_processors(&mut rows);
        assert!(rows[0].note.is_empty() && rows[2].note.is_empty());
        assert!(rows[1].note.contains("shared by 1000000 ranks"));
    }

    #[test]
    fn fields_that_differ_between_runs_are_an_error() {
        let names = ["objective".to_owned()];
        let answer = |n: u32| Answer::parse(&format!("{{\"objective\": {n}}}")).unwrap();
        let mut same = SameFields::default();
        same.check(&names, &answer(14)).unwrap();
        same.check(&names, &answer(14)).unwrap();
        assert!(same.check(&names, &answer(15)).is_err());
        assert!(same.check(&names, &Answer::default()).is_err());
    }
}
