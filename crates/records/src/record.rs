//! A record: what was measured, and where.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::host::{self, Host, Revision};
use crate::paths;
use crate::row::Row;

/// Version of what `latest.json` holds.
pub const SCHEMA_VERSION: u32 = 2;

/// More runnable processes than this share of the processors disturb a measurement.
const LOADED_SHARE: f64 = 0.5;

/// A measurement with where it was made: the content of `latest.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA_VERSION`] when it was written.
    pub schema_version: u32,
    /// Paper or suite.
    pub group: String,
    /// Name of the figure within the group.
    pub figure: String,
    /// Title of the figure.
    pub title: String,
    /// The command that makes it again.
    pub command: String,
    /// Day, as `2026-11-20`.
    pub date: String,
    /// Hash of the commit.
    pub revision: String,
    /// Whether the files differed from the revision.
    pub is_dirty: bool,
    /// The machine.
    pub host: Host,
    /// `host`, or the name of a GPU.
    pub device: String,
    /// Runnable processes in the minute before; absent: not known.
    pub load: Option<f64>,
    /// The points of all series.
    pub rows: Vec<Row>,
    /// What did not run, and why.
    pub skips: Vec<String>,
    /// Lines that programs on a GPU print about it.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Record {
    /// An empty record of a figure, made here and now by a command.
    ///
    /// # Errors
    /// When the clock is before 1970.
    pub fn here(figure: &Figure, command: String, label: Option<&str>) -> Result<Record> {
        let Revision { commit, is_dirty } = Revision::here();
        Ok(Record {
            schema_version: SCHEMA_VERSION,
            group: figure.group.clone(),
            figure: figure.name.clone(),
            title: figure.title.clone(),
            command,
            date: host::today()?,
            revision: commit,
            is_dirty,
            host: Host::here(label),
            device: "host".to_owned(),
            load: host::load(),
            rows: Vec::new(),
            skips: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// The record of a figure, if there is one.
    ///
    /// # Errors
    /// As [`Record::read`].
    pub fn of(figure: &Figure) -> Result<Option<Record>> {
        let file = folder(&figure.group, &figure.name).join("latest.json");
        file.is_file().then(|| Record::read(&file)).transpose()
    }

    /// Reads a `latest.json`.
    ///
    /// # Errors
    /// When there is no such file or it is no record; the error names it.
    pub fn read(file: &Path) -> Result<Record> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        serde_json::from_str(&text).with_context(name)
    }

    /// The row at the point of another record's row.
    pub fn at(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|other| other.key() == row.key())
    }

    /// Names of the measured values with their units, in the order in which they come.
    pub fn metrics(&self) -> Vec<(&str, &str)> {
        let mut metrics: Vec<(&str, &str)> = Vec::new();
        for value in self.rows.iter().flat_map(|row| &row.values) {
            if !metrics.iter().any(|(name, _)| *name == value.name) {
                metrics.push((&value.name, &value.unit));
            }
        }
        metrics
    }

    /// Whether other processes took so much of the machine that times are doubtful.
    pub fn is_loaded(&self) -> bool {
        let most = LOADED_SHARE * self.host.n_cores as f64;
        self.load.is_some_and(|load| load > most)
    }
}

/// The folder of a figure's record.
pub fn folder(group: &str, figure: &str) -> PathBuf {
    results().join(group).join(figure)
}

/// The folder of all records.
pub(crate) fn results() -> PathBuf {
    paths::root().join("bench-results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_machine_is_marked() {
        let figure = Figure::default();
        let mut record = Record::here(&figure, String::new(), None).unwrap();
        record.host.n_cores = 2;
        for (load, is_loaded) in [(None, false), (Some(0.9), false), (Some(1.1), true)] {
            record.load = load;
            assert_eq!(record.is_loaded(), is_loaded, "{load:?}");
        }
    }
}
