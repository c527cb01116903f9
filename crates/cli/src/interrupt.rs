//! Signals: Ctrl-C and SIGTERM say what was saved and how to go on, then exit code 130; SIGXFSZ is an
//! error of the write that raised it.

use std::io::Write as _;
use std::path::Path;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a command that a signal ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// A signal handler has no arguments: what it prints stands here.
static ADVICE: Mutex<String> = Mutex::new(String::new());
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
        let advice = ADVICE.lock().map(|advice| advice.clone());
        let advice = advice.unwrap_or_default();
        match advice.is_empty() {
            true => say("interrupted: nothing was saved"),
            false => say(&format!("interrupted: {advice}")),
        }
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

/// Sets what an interrupt says: what was saved, and the command to go on with.
fn advise(advice: &str) {
    if let Ok(mut text) = ADVICE.lock() {
        advice.clone_into(&mut text);
    }
}

/// Advises to go on with the newest checkpoint in `folder` by `command`.
pub(crate) fn advise_to_resume(folder: &Path, command: &str) {
    let folder = folder.display();
    advise(&format!(
        "the checkpoints up to now are in {folder}; go on with `{command}`"
    ));
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
