//! Signals: Ctrl-C and SIGTERM say what was saved and how to go on, then exit code 130; SIGXFSZ is an
//! error of the write that raised it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a command that a signal ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// A signal handler has no arguments: what goes on from its checkpoints stands here.
static RESUMABLE: Mutex<Option<Resumable>> = Mutex::new(None);
/// Whether the command ends by itself, with its best answer so far, after the first signal.
static ENDS_BY_ITSELF: AtomicBool = AtomicBool::new(false);
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Handles signals from here on.
pub(crate) fn install() {
    install_file_limit();
    // Without a handler a signal still ends the process, only with fewer words.
    let _ = ctrlc::set_handler(|| {
        let is_second = IS_INTERRUPTED.swap(true, Ordering::SeqCst);
        if ENDS_BY_ITSELF.load(Ordering::SeqCst) && !is_second {
            say("interrupted: ending with the best answer so far; interrupt again to end at once");
            return;
        }
        let run = RESUMABLE.lock();
        let advice = run.map(|run| run.as_ref().map(Resumable::advice));
        let advice = advice.ok().flatten();
        let advice = advice.unwrap_or_else(|| "nothing was saved".to_owned());
        say(&format!("interrupted: {advice}"));
        process::exit(INTERRUPTED.into());
    });
}

/// Lets a write past the limit of a file's size (`ulimit -f`) fail with "File too large", which is
/// reported and leaves no temporary file. Without a handler the signal ends the process in silence.
#[cfg(unix)]
fn install_file_limit() {
    let is_raised = std::sync::Arc::new(AtomicBool::new(false));
    // Where there can be no handler, the signal ends the process as it would have.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, is_raised);
}

#[cfg(not(unix))]
fn install_file_limit() {}

/// A run with checkpoints, and the command that goes on with the newest one.
struct Resumable {
    folder: PathBuf,
    command: String,
}

impl Resumable {
    /// What was saved up to now, and the command to go on with.
    fn advice(&self) -> String {
        let mut entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_checkpoint = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let is_named = name.to_string_lossy().starts_with("checkpoint-");
            // The file that is written last.
            is_named && entry.path().join("MANIFEST").is_file()
        };
        let folder = self.folder.display();
        match entries.any(is_checkpoint) {
            true => format!(
                "the checkpoints up to now are in {folder}; go on with `{}`",
                self.command
            ),
            false => format!("{folder} has no checkpoint yet, so nothing was saved"),
        }
    }
}

/// Advises an interrupted user to go on with the newest checkpoint in `folder` by `command`.
pub(crate) fn advise_to_resume(folder: &Path, command: &str) {
    if let Ok(mut run) = RESUMABLE.lock() {
        *run = Some(Resumable {
            folder: folder.to_owned(),
            command: command.to_owned(),
        });
    }
}

/// From here on the first interrupt only sets [`is_interrupted`], and the command ends by itself.
pub(crate) fn end_by_itself() {
    ENDS_BY_ITSELF.store(true, Ordering::SeqCst);
}

/// Whether the user has interrupted the command.
pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}

/// One line on standard error, where a progress bar may stand.
fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    // A closed standard error cannot be reported anywhere.
    let _ = writeln!(out, "\r\x1b[K{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_with_a_checkpoint_is_said_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let run = Resumable {
            folder: folder.path().join("run"),
            command: "again".to_owned(),
        };
        assert!(run.advice().contains("no checkpoint yet"), "no folder");
        let checkpoint = run.folder.join("checkpoint-0000000007");
        fs::create_dir_all(&checkpoint).unwrap();
        fs::write(run.folder.join("metrics.jsonl"), "").unwrap();
        assert!(run.advice().contains("no checkpoint yet"), "half of one");
        fs::write(checkpoint.join("MANIFEST"), "").unwrap();
        assert!(run.advice().ends_with("go on with `again`"), "a whole one");
    }
}
