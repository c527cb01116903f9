//! Which figures are measured, and one figure from its definition to its record.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use shardgraph_records::markdown::markdown;

use crate::figure::{Figure, PAPERS};
use crate::measure::Context;
use crate::options::Options;
use crate::record;
use crate::row::Row;
use crate::series;
use crate::{index, process};

/// Suites that `cargo xtask bench` leaves out unless they are named: they need a GPU, hours, or
/// names of their own.
const BY_NAME: [&str; 4] = ["collectives", "gpu", "micro", "robustness"];

/// Figures of a paper; all of them without a name.
pub(crate) fn of_paper(paper: &str, names: &[String]) -> Result<Vec<Figure>> {
    ensure!(
        PAPERS.contains(&paper),
        "no paper {paper:?}: there are {}",
        PAPERS.join(", ")
    );
    let mut figures = Figure::load_all()?;
    figures.retain(|figure| figure.group == paper);
    for name in names {
        let known: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        ensure!(
            known.contains(&name.as_str()),
            "no figure {name:?} of {paper}: there are {}",
            known.join(", ")
        );
    }
    figures.retain(|figure| names.is_empty() || names.contains(&figure.name));
    Ok(figures)
}

/// Figures of suites, named whole or as `suite/figure`. Without a name all suites; in a test, all
/// figures of the papers too.
pub(crate) fn of_suites(names: &[String], options: &Options) -> Result<Vec<Figure>> {
    let mut figures = Figure::load_all()?;
    if names.is_empty() {
        let is_wanted = |figure: &Figure| {
            options.test || !figure.is_of_paper() && !BY_NAME.contains(&figure.group.as_str())
        };
        figures.retain(is_wanted);
        return Ok(figures);
    }
    let is_named = |figure: &Figure, name: &String| *name == figure.group || *name == figure.path();
    for name in names {
        ensure!(
            figures.iter().any(|figure| is_named(figure, name)),
            "no suite {name:?}: `cargo xtask bench --list` shows them"
        );
    }
    figures.retain(|figure| names.iter().any(|name| is_named(figure, name)));
    Ok(figures)
}

/// Prints the figures of suites and papers.
pub(crate) fn list(names: &[String]) -> Result<ExitCode> {
    for figure in Figure::load_all()? {
        if names.is_empty() || names.contains(&figure.group) {
            println!("{:<30} {}", figure.path(), figure.title);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures figures one after the other; a failure of one is told at the end.
pub(crate) fn figures(figures: &[Figure], options: &Options) -> Result<ExitCode> {
    let (mut skips, mut failures) = (Vec::new(), Vec::new());
    for figure in figures {
        let watch = process::Stopwatch::start();
        match one(figure, options) {
            Ok(own) => {
                println!("bench {}: ok ({:.1} s)", figure.path(), watch.seconds());
                skips.extend(own);
            }
            Err(error) => {
                println!("bench {}: FAILED: {error:#}", figure.path());
                failures.push(format!("{}: {error:#}", figure.path()));
            }
        }
    }
    if !options.test && failures.len() < figures.len() {
        index::write()?;
    }
    for skip in &skips {
        println!("SKIPPED: {skip}");
    }
    for failure in &failures {
        println!("FAILED: {failure}");
    }
    println!("bench: {} failed, {} skipped", failures.len(), skips.len());
    Ok(match failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Measures a figure and replaces its record; returns what was skipped.
fn one(figure: &Figure, options: &Options) -> Result<Vec<String>> {
    let context = Context::new(figure, options)?;
    let mut record = record::new(figure, options)?;
    let mut skips = Vec::new();
    for series in &figure.series {
        let outcome = series::measure(&context, series, &record.rows)
            .with_context(|| format!("series {:?}", series.name))?;
        record.rows.extend(outcome.rows);
        record::set_origin(&mut record, outcome.origin);
        skips.extend(outcome.skips);
    }
    if options.quality {
        for row in &mut record.rows {
            // Times depend on the load of the machine.
            row.values.retain(|value| value.unit != "s");
        }
    }
    skips.sort();
    skips.dedup();
    record.skips.clone_from(&skips);
    let has_numbers = |row: &Row| !row.values.is_empty() || row.peer.is_some();
    let is_measured = record.rows.iter().any(has_numbers);
    ensure!(
        is_measured || !skips.is_empty(),
        "nothing was measured, and nothing says why"
    );
    let text = markdown(&record, figure);
    println!("{text}");
    if options.test {
        // The picture and the files are made, as in a run that counts.
        record::files(&record, figure)?;
    } else if is_measured {
        println!("written to {}", record::write(&record, figure)?.display());
    }
    let of_figure = |skip: &String| format!("{}: {skip}", figure.path());
    Ok(skips.iter().map(of_figure).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_an_error() {
        let options = Options::default();
        assert!(of_suites(&["nothing".to_owned()], &options).is_err());
        assert!(of_paper("nothing", &[]).is_err());
        assert!(of_paper("regal", &["fig99".to_owned()]).is_err());
        let one = of_suites(&["solve/er750".to_owned()], &options).unwrap();
        assert_eq!(one[0].command(), "cargo xtask bench solve/er750");
    }

    #[test]
    fn a_test_takes_every_definition() {
        let options = Options {
            test: true,
            ..Options::default()
        };
        let all = Figure::load_all().unwrap().len();
        assert_eq!(of_suites(&[], &options).unwrap().len(), all);
        let usual = of_suites(&[], &Options::default()).unwrap();
        assert!(
            usual
                .iter()
                .all(|figure| !figure.is_of_paper() && figure.group != "gpu")
        );
    }
}
