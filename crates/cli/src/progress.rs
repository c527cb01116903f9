//! A progress bar on standard error for work that takes longer than a moment.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardgraph_device::{Device, Timer};

use crate::report::ReportArgs;

/// Work shorter than this shows nothing.
const SHOWN_AFTER_S: f64 = 1.0;

/// How far a job is; goes away when dropped.
pub(crate) struct Progress {
    is_wanted: bool,
    length: u64,
    timer: Timer,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Work of `length` units that starts now.
    pub(crate) fn new(report: &ReportArgs, length: u64) -> Self {
        Self {
            is_wanted: report.shows_progress(),
            length,
            timer: Timer::start(&Device::host()),
            bar: None,
        }
    }

    /// Shows that `done` units are done; `message` is only asked for where it is shown.
    pub(crate) fn update(&mut self, done: u64, message: impl FnOnce() -> String) {
        if !self.is_wanted {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_message(message());
            bar.set_position(done);
        } else if self.timer.elapsed_s() > SHOWN_AFTER_S {
            self.bar = Some(new_bar(self.length).with_elapsed(self.timer.elapsed()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
