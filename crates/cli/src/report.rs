//! Everything that is printed: answers on standard output, the rest on standard error.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shardgraph_job::Checkpoint;

use crate::text::{self, Layout, printable};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    Text,
    Json,
}

/// The version of the JSON answers' keys: it changes when one of them changes its meaning or goes.
const SCHEMA_VERSION: u32 = 3;

/// The command of this process, such as `embed eval`.
static COMMAND: OnceLock<String> = OnceLock::new();

/// Sets the name that answers carry as `command`.
pub(crate) fn set_command(name: String) {
    // There is one command a process; a second name could only be the same.
    let _ = COMMAND.set(name);
}

/// An answer in JSON: what every answer has, then its own keys.
#[derive(Serialize)]
struct Envelope<'a, T> {
    command: &'a str,
    version: &'a str,
    schema_version: u32,
    #[serde(flatten)]
    answer: &'a T,
}

impl<'a, T> Envelope<'a, T> {
    fn new(answer: &'a T) -> Self {
        Self {
            command: COMMAND.get().map_or("", String::as_str),
            version: env!("CARGO_PKG_VERSION"),
            schema_version: SCHEMA_VERSION,
            answer,
        }
    }
}

/// The flags that say what is printed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ReportArgs {
    /// The form of the answer: lines to read, or one JSON object
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    format: AnswerFormat,
    /// No progress, even on a terminal
    #[arg(long)]
    no_progress: bool,
    /// Nothing on standard error but errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// More on standard error: what was read, stored and written
    #[arg(short, long)]
    verbose: bool,
    /// Whether a file goes to standard output, and so the answer to standard error.
    #[arg(skip)]
    is_output_taken: Arc<AtomicBool>,
}

impl ReportArgs {
    /// For one of several processes: only rank 0 prints anything but errors.
    pub(crate) fn of_rank(&self, rank: u32) -> ReportArgs {
        let is_first = rank == 0;
        ReportArgs {
            quiet: self.quiet || !is_first,
            verbose: self.verbose && is_first,
            ..self.clone()
        }
    }

    /// Leaves standard output to the file `out`, if that is `-`.
    pub(crate) fn leave_output_to(&self, out: Option<&Path>) {
        let is_taken = out.is_some_and(crate::output_file::is_standard_output);
        self.is_output_taken.store(is_taken, Ordering::Relaxed);
    }

    /// Prints an answer, as text by its keys. A reader that has gone away, as `head` does, is no error.
    pub(crate) fn answer(
        &self,
        answer: &impl Serialize,
        layout: &Layout<'_>,
    ) -> anyhow::Result<()> {
        self.answer_as(answer, || text::render(answer, layout))
    }

    /// Prints an answer that has a text of its own.
    pub(crate) fn answer_as(
        &self,
        answer: &impl Serialize,
        text: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let text = match self.format {
            AnswerFormat::Text => text()?,
            AnswerFormat::Json => serde_json::to_string_pretty(&Envelope::new(answer))? + "\n",
        };
        if self.is_output_taken.load(Ordering::Relaxed) {
            // Nothing can report a closed standard error.
            let _ = io::stderr().lock().write_all(text.as_bytes());
            return Ok(());
        }
        print(&text)?;
        Ok(())
    }

    /// Prints one answer of several: as text with a blank line behind it, as JSON on one line. False when the reader has gone away.
    pub(crate) fn one_of_many(
        &self,
        answer: &impl Serialize,
        layout: &Layout<'_>,
    ) -> anyhow::Result<bool> {
        let text = match self.format {
            AnswerFormat::Text => text::render(answer, layout)?,
            AnswerFormat::Json => serde_json::to_string(&Envelope::new(answer))?,
        };
        print(&(text + "\n"))
    }

    /// Lines for who asked for more.
    pub(crate) fn note(&self, text: &str) {
        if self.verbose {
            to_stderr("note", text);
        }
    }

    /// Lines about something that was lost.
    pub(crate) fn warning(&self, text: &str) {
        if !self.quiet {
            warning(text);
        }
    }

    /// Warns of each damaged checkpoint in a run's folder that going on, if it does, passes over.
    pub(crate) fn warn_of_damage(&self, folder: Option<&Path>, resume: bool) {
        let Some(folder) = folder.filter(|_| resume) else {
            return;
        };
        // A folder that cannot be read is the error of who goes on there.
        for damage in Checkpoint::passed_over(folder).unwrap_or_default() {
            self.warning(&format!(
                "{damage}; the run goes on from the checkpoint before it"
            ));
        }
    }

    /// Whether to show progress.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && !self.no_progress && io::IsTerminal::is_terminal(&io::stderr())
    }
}

/// Prints a warning whatever the flags.
pub(crate) fn warning(text: &str) {
    to_stderr("warning", text);
}

/// Prints an error, in every form of answer as text.
pub(crate) fn error(error: &anyhow::Error) {
    // The errors of this workspace tell their cause themselves, so the chain would say it twice.
    to_stderr("error", &error.to_string());
}

/// Prints; false for a reader that has gone away, which is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<bool> {
    match write_out(text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::anyhow!("cannot write standard output: {error}")),
    }
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Nobody can be told where standard error fails.
fn to_stderr(level: &str, text: &str) {
    let mut out = io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(out, "{level}: {}", printable(line));
    }
}
