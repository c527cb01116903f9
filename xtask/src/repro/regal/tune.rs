//! `cargo xtask repro tune`: the grid search of "Tuned BRKGA" on graphs that no table reports; what it finds is for the definition's
//! `[tuned]`.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::super::Options;
use super::{Lines, Paper, evaluations, max_graphs, number_at, percent, to_json};
use crate::definition::{number, string, strings};
use crate::json::Json;
use crate::record::Record;
use crate::toml::{Table, Value};

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let paper = Paper::build()?;
    let mut record = Record::new(options.host.as_deref(), options.shown("tune"))?;
    let mut details = Vec::new();
    for row in paper.rows("tune")? {
        let name = string(row, "name")?;
        if options.set.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        let request = request(&paper, row, options)?;
        let lines = paper.run("tune", &request, |_| ())?;
        let section = section(&name, &lines);
        println!("{section}");
        record.report.push_str(&section);
        details.push(Json::object([
            ("name", Json::text(&name)),
            ("request", request),
            ("result", Json::Array(lines.objects)),
        ]));
    }
    record.details = Json::Array(details);
    if !options.test {
        println!("tune: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn request(paper: &Paper, row: &Table, options: &Options) -> Result<Json> {
    let graphs = max_graphs(options).unwrap_or(number(row, "max_graphs")?);
    let mut sources = Vec::new();
    for set in strings(row, "sets")? {
        let mut source = paper.source(&set, Some(graphs))?;
        source.insert("held_out".to_owned(), Json::Boolean(true));
        sources.push(Json::Object(source));
    }
    let settings = Json::object([
        ("evaluations", Json::Number(evaluations(paper, options)?)),
        (
            "threads",
            Json::Number(f64::from(options.threads.unwrap_or(1))),
        ),
        ("genetic", paper.genetic()?),
    ]);
    let mut pairs = std::collections::BTreeMap::from([
        ("sources".to_owned(), Json::Array(sources)),
        ("options".to_owned(), settings),
        (
            "objective".to_owned(),
            Json::text(&string(row, "objective")?),
        ),
        (
            "grid".to_owned(),
            to_json(row.get("grid").context("no grid")?),
        ),
    ]);
    for key in ["max_ops", "first_graphs"] {
        if let Some(value) = row.get(key).and_then(Value::as_number) {
            pairs.insert(key.to_owned(), Json::Number(value));
        }
    }
    Ok(Json::Object(pairs))
}

fn section(name: &str, lines: &Lines) -> String {
    let mut text = String::new();
    for line in &lines.objects {
        let graphs = line
            .get("graphs")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let graphs: Vec<&str> = graphs.iter().filter_map(Json::as_str).collect();
        text.push_str(&format!(
            "## {name}\n\nGraphs, in this order: {}. {}. {:.0} s. The worst setting of the last round is {} % above the plain numbers.\n\n\
             | population | elites | mutants | rho | populations | alpha, beta | % improvement over the plain numbers |\n|---|---|---|---|---|---|---|\n",
            graphs.join(", "),
            rounds(line).join("; then "),
            number_at(line, &["seconds"]),
            percent(number_at(line, &["worst_ratio"]) - 1.0),
        ));
        for best in line
            .get("best")
            .and_then(Json::as_array)
            .unwrap_or_default()
        {
            let number = |key: &str| number_at(best, &["setting", key]);
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} | {}, {} | {} |\n",
                number("population"),
                number("elites"),
                number("mutants"),
                number("rho"),
                number("populations"),
                number("alpha"),
                number("beta"),
                percent(1.0 - number_at(best, &["ratio"])),
            ));
        }
        text.push('\n');
    }
    text
}

/// A few words on each round.
fn rounds(line: &Json) -> Vec<String> {
    let rounds = line
        .get("rounds")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let words = |round: &Json| {
        let counts = round.as_array().unwrap_or_default().iter();
        let counts: Vec<f64> = counts.filter_map(Json::as_number).collect();
        match counts[..] {
            [settings, graphs] => format!("{settings} settings on {graphs} graphs"),
            _ => "-".to_owned(),
        }
    };
    rounds.iter().map(words).collect()
}
