//! The folder `bench-results/<paper or suite>/<figure>/` of a record, which a new measurement replaces.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use shardgraph_records::Record;
use shardgraph_records::markdown::markdown;
use shardgraph_records::record::folder;

use crate::chart;
use crate::figure::Figure;
use crate::options::Options;
use crate::report::Origin;

/// An empty record, made here and now.
pub(crate) fn new(figure: &Figure, options: &Options) -> Result<Record> {
    let command = format!("{}{}", figure.command(), options.shown());
    Record::here(figure, command, options.host.as_deref())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;
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
