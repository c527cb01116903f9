//! The folder `bench-results/<paper or suite>/<figure>/` of a record, which a new measurement replaces.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
pub(crate) use shardgraph_records::Record;
use shardgraph_records::SCHEMA_VERSION;

use crate::chart;
use crate::figure::Figure;
use crate::host::{self, Host, Revision};
use crate::options::Options;
use crate::paths;
use crate::report::Origin;
use crate::statistics::shown;
use crate::table::{self, Heads};

/// An empty record, made here and now.
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
pub(crate) fn set_origin(record: &mut Record, origin: Option<Origin>) {
    let Some(origin) = origin else { return };
    record.host = origin.host;
    record.revision = origin.revision.commit;
    record.is_dirty = origin.revision.is_dirty;
    record.device = origin.device;
    record.notes = origin.notes;
}

/// The record of a figure, if there is one.
pub(crate) fn read(group: &str, figure: &str) -> Result<Option<Record>> {
    let file = folder(group, figure).join("latest.json");
    file.is_file().then(|| Record::read(&file)).transpose()
}

/// What people read.
pub(crate) fn markdown(record: &Record, figure: &Figure) -> String {
    let mut text = format!("# {}\n\n```\n{}\n```\n\n", record.title, record.command);
    text.push_str(&origin(record));
    if !figure.why.is_empty() {
        text.push_str(&format!("\n{}\n", figure.why));
    }
    let heads = Heads {
        x: &figure.x,
        y: &figure.y,
        peer: "PyTorch on this machine",
    };
    text.push_str(&format!("\n{}", table::tables(&record.rows, &heads)));
    text.push_str(&around(figure));
    for note in &record.notes {
        text.push_str(&format!("- {note}\n"));
    }
    for skip in &record.skips {
        text.push_str(&format!("- skipped: {skip}\n"));
    }
    text
}

/// Revision, machine, load.
fn origin(record: &Record) -> String {
    let Host {
        label,
        cpu,
        n_cores,
        memory_bytes,
        system,
        rustc,
    } = &record.host;
    let gib = memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
    let memory = gib.map_or("memory unknown".to_owned(), |gib| format!("{gib:.1} GiB"));
    let dirty = match record.is_dirty {
        true => ", with changes that are not committed",
        false => "",
    };
    let load = record.load.map_or("not recorded".to_owned(), shown);
    format!(
        "- {}, {label}, {}\n- revision: {}{dirty}\n- processor: {cpu}, {n_cores} cores, {memory}\n\
         - load before: {load}\n- system: {system}\n- compiler: {rustc}\n",
        record.date, record.device, record.revision
    )
}

/// Every file of the record with its content.
pub(crate) fn files(record: &Record, figure: &Figure) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let json = serde_json::to_string_pretty(record)?;
    let csv = zstd::encode_all(raw_csv(record).as_bytes(), 19)?;
    let mut files = vec![
        ("latest.json", format!("{json}\n").into_bytes()),
        ("latest.md", markdown(record, figure).into_bytes()),
        ("raw.csv.zst", csv),
    ];
    if record.rows.iter().any(|row| row.x.is_some()) {
        files.push(("latest.svg", chart::svg(figure, &record.rows).into_bytes()));
    }
    Ok(files)
}

/// Replaces the record of the figure.
pub(crate) fn write(record: &Record, figure: &Figure) -> Result<PathBuf> {
    write_to(record, folder(&record.group, &record.figure), figure)
}

fn write_to(record: &Record, folder: PathBuf, figure: &Figure) -> Result<PathBuf> {
    let files = files(record, figure)?;
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
fn raw_csv(record: &Record) -> String {
    let mut csv = String::from("series,run,metric,value,unit\n");
    for row in &record.rows {
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
    use crate::row::{Measured, Row};

    const FIGURE: &str = "title = 'T'\nwhy = 'W'\nx = 'ranks'\ny = 'seconds'\npaper = ['faster']\n[[series]]\nname = 'a'\nkind = 'command'\ncommand = ['json']\n";

    fn record(figure: &Figure) -> Record {
        let mut record = new(figure, &Options::default()).unwrap();
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
        write_to(&record, folder.clone(), &figure).unwrap();
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
}
