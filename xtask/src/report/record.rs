//! The record and the definition that a report shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use shardgraph_records::Record;
use shardgraph_records::row::Row;
use shardgraph_records::statistics::shown;

use crate::project;

/// What `benches/` says about the figure.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Definition {
    pub(super) why: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) unit: String,
    pub(super) log: bool,
    pub(super) paper: Vec<String>,
    pub(super) here: Vec<String>,
    pub(super) not_run: Vec<String>,
    pub(super) published: Vec<Published>,
    pub(super) series: Vec<Series>,
}

/// A number that others report, from other machines.
#[derive(Debug, Deserialize)]
pub(super) struct Published {
    pub(super) who: String,
    pub(super) metric: String,
    pub(super) value: f64,
    pub(super) source: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Series {
    pub(super) name: String,
    /// Numbers that the series must not exceed.
    pub(super) at_most: BTreeMap<String, f64>,
}

/// Reads a file, a folder with `latest.json`, or `PAPER/FIGURE`.
pub(super) fn read(name: &Path) -> Result<Record> {
    Record::read(&file_of(name))
}

/// The definition of a record; empty where it is gone.
pub(super) fn definition(record: &Record) -> Result<Definition> {
    let name = format!("benches/{}/{}.toml", record.group, record.figure);
    match fs::read_to_string(project::root().join(&name)) {
        Ok(text) => toml::from_str(&text).context(name),
        Err(_) => Ok(Definition::default()),
    }
}

/// The row of a record at the point of another's row.
pub(super) fn same<'r>(record: &'r Record, row: &Row) -> Option<&'r Row> {
    record.rows.iter().find(|other| other.key() == row.key())
}

/// Names of the measured values with their units, in the order in which they come.
pub(super) fn metrics(record: &Record) -> Vec<(&str, &str)> {
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for value in record.rows.iter().flat_map(|row| &row.values) {
        if !metrics.iter().any(|(name, _)| *name == value.name) {
            metrics.push((&value.name, &value.unit));
        }
    }
    metrics
}

/// Series, labels and place on the axis of a row.
pub(super) fn name(row: &Row) -> String {
    let labels = row.labels.iter().map(|(_, text)| text.clone());
    let mut parts: Vec<String> = std::iter::once(row.series.clone()).chain(labels).collect();
    parts.retain(|part| !part.is_empty());
    parts.extend(row.x.map(|x| format!("at {}", shown(x))));
    parts.join(" · ")
}

fn file_of(name: &Path) -> PathBuf {
    if name.is_file() {
        return name.to_owned();
    }
    let folder = match name.join("latest.json").is_file() {
        true => name.to_owned(),
        false => project::root().join("bench-results").join(name),
    };
    folder.join("latest.json")
}
