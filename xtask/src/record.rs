//! Records of measurements: `bench-results/<date>-<host>-<device>/{README.md, raw.csv, summary.json}`.
//!
//! A record is written once and never edited; a second one of the same day gets `-2` at its end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::answer::Metric;
use crate::host::{self, Host, Revision};
use crate::json::Json;
use crate::project;
use crate::statistics::{self, Summary};

/// Raised when a key of summary.json or a column of raw.csv changes its meaning.
const SCHEMA_VERSION: f64 = 1.0;

/// One number of one run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// What was measured, with its variant: `solve-ranks ranks=2`.
    pub(crate) series: String,
    pub(crate) run_idx: u32,
    pub(crate) metric: Metric,
}

/// Everything that goes into a record.
pub(crate) struct Record {
    pub(crate) date: String,
    pub(crate) host: Host,
    pub(crate) device: String,
    pub(crate) revision: Revision,
    /// The `cargo xtask` command that made it.
    pub(crate) command: String,
    pub(crate) samples: Vec<Sample>,
    /// What was measured and how, for people: goes into README.md.
    pub(crate) report: String,
    /// The same for programs: goes into summary.json.
    pub(crate) details: Json,
    /// Further files by name: pictures and their numbers.
    pub(crate) files: Vec<(String, String)>,
}

impl Record {
    /// Of this machine and this checkout.
    pub(crate) fn new(host_label: Option<&str>, command: String) -> Result<Record> {
        Record::of(Host::here(host_label), Revision::here(), command)
    }

    pub(crate) fn of(host: Host, revision: Revision, command: String) -> Result<Record> {
        Ok(Record {
            date: host::today()?,
            host,
            device: "host".to_owned(),
            revision,
            command,
            samples: Vec::new(),
            report: String::new(),
            details: Json::Null,
            files: Vec::new(),
        })
    }

    /// Writes the three files into a new folder and returns it.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        self.write_below(&project::root().join("bench-results"))
    }

    fn write_below(&self, results: &Path) -> Result<PathBuf> {
        let folder = new_folder(
            results,
            &format!("{}-{}-{}", self.date, self.host.label, self.device),
        )?;
        fs::write(folder.join("README.md"), self.readme())?;
        fs::write(folder.join("raw.csv"), self.raw_csv())?;
        fs::write(folder.join("summary.json"), format!("{}\n", self.summary()))?;
        for (name, content) in &self.files {
            fs::write(folder.join(name), content).with_context(|| name.clone())?;
        }
        Ok(folder)
    }

    fn readme(&self) -> String {
        let Host {
            label,
            cpu,
            n_cores,
            memory_bytes,
            system,
            rustc,
        } = &self.host;
        let memory = memory_bytes.map_or("unknown".to_owned(), |bytes| {
            format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
        });
        let Revision { commit, is_dirty } = &self.revision;
        let dirty = if *is_dirty {
            ", with changes that are not committed"
        } else {
            ""
        };
        format!(
            "# {date}, {label}, {device}\n\n```\n{command}\n```\n\n\
             - revision: {commit}{dirty}\n- processor: {cpu}, {n_cores} cores, {memory}\n\
             - system: {system}\n- compiler: {rustc}\n\n{report}",
            date = self.date,
            device = self.device,
            command = self.command,
            report = self.report,
        )
    }

    fn raw_csv(&self) -> String {
        let mut csv = String::from("series,run,metric,value,unit\n");
        for Sample {
            series,
            run_idx,
            metric,
        } in &self.samples
        {
            csv.push_str(&format!(
                "{series},{run_idx},{},{},{}\n",
                metric.name, metric.value, metric.unit
            ));
        }
        csv
    }

    fn summary(&self) -> Json {
        let metrics =
            summaries(&self.samples)
                .into_iter()
                .map(|((series, metric), (unit, summary))| {
                    Json::object([
                        ("series", Json::String(series)),
                        ("metric", Json::String(metric)),
                        ("unit", Json::String(unit)),
                        ("min", Json::Number(summary.min)),
                        ("median", Json::Number(summary.median)),
                        ("max", Json::Number(summary.max)),
                    ])
                });
        Json::object([
            ("schema_version", Json::Number(SCHEMA_VERSION)),
            ("date", Json::text(&self.date)),
            ("command", Json::text(&self.command)),
            ("revision", Json::text(&self.revision.commit)),
            ("is_dirty", Json::Boolean(self.revision.is_dirty)),
            ("device", Json::text(&self.device)),
            ("host", self.host.to_json()),
            ("details", self.details.clone()),
            ("metrics", Json::Array(metrics.collect())),
        ])
    }
}

/// (series, metric) to (unit, summary over the runs).
type Summaries = BTreeMap<(String, String), (String, Summary)>;

pub(crate) fn summaries(samples: &[Sample]) -> Summaries {
    let mut values: BTreeMap<(String, String), (String, Vec<f64>)> = BTreeMap::new();
    for Sample { series, metric, .. } in samples {
        let key = (series.clone(), metric.name.clone());
        let entry = values
            .entry(key)
            .or_insert_with(|| (metric.unit.clone(), Vec::new()));
        entry.1.push(metric.value);
    }
    let summed = values
        .into_iter()
        .filter_map(|(key, (unit, values))| Some((key, (unit, statistics::summary(&values)?))));
    summed.collect()
}

fn new_folder(results: &Path, name: &str) -> Result<PathBuf> {
    let mut folder = results.join(name);
    let mut n_made = 1;
    while folder.exists() {
        n_made += 1;
        folder = results.join(format!("{name}-{n_made}"));
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn writes_three_files_and_never_twice_into_one_folder() {
        let results = project::target().join(format!("xtask-record-test-{}", std::process::id()));
        let mut record = Record::new(Some("Test Box"), "cargo xtask bench x".to_owned()).unwrap();
        for (run_idx, value) in [(0, 2.0), (1, 4.0), (2, 3.0)] {
            let metric = Metric::new("seconds", value, "s");
            record.samples.push(Sample {
                series: "x".to_owned(),
                run_idx,
                metric,
            });
        }
        let first = record.write_below(&results).unwrap();
        let second = record.write_below(&results).unwrap();
        assert!(first.ends_with(format!("{}-test-box-host", record.date)));
        assert!(second.to_string_lossy().ends_with("-host-2"));

        let summary =
            json::parse(&fs::read_to_string(first.join("summary.json")).unwrap()).unwrap();
        let metric = &summary.get("metrics").unwrap().as_array().unwrap()[0];
        assert_eq!(metric.get("median").unwrap().as_number(), Some(3.0));
        let csv = fs::read_to_string(first.join("raw.csv")).unwrap();
        assert_eq!(csv.lines().nth(2), Some("x,1,seconds,4,s"));
        assert!(
            fs::read_to_string(first.join("README.md"))
                .unwrap()
                .contains("cargo xtask bench x")
        );
        fs::remove_dir_all(&results).unwrap();
    }
}
