//! A record: the folder `bench-results/<paper or suite>/<figure>/`, which a new measurement replaces.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::chart;
use crate::figure::Figure;
use crate::host::{self, Host, Revision};
use crate::options::Options;
use crate::paths;
use crate::report::Origin;
use crate::row::Row;
use crate::statistics::shown;
use crate::table::{self, Heads};

/// Version of what `latest.json` holds.
const SCHEMA_VERSION: u32 = 2;

/// More runnable processes than this share of the processors disturb a measurement.
const LOADED_SHARE: f64 = 0.5;

/// A measurement with where it was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) schema_version: u32,
    /// Paper or suite.
    pub(crate) group: String,
    pub(crate) figure: String,
    pub(crate) title: String,
    pub(crate) command: String,
    pub(crate) date: String,
    pub(crate) revision: String,
    /// Whether the files differed from the revision.
    pub(crate) is_dirty: bool,
    pub(crate) host: Host,
    pub(crate) device: String,
    /// Runnable processes in the minute before; absent: not known.
    pub(crate) load: Option<f64>,
    pub(crate) rows: Vec<Row>,
    pub(crate) skips: Vec<String>,
    /// Lines that programs on a GPU print about it.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

impl Record {
    /// An empty one, made here and now.
    pub(crate) fn new(figure: &Figure, options: &Options) -> Result<Record> {
        let Revision { commit, is_dirty } = Revision::here();
        Ok(Record {
            schema_version: SCHEMA_VERSION,
            group: figure.group.clone(),
            figure: figure.name.clone(),
            title: figure.title.clone(),
            command: format!("{}{}", figure.command(), options.shown()),
            date: host::today()?,
            revision: commit,
            is_dirty,
            host: Host::here(options.host.as_deref()),
            device: "host".to_owned(),
            load: host::load(),
            rows: Vec::new(),
            skips: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Takes the machine of a measurement that was made elsewhere.
    pub(crate) fn set_origin(&mut self, origin: Option<Origin>) {
        let Some(origin) = origin else { return };
        self.host = origin.host;
        self.revision = origin.revision.commit;
        self.is_dirty = origin.revision.is_dirty;
        self.device = origin.device;
        self.notes = origin.notes;
    }

    /// The record of a figure, if there is one.
    pub(crate) fn read(group: &str, figure: &str) -> Result<Option<Record>> {
        let path = folder(group, figure).join("latest.json");
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(None);
        };
        let record = serde_json::from_str(&text);
        record.with_context(|| path.display().to_string()).map(Some)
    }

    /// Whether other processes took so much of the machine that times are doubtful.
    pub(crate) fn is_loaded(&self) -> bool {
        let most = LOADED_SHARE * self.host.n_cores as f64;
        self.load.is_some_and(|load| load > most)
    }

    /// Leaves times out, which depend on the load of the machine.
    pub(crate) fn drop_seconds(&mut self) {
        for row in &mut self.rows {
            row.values.retain(|value| value.unit != "s");
        }
    }

    /// What people read.
    pub(crate) fn markdown(&self, figure: &Figure) -> String {
        let mut text = format!("# {}\n\n```\n{}\n```\n\n", self.title, self.command);
        text.push_str(&self.origin());
        if !figure.why.is_empty() {
            text.push_str(&format!("\n{}\n", figure.why));
        }
        let heads = Heads {
            x: &figure.x,
            y: &figure.y,
            peer: "PyTorch on this machine",
        };
        text.push_str(&format!("\n{}", table::tables(&self.rows, &heads)));
        text.push_str(&around(figure));
        for note in &self.notes {
            text.push_str(&format!("- {note}\n"));
        }
        for skip in &self.skips {
            text.push_str(&format!("- skipped: {skip}\n"));
        }
        text
    }

    /// Revision, machine, load.
    fn origin(&self) -> String {
        let Host {
            label,
            cpu,
            n_cores,
            memory_bytes,
            system,
            rustc,
        } = &self.host;
        let gib = memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
        let memory = gib.map_or("memory unknown".to_owned(), |gib| format!("{gib:.1} GiB"));
        let dirty = match self.is_dirty {
            true => ", with changes that are not committed",
            false => "",
        };
        let load = self.load.map_or("not recorded".to_owned(), shown);
        format!(
            "- {}, {label}, {}\n- revision: {}{dirty}\n- processor: {cpu}, {n_cores} cores, {memory}\n\
             - load before: {load}\n- system: {system}\n- compiler: {rustc}\n",
            self.date, self.device, self.revision
        )
    }

    /// Every file of the record with its content.
    pub(crate) fn files(&self, figure: &Figure) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let json = serde_json::to_string_pretty(self)?;
        let csv = zstd::encode_all(self.raw_csv().as_bytes(), 19)?;
        let mut files = vec![
            ("latest.json", format!("{json}\n").into_bytes()),
            ("latest.md", self.markdown(figure).into_bytes()),
            ("raw.csv.zst", csv),
        ];
        if self.rows.iter().any(|row| row.x.is_some()) {
            files.push(("latest.svg", chart::svg(figure, &self.rows).into_bytes()));
        }
        Ok(files)
    }

    /// Replaces the record of the figure.
    pub(crate) fn write(&self, figure: &Figure) -> Result<PathBuf> {
        self.write_to(folder(&self.group, &self.figure), figure)
    }

    fn write_to(&self, folder: PathBuf, figure: &Figure) -> Result<PathBuf> {
        let files = self.files(figure)?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for (name, content) in files {
            fs::write(folder.join(name), content).with_context(|| name.to_owned())?;
        }
        Ok(folder)
    }

    /// Every sample.
    fn raw_csv(&self) -> String {
        let mut csv = String::from("series,run,metric,value,unit\n");
        for row in &self.rows {
            let key = row.key();
            let own = row.values.iter().filter(|_| row.peer.is_none());
            for value in own {
                for (run_idx, sample) in value.samples.iter().enumerate() {
                    let (name, unit) = (&value.name, &value.unit);
                    csv.push_str(&format!("{key},{run_idx},{name},{sample},{unit}\n"));
                }
            }
            if let Some(peer) = row.peer {
                csv.push_str(&format!("{key},0,peer,{peer},\n"));
            }
        }
        csv
    }
}

/// The folder of a record.
pub(crate) fn folder(group: &str, figure: &str) -> PathBuf {
    paths::root()
        .join("bench-results")
        .join(Path::new(group))
        .join(figure)
}

/// What the paper reports and what differs.
fn around(figure: &Figure) -> String {
    let mut text = String::new();
    if !figure.paper.is_empty() {
        text.push_str("Reported by the paper, on its own machines:\n\n");
    }
    for sentence in &figure.paper {
        text.push_str(&format!("- {sentence}\n"));
    }
    if !figure.published.is_empty() {
        text.push_str("\nReported by others, on other machines:\n\n");
        text.push_str("| who | metric | value | source |\n|---|---|---|---|\n");
    }
    for row in &figure.published {
        let (who, metric, value) = (&row.who, &row.metric, shown(row.value));
        text.push_str(&format!(
            "| {who} | {metric} | {value} | {} |\n",
            row.source
        ));
    }
    text.push('\n');
    for sentence in &figure.here {
        text.push_str(&format!("- here: {sentence}\n"));
    }
    for peer in &figure.not_run {
        text.push_str(&format!("- not run: {peer}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Measured;

    const FIGURE: &str = "title = 'T'\nwhy = 'W'\nx = 'ranks'\ny = 'seconds'\npaper = ['faster']\n[[series]]\nname = 'a'\nkind = 'command'\ncommand = ['json']\n";

    fn record(figure: &Figure) -> Record {
        let mut record = Record::new(figure, &Options::default()).unwrap();
        record.rows.push(Row {
            series: "a, b".to_owned(),
            x: Some(2.0),
            values: vec![Measured::new("seconds", vec![2.0, 4.0, 3.0])],
            ..Row::default()
        });
        record
    }

    #[test]
    fn a_new_record_takes_the_place_of_the_old_one() {
        let figure: Figure = toml::from_str(FIGURE).unwrap();
        let folder = paths::fresh_scratch(&format!("record-{}", std::process::id())).unwrap();
        fs::write(folder.join("old.csv"), "").unwrap();
        let record = record(&figure);
        record.write_to(folder.clone(), &figure).unwrap();
        assert!(!folder.join("old.csv").exists());
        let csv = zstd::decode_all(fs::File::open(folder.join("raw.csv.zst")).unwrap()).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert_eq!(csv.lines().nth(2), Some("a; b x=2,1,seconds,4,s"));
        let text = fs::read_to_string(folder.join("latest.json")).unwrap();
        let again: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(again.rows, record.rows);
        let text = fs::read_to_string(folder.join("latest.md")).unwrap();
        assert!(text.contains("| a, b | 2 | 3 (2 to 4) |"), "{text}");
        assert!(folder.join("latest.svg").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_loaded_machine_is_marked_and_quality_has_no_seconds() {
        let figure: Figure = toml::from_str(FIGURE).unwrap();
        let mut record = record(&figure);
        record.host.n_cores = 2;
        for (load, is_loaded) in [(None, false), (Some(0.9), false), (Some(1.1), true)] {
            record.load = load;
            assert_eq!(record.is_loaded(), is_loaded, "{load:?}");
        }
        record.drop_seconds();
        assert!(record.rows[0].values.is_empty());
    }
}
