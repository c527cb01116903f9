//! A record and its definition, as far as a report shows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::project;

/// More runnable processes than this share of the processors disturb a measurement.
const LOADED_SHARE: f64 = 0.5;

/// What `latest.json` holds.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) group: String,
    pub(super) figure: String,
    pub(super) title: String,
    pub(super) command: String,
    pub(super) date: String,
    pub(super) revision: String,
    pub(super) is_dirty: bool,
    pub(super) host: Host,
    pub(super) device: String,
    pub(super) load: Option<f64>,
    pub(super) rows: Vec<Row>,
    pub(super) skips: Vec<String>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// The whole file, which the report embeds.
    #[serde(skip)]
    pub(super) json: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Host {
    pub(super) label: String,
    pub(super) cpu: String,
    pub(super) n_cores: u32,
    pub(super) memory_bytes: Option<f64>,
    pub(super) system: String,
    pub(super) rustc: String,
}

/// A point of a series.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) series: String,
    #[serde(default)]
    pub(super) labels: Vec<(String, String)>,
    pub(super) x: Option<f64>,
    pub(super) values: Vec<Measured>,
    pub(super) paper: Option<f64>,
    pub(super) peer: Option<f64>,
    #[serde(default)]
    pub(super) note: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) samples: Vec<f64>,
}

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

/// Lowest, middle and highest of a value's samples.
#[derive(Clone, Copy)]
pub(super) struct Summary {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Record {
    /// Reads a file, a folder with `latest.json`, or `PAPER/FIGURE`.
    pub(super) fn read(name: &Path) -> Result<Record> {
        let file = file_of(name);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let shown = || file.display().to_string();
        let mut record: Record = serde_json::from_str(&text).with_context(shown)?;
        // Without the file's white space.
        let value: serde_json::Value = serde_json::from_str(&text).with_context(shown)?;
        record.json = value.to_string();
        Ok(record)
    }

    /// The definition; empty where it is gone.
    pub(super) fn definition(&self) -> Result<Definition> {
        let name = format!("benches/{}/{}.toml", self.group, self.figure);
        match fs::read_to_string(project::root().join(&name)) {
            Ok(text) => toml::from_str(&text).context(name),
            Err(_) => Ok(Definition::default()),
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        let most = LOADED_SHARE * f64::from(self.host.n_cores);
        self.load.is_some_and(|load| load > most)
    }

    /// The row at the same point.
    pub(super) fn same(&self, row: &Row) -> Option<&Row> {
        let key = |row: &Row| (row.series.clone(), row.labels.clone(), row.x);
        self.rows.iter().find(|other| key(other) == key(row))
    }

    /// Names of the measured values with their units, in the order in which they come.
    pub(super) fn metrics(&self) -> Vec<(&str, &str)> {
        let mut metrics: Vec<(&str, &str)> = Vec::new();
        for value in self.rows.iter().flat_map(|row| &row.values) {
            if !metrics.iter().any(|(name, _)| *name == value.name) {
                metrics.push((&value.name, &value.unit));
            }
        }
        metrics
    }
}

impl Row {
    /// Series, labels and place on the axis.
    pub(super) fn name(&self) -> String {
        let labels = self.labels.iter().map(|(_, text)| text.clone());
        let mut parts: Vec<String> = std::iter::once(self.series.clone()).chain(labels).collect();
        parts.retain(|part| !part.is_empty());
        parts.extend(self.x.map(|x| format!("at {}", shown(x))));
        parts.join(" · ")
    }

    pub(super) fn value(&self, name: &str) -> Option<&Measured> {
        self.values.iter().find(|value| value.name == name)
    }

    /// Our number, unless it repeats another series' beside a peer's.
    pub(super) fn own(&self) -> Option<f64> {
        let first = self.values.first().filter(|_| self.peer.is_none())?;
        first.summary().map(|summary| summary.median)
    }
}

impl Measured {
    pub(super) fn summary(&self) -> Option<Summary> {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = [sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]];
        Some(Summary {
            min,
            median: f64::midpoint(middle[0], middle[1]),
            max,
        })
    }
}

impl Summary {
    /// Distance of lowest and highest, over the median.
    pub(super) fn spread(self) -> f64 {
        match self.median == 0.0 {
            true => 0.0,
            false => (self.max - self.min) / self.median.abs(),
        }
    }
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

/// Whole numbers in full, others with four significant digits.
pub(super) fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let mut decimals = 0;
    while decimals < 12 && value.abs() < 10_f64.powi(3 - decimals) {
        decimals += 1;
    }
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(
            [0.000_160_12, 0.25, 12.345, 1234.5, 3.0, -0.5].map(shown),
            ["0.0001601", "0.2500", "12.35", "1234", "3", "-0.5000"]
        );
    }

    #[test]
    fn the_spread_is_a_share_of_the_median() {
        let value = |samples: &[f64]| Measured {
            name: String::new(),
            unit: String::new(),
            samples: samples.to_vec(),
        };
        let summary = value(&[4.0, 1.0, 2.0]).summary().unwrap();
        assert!((summary.median - 2.0).abs() < 1e-12 && (summary.spread() - 1.5).abs() < 1e-12);
        assert!(value(&[0.0, 0.0]).summary().unwrap().spread().abs() < 1e-12);
        assert!(value(&[]).summary().is_none());
    }
}
