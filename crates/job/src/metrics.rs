//! Metrics of a run's steps: `metrics.jsonl` for programs, and a TensorBoard event file for people.

use std::cell::Cell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shardgraph_storage::write_atomic;

use crate::{Error, events};

const LINES: &str = "metrics.jsonl";
const EVENTS: &str = "events.out.tfevents.";

/// The metrics of a run, open for appending.
///
/// A checkpoint puts them on disk. A run that goes on cuts both files back to the step of its checkpoint, and leaves out lines
/// and records that are damaged or torn: so they become those of a run that never stopped.
#[derive(Debug)]
pub struct Metrics {
    lines: Appended,
    events: Appended,
}

/// The one field of a line that this crate knows.
#[derive(Deserialize)]
struct Line {
    step: u64,
}

impl Metrics {
    /// Refuses lines that no run has written, which a new run would lose: those without a step, but for the last, which a kill may cut.
    pub(crate) fn check_new(folder: &Path) -> Result<(), Error> {
        let path = folder.join(LINES);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io(&path)(error)),
        };
        let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
        let is_cut = first.len() == bytes.len() && (first.is_empty() || first[0] == b'{');
        if is_cut || serde_json::from_slice::<Line>(first).is_ok() {
            return Ok(());
        }
        let reason = "no run of this program wrote these lines, which a new run would overwrite: choose another folder, or move the file away";
        Err(Error::damaged(path.display(), reason))
    }

    /// Cuts the files of a folder back to the step, to nothing where there is none, and opens them.
    pub(crate) fn open(folder: &Path, step: Option<u64>, wall_time: f64) -> Result<Metrics, Error> {
        let lines = folder.join(LINES);
        let kept_lines = match fs::read(&lines) {
            Ok(bytes) => lines_up_to(&bytes, step),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io(&lines)(error)),
        };
        let (events, kept_events) = match own_events(folder, step)? {
            Some(found) => found,
            None => {
                let name = format!("{EVENTS}{:010}.{}", wall_time as u64, host_name());
                (folder.join(name), events::header(wall_time))
            }
        };
        Ok(Metrics {
            lines: Appended::to(lines, &kept_lines)?,
            events: Appended::to(events, &kept_events)?,
        })
    }

    /// Appends a line and, where there are scalars, an event with them.
    ///
    /// The record is a struct with a field `step`: that line's step and the event's. Scalars have a tag; [`tags`](crate::tags) has
    /// the usual ones. `wall_time` is now, in seconds of the Unix epoch ([`wall_time`]).
    ///
    /// # Errors
    /// When the record has no JSON form on one line or no `step`, or a file cannot be written.
    /// # Complexity
    /// One write to each file, no sync.
    pub fn append<T: Serialize>(
        &mut self,
        wall_time: f64,
        record: &T,
        scalars: &[(&str, f32)],
    ) -> Result<(), Error> {
        let refused = |e: serde_json::Error| {
            let reason = format!("expected a struct with a field `step`, a number from 0: {e}");
            Error::refused("Metrics::append", reason)
        };
        let mut line = serde_json::to_string(record).map_err(refused)?;
        let Line { step } = serde_json::from_str(&line).map_err(refused)?;
        line.push('\n');
        self.lines.append(line.as_bytes())?;
        if scalars.is_empty() {
            return Ok(());
        }
        self.events
            .append(&events::record(wall_time, step, scalars))
    }

    /// The event file, for [`read_scalars`](crate::read_scalars).
    pub fn events_path(&self) -> &Path {
        &self.events.path
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.lines.sync()?;
        self.events.sync()
    }
}

/// A file that grows at its end.
#[derive(Debug)]
struct Appended {
    path: PathBuf,
    file: fs::File,
    /// Nothing was appended since the last sync.
    is_synced: Cell<bool>,
}

impl Appended {
    fn to(path: PathBuf, kept: &[u8]) -> Result<Appended, Error> {
        write_atomic(&path, |out| out.write_all(kept)).map_err(Error::io(&path))?;
        let file = fs::OpenOptions::new().append(true).open(&path);
        let file = file.map_err(Error::io(&path))?;
        let is_synced = Cell::new(true);
        Ok(Appended {
            path,
            file,
            is_synced,
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.is_synced.set(false);
        let written = self.file.write_all(bytes);
        written.map_err(Error::io(&self.path))
    }

    fn sync(&self) -> Result<(), Error> {
        if !self.is_synced.get() {
            self.file.sync_data().map_err(Error::io(&self.path))?;
            self.is_synced.set(true);
        }
        Ok(())
    }
}

/// The lines of a folder's `metrics.jsonl`; a torn last one is left out.
///
/// # Errors
/// When the file cannot be read, or a line is not of this form.
/// # Complexity
/// The file is read into memory.
pub fn read_lines<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, Error> {
    let path = folder.join(LINES);
    let bytes = fs::read(&path).map_err(Error::io(&path))?;
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let whole = lines.filter(|line| line.ends_with(b"\n"));
    let read = |(number, line): (usize, &[u8])| {
        let wrong = |e| Error::damaged(format!("{}:{number}", path.display()), e);
        serde_json::from_slice(line).map_err(|e| wrong(e.to_string()))
    };
    (1..).zip(whole).map(read).collect()
}

/// A kill can leave lines of steps behind the checkpoint, and a torn last one.
fn lines_up_to(bytes: &[u8], step: Option<u64>) -> Vec<u8> {
    let mut kept = Vec::new();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let read: Option<Line> = serde_json::from_slice(line).ok();
        if line.ends_with(b"\n") && read.is_some_and(|line| Some(line.step) <= step) {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// The folder's newest event file that this crate wrote, and what of it is kept. Other programs' files are left alone.
fn own_events(folder: &Path, step: Option<u64>) -> Result<Option<(PathBuf, Vec<u8>)>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(EVENTS)) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths.into_iter().rev() {
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        if let Some(kept) = events::up_to(&bytes, step) {
            return Ok(Some((path, kept)));
        }
    }
    Ok(None)
}

/// The name of this machine, as far as a file's name can hold it.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.replace(|c| !is_plain(c), "_"),
    }
}

/// Now, in seconds of the Unix epoch: the time that TensorBoard shows beside a value. Nothing is computed from it.
pub fn wall_time() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64()) // a clock before 1970
}
