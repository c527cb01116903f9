//! What a measurement says while it runs: lines, each a row to come, and skips.

use serde_json::Value;

use crate::host::{Host, Revision};
use crate::row::Row;

/// What any measurement may fail with.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The lines of a measurement, printed as they come.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Stands before each line on the terminal.
    pub(crate) title: String,
    pub(crate) lines: Vec<Value>,
    pub(crate) skips: Vec<String>,
    /// Where it was measured, if not here on the host.
    pub(crate) origin: Option<Origin>,
}

/// The machine of a measurement that is another one, or a GPU of this one.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) host: Host,
    pub(crate) revision: Revision,
    pub(crate) device: String,
    /// Lines about the device.
    pub(crate) notes: Vec<String>,
}

impl Origin {
    pub(crate) fn new(host: Host, revision: Revision) -> Origin {
        Origin {
            host,
            revision,
            device: "host".to_owned(),
            notes: Vec::new(),
        }
    }
}

impl Report {
    pub(crate) fn new(title: &str) -> Report {
        Report {
            title: title.to_owned(),
            ..Report::default()
        }
    }

    /// Adds a row of the figure.
    pub(crate) fn row(&mut self, line: Value) {
        println!(
            "{}: {}",
            self.title,
            Row::from_line(&line, &[], &[]).in_short()
        );
        self.lines.push(line);
    }

    /// Shows how far the measurement is; no part of the record.
    pub(crate) fn progress(&self, text: &str) {
        println!("{}: {text}", self.title);
    }

    /// Counts something that could not run.
    pub(crate) fn skip(&mut self, why: &str) {
        println!("SKIPPED: {}: {why}", self.title);
        self.skips.push(why.to_owned());
    }
}

/// Fails with `wrong` unless `holds`.
pub(crate) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(wrong().into()),
    }
}

/// Seconds since the clock was made.
pub(crate) fn clock() -> impl FnMut() -> f64 {
    let watch = crate::process::Stopwatch::start();
    move || watch.seconds()
}
