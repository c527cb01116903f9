//! `cargo xtask repro fig4a` to `fig8`: the figures of the RLgraph paper, on cart and pole.
//!
//! The program is the bench target `paper` of the crate agents. What it runs, and what the paper says, stands in `benches/repro/rlgraph.toml`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::program;
use crate::answer::Metric;
use crate::definition::{string, strings};
use crate::json::Json;
use crate::project;
use crate::record::{Record, Sample};
use crate::statistics::{shown, summary};
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/rlgraph.toml";

/// Redoes the figure of the options' name.
pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let name = options.name;
    let definition = toml::read(&project::root().join(DEFINITION))?;
    let figure = definition.get(name).and_then(Value::as_table);
    let figure = figure.with_context(|| format!("{DEFINITION} lacks `{name}`"))?;
    let program = program::build("shardgraph-agents")?;
    let mut record = Record::new(options.host.as_deref(), options.shown(name))?;
    record.report = format!("## {}\n", string(figure, "title")?);
    let mut details = Vec::new();
    for part in parts(figure)? {
        let (command, request) = (string(part, "command")?, request(part, options.test)?);
        let progress = |row: &Json| println!("{name}: {}", one_line(row));
        let rows = program::run(&program, &command, &request, progress)?.objects;
        ensure!(!rows.is_empty(), "`{command}` gave no rows");
        record.report.push_str(&sections(part, &rows)?);
        record.samples.extend(samples(name, part, &rows)?);
        let rows = Json::Array(rows);
        details.push(Json::object([("request", request), ("rows", rows)]));
    }
    record.report.push_str(&around(figure)?);
    record.details = Json::Array(details);
    println!("{}", record.report);
    if !options.test {
        println!("{name}: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What the figure runs, one after the other.
pub(super) fn parts(figure: &Table) -> Result<Vec<&Table>> {
    let parts = figure.get("parts").and_then(Value::as_array);
    let parts: Option<Vec<&Table>> =
        parts.map(|parts| parts.iter().filter_map(Value::as_table).collect());
    parts
        .filter(|parts| !parts.is_empty())
        .context("a figure has an array of tables `parts`")
}

/// The request of a part; for a test with the small settings in the place of its own.
pub(super) fn request(part: &Table, is_test: bool) -> Result<Json> {
    let table = |key: &str| {
        let table = part.get(key).and_then(Value::as_table);
        table.with_context(|| format!("a part has a table `{key}`"))
    };
    let (mut request, small) = (table("request")?.clone(), table("test")?);
    for (key, value) in small.iter().filter(|_| is_test) {
        request.insert(key.clone(), value.clone());
    }
    Ok(program::object(&request))
}

/// The tables of a part, each with the rows that have all of its columns and of no table before it.
pub(super) fn sections(part: &Table, rows: &[Json]) -> Result<String> {
    let tables = tables(part)?;
    let mut bodies = vec![String::new(); tables.len()];
    for row in rows {
        let fits = |columns: &Vec<String>| columns.iter().all(|column| row.get(column).is_some());
        let at = tables.iter().position(fits);
        let at = at.with_context(|| format!("a row that fits no table: {}", one_line(row)))?;
        let cells = tables[at]
            .iter()
            .filter_map(|column| row.get(column))
            .map(cell);
        bodies[at].push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    let mut text = String::new();
    for (columns, body) in tables
        .iter()
        .zip(bodies)
        .filter(|(_, body)| !body.is_empty())
    {
        let (heads, rule) = (columns.join(" | "), "---|".repeat(columns.len()));
        text.push_str(&format!("\n| {heads} |\n|{rule}\n{body}"));
    }
    Ok(text)
}

pub(super) fn tables(part: &Table) -> Result<Vec<Vec<String>>> {
    let tables = part
        .get("tables")
        .and_then(Value::as_array)
        .unwrap_or_default();
    ensure!(!tables.is_empty(), "a part has lists of columns, `tables`");
    let columns = |columns: &Value| {
        let names = columns.as_array()?.iter();
        names.map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let tables: Option<Vec<Vec<String>>> = tables.iter().map(columns).collect();
    tables.context("`tables` holds lists of names")
}

/// A word, a number, or the median of several with the lowest and the highest.
fn cell(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => shown(*number),
        Json::Array(_) => match (summary(&numbers(value)), numbers(value).len()) {
            (Some(one), 1) => shown(one.median),
            (Some(all), _) => format!(
                "{} ({} to {})",
                shown(all.median),
                shown(all.min),
                shown(all.max)
            ),
            (None, _) => "-".to_owned(),
        },
        _ => "-".to_owned(),
    }
}

fn numbers(value: &Json) -> Vec<f64> {
    let items = value.as_array().unwrap_or(std::slice::from_ref(value));
    items.iter().filter_map(Json::as_number).collect()
}

/// Every number that is no label, under a name made of the labels.
pub(super) fn samples(figure: &str, part: &Table, rows: &[Json]) -> Result<Vec<Sample>> {
    let (labels, mut samples) = (strings(part, "labels")?, Vec::new());
    for row in rows {
        let mut series = figure.to_owned();
        for label in &labels {
            if let Some(value) = row.get(label) {
                series.push_str(&format!(" {label}={}", cell(value)));
            }
        }
        let series = series.replace(',', ""); // they part the columns of the record
        for (key, value) in pairs(row).iter().filter(|(key, _)| !labels.contains(key)) {
            samples.extend((0..).zip(numbers(value)).map(|(run_idx, number)| Sample {
                series: series.clone(),
                run_idx,
                metric: Metric::new(key, number, unit(key)),
            }));
        }
    }
    Ok(samples)
}

pub(super) fn pairs(row: &Json) -> BTreeMap<String, Json> {
    match row {
        Json::Object(pairs) => pairs.clone(),
        _ => BTreeMap::new(),
    }
}

fn unit(key: &str) -> &'static str {
    let units = [
        ("_per_s", "1/s"),
        ("_s", "s"),
        ("seconds", "s"),
        ("_bytes", "B"),
    ];
    let found = units.into_iter().find(|(end, _)| key.ends_with(end));
    found.map_or("", |(_, unit)| unit)
}

/// What the paper reports, what is different, and which peer did not run.
pub(super) fn around(figure: &Table) -> Result<String> {
    let mut text = "\nReported by the paper, on its own tasks and machines:\n\n".to_owned();
    for sentence in strings(figure, "paper")? {
        text.push_str(&format!("- {sentence}\n"));
    }
    text.push('\n');
    for sentence in strings(figure, "here")? {
        text.push_str(&format!("- here: {sentence}\n"));
    }
    for peer in strings(figure, "not_run")? {
        text.push_str(&format!("- not run: {peer}\n"));
    }
    Ok(text)
}

pub(super) fn one_line(row: &Json) -> String {
    let pairs = pairs(row);
    let words = pairs
        .iter()
        .map(|(key, value)| format!("{key} {}", cell(value)));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    const FIGURES: [&str; 7] = ["fig4a", "fig4b", "fig5", "fig6a", "fig6b", "fig7", "fig8"];

    fn definition() -> Table {
        toml::read(&project::root().join(DEFINITION)).unwrap()
    }

    #[test]
    fn the_definition_is_whole() {
        let definition = definition();
        assert_eq!(definition.keys().collect::<Vec<_>>(), FIGURES);
        for name in FIGURES {
            assert!(crate::repro::names().contains(&name));
            let figure = definition[name].as_table().unwrap();
            assert!(around(figure).unwrap().contains("here: "), "{name}");
            for part in parts(figure).unwrap() {
                let (own, small) = (request(part, false).unwrap(), request(part, true).unwrap());
                assert_ne!(own, small, "{name}: a test is to be small");
                let keys = |request: &Json| pairs(request).into_keys().collect::<Vec<_>>();
                assert_eq!(
                    keys(&own),
                    keys(&small),
                    "{name}: a test has other settings"
                );
                let labels = strings(part, "labels").unwrap();
                let columns = tables(part).unwrap().concat();
                assert!(labels.iter().all(|label| columns.contains(label)), "{name}");
            }
        }
    }

    fn part() -> Table {
        toml::parse("labels = ['n', 'way']\ntables = [['way', 'n', 'a_per_s'], ['n']]").unwrap()
    }

    fn rows(texts: &[&str]) -> Vec<Json> {
        texts
            .iter()
            .map(|text| json::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn a_row_goes_into_the_first_table_that_it_fits() {
        let rows = rows(&[
            r#"{"n": 2}"#,
            r#"{"n": 1, "way": "x, y", "a_per_s": [3, 1, 2]}"#,
        ]);
        let text = sections(&part(), &rows).unwrap();
        let expected = "\n| way | n | a_per_s |\n|---|---|---|\n| x, y | 1 | 2 (1 to 3) |\n\n| n |\n|---|\n| 2 |\n";
        assert_eq!(text, expected);
        assert!(sections(&part(), &[Json::object([])]).is_err());
    }

    #[test]
    fn samples_have_their_repetition_and_unit() {
        let rows = rows(&[r#"{"n": 1, "way": "x, y", "a_per_s": [3, 1], "b_s": null}"#]);
        let samples = samples("fig0", &part(), &rows).unwrap();
        let found: Vec<_> = samples
            .iter()
            .map(|s| (s.series.as_str(), s.run_idx, s.metric.value))
            .collect();
        assert_eq!(
            found,
            [("fig0 n=1 way=x y", 0, 3.0), ("fig0 n=1 way=x y", 1, 1.0)]
        );
        assert_eq!(samples[0].metric.unit, "1/s");
    }
}
