//! What the repros of REGAL's tables share: their definition, the program that does the work, and its lines.
//!
//! The program is the bench target `paper` of the crate regal. What it runs stands in `benches/repro/regal.toml`.

mod cp_sat;
mod datasets;
mod experiments;
mod peers;
pub(super) mod python;
mod tables;
mod tune;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::Options;
use super::program::{self, Lines, object, to_json};
use crate::definition::strings;
use crate::json::Json;
use crate::project;
use crate::toml::{self, Table, Value};

pub(super) use {
    cp_sat::run as cp_sat, datasets::run as datasets, experiments::run as experiment,
    tables::learned, tables::table1, tables::table3, tune::run as tune,
};

const DEFINITION: &str = "benches/repro/regal.toml";

/// The data folder as seen from the workspace root, where commands run: records name no folder of somebody's machine.
const DATA: &str = "../shared/data";

/// What a `--test` run takes in place of the definition's numbers.
/// More than the features of a policy take.
const TEST_EVALUATIONS: f64 = 450.0;
const TEST_GRAPHS: u32 = 2;
const TEST_SECONDS: f64 = 2.0;
/// Seconds after which nobody waits.
const NO_LIMIT: f64 = 1e9;

/// The program and its definition.
struct Paper {
    program: PathBuf,
    definition: Table,
}

impl Paper {
    /// Builds the program.
    fn build() -> Result<Paper> {
        let definition = toml::read(&project::root().join(DEFINITION))?;
        let program = program::build("shardgraph-regal")?;
        Ok(Paper {
            program,
            definition,
        })
    }

    fn value(&self, key: &str) -> Result<&Value> {
        let value = self.definition.get(key);
        value.with_context(|| format!("{DEFINITION} lacks `{key}`"))
    }

    fn table(&self, key: &str) -> Result<&Table> {
        let table = self.value(key)?.as_table();
        table.with_context(|| format!("`{key}` is to be a table"))
    }

    /// The tables of an array of tables.
    fn rows(&self, key: &str) -> Result<Vec<&Table>> {
        let rows = self.value(key)?.as_array().unwrap_or_default();
        let row = |row: &'_ Value| -> bool { row.as_table().is_some() };
        if rows.is_empty() || !rows.iter().all(row) {
            bail!("`{key}` is to be an array of tables");
        }
        Ok(rows.iter().filter_map(Value::as_table).collect())
    }

    fn sets(&self) -> Result<Vec<String>> {
        strings(&self.definition, "sets")
    }

    fn genetic(&self) -> Result<Json> {
        Ok(object(self.table("genetic")?))
    }

    /// A source of graphs as the program takes it.
    fn source(&self, set: &str, max_graphs: Option<f64>) -> Result<BTreeMap<String, Json>> {
        let mut source = BTreeMap::from([
            ("set".to_owned(), Json::text(set)),
            ("data".to_owned(), Json::text(DATA)),
            ("genetic".to_owned(), self.genetic()?),
        ]);
        if let Some(max_graphs) = max_graphs {
            source.insert("max_graphs".to_owned(), Json::Number(max_graphs));
        }
        Ok(source)
    }

    /// Runs one command of the program; `each` sees every line as it comes.
    fn run(&self, command: &str, request: &Json, each: impl FnMut(&Json)) -> Result<Lines> {
        program::run(&self.program, command, request, each)
    }
}

/// The number of graphs that the flags ask for.
fn max_graphs(options: &Options) -> Option<f64> {
    let of_test = options.test.then_some(TEST_GRAPHS);
    options.graphs.or(of_test).map(f64::from)
}

fn seconds(options: &Options, defined: f64) -> f64 {
    let of_test = options.test.then_some(TEST_SECONDS);
    let without = options.quality.then_some(NO_LIMIT);
    options.seconds.or(of_test).or(without).unwrap_or(defined)
}

fn evaluations(paper: &Paper, options: &Options) -> Result<f64> {
    let defined = paper.value("evaluations")?.as_number();
    let of_test = options.test.then_some(TEST_EVALUATIONS);
    of_test
        .or(defined)
        .context("`evaluations` is to be a number")
}

/// The number at a path of keys; NaN where there is none, which tables show as `-`.
fn number_at(json: &Json, path: &[&str]) -> f64 {
    let found = path.iter().try_fold(json, |json, key| json.get(key));
    found.and_then(Json::as_number).unwrap_or(f64::NAN)
}

fn text_at<'j>(json: &'j Json, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or("-")
}

/// A fraction as a percentage.
fn percent(fraction: f64) -> String {
    match fraction.is_finite() {
        true => format!("{:.2}", 100.0 * fraction),
        false => "-".to_owned(),
    }
}

/// What the paper reports, in a table of its own.
fn paper_section(paper: &Paper, table: &str) -> Result<String> {
    let rows = paper.rows("paper")?;
    let is_wanted = |row: &&&Table| row.get("table").and_then(Value::as_str) == Some(table);
    let found = rows.iter().find(is_wanted);
    let found = found.with_context(|| format!("no [[paper]] table {table:?}"))?;
    let columns = strings(found, "columns")?;
    let mut text = format!(
        "Reported by the paper, on its own graphs and machine ({}):\n\n| algorithm | {} |\n|---|{}\n",
        crate::definition::string(found, "source")?,
        columns.join(" | "),
        "---|".repeat(columns.len())
    );
    for row in found
        .get("rows")
        .and_then(Value::as_array)
        .unwrap_or_default()
    {
        let cells = row
            .as_array()
            .unwrap_or_default()
            .iter()
            .map(|cell| match cell {
                Value::String(text) => text.clone(),
                other => other
                    .as_number()
                    .map_or("-".to_owned(), |number| number.to_string()),
            });
        text.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn paper() -> Paper {
        Paper {
            program: PathBuf::new(),
            definition: toml::read(&project::root().join(DEFINITION)).unwrap(),
        }
    }

    #[test]
    fn the_definition_is_whole() {
        let paper = paper();
        let sets = paper.sets().unwrap();
        let rows = ["table1", "table3", "regal-learned"].map(|name| paper.rows(name).unwrap());
        let rows = rows.concat();
        assert!(rows.len() >= 10);
        for row in rows {
            let text = |key: &str| crate::definition::string(row, key).unwrap();
            assert!(sets.contains(&text("set")), "{}", text("set"));
            assert!(paper.table("tuned").unwrap().contains_key(&text("tuned")));
            if row.get("title").is_none() {
                let papers = paper_section(&paper, &text("paper")).unwrap();
                assert!(papers.contains("BRKGA 5K"));
            }
            let candidates = strings(row, "candidates").unwrap();
            assert_eq!(
                candidates[0], "brkga/paper",
                "what others are compared with"
            );
        }
        assert!(paper_section(&paper, "none").is_err());
    }

    #[test]
    fn every_tuned_setting_has_its_search() {
        let paper = paper();
        let tuned: Vec<&String> = paper.table("tuned").unwrap().keys().collect();
        let mut searched: Vec<String> = paper
            .rows("tune")
            .unwrap()
            .iter()
            .map(|row| crate::definition::string(row, "name").unwrap())
            .collect();
        searched.sort();
        assert_eq!(tuned, searched.iter().collect::<Vec<_>>());
    }

    #[test]
    fn missing_numbers_show_as_a_dash() {
        let json = json::parse(r#"{"a": {"b": 0.125}}"#).unwrap();
        assert_eq!(percent(number_at(&json, &["a", "b"])), "12.50");
        assert_eq!(percent(number_at(&json, &["a", "c"])), "-");
    }
}
