//! A progress bar on standard error for work that takes longer than a moment: percent, rate, time left.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardgraph_device::{Device, Timer};

use crate::report::ReportArgs;

/// Work shorter than this shows nothing.
const SHOWN_AFTER_S: f64 = 1.0;

/// The progress of one job; the bar goes away when it is dropped.
pub(crate) struct Progress {
    is_wanted: bool,
    length: u64,
    /// The singular of the unit is not needed: counts are shown behind a total.
    unit: &'static str,
    timer: Timer,
    /// Units that were done at the first update, and when that was: a resumed run does not begin at 0.
    first: Option<(u64, f64)>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Work of `length` units (a plural, such as `steps`) that starts now.
    pub(crate) fn new(report: &ReportArgs, length: u64, unit: &'static str) -> Self {
        Self {
            is_wanted: report.shows_progress(),
            length,
            unit,
            timer: Timer::start(&Device::host()),
            first: None,
            bar: None,
        }
    }

    /// Sets the length of work whose length shows only once it runs.
    pub(crate) fn set_length(&mut self, length: u64) {
        self.length = length;
    }

    /// Shows that `done` units are done; `message` is only asked for where it is shown.
    pub(crate) fn update(&mut self, done: u64, message: impl FnOnce() -> String) {
        if !self.is_wanted {
            return;
        }
        let now = self.timer.elapsed_s();
        let (first, since) = *self.first.get_or_insert((done, now));
        if self.bar.is_none() && now <= SHOWN_AFTER_S {
            return;
        }
        let bar = self
            .bar
            .get_or_insert_with(|| new_bar(self.length).with_elapsed(Duration::from_secs_f64(now)));
        bar.set_length(self.length);
        bar.set_position(done);
        let rate = (done > first && now > since).then(|| (done - first) as f64 / (now - since));
        bar.set_message(line(done, self.length, self.unit, rate, &message()));
    }
}

/// What stands behind the bar.
fn line(done: u64, length: u64, unit: &str, rate: Option<f64>, message: &str) -> String {
    let mut line = format!("{done}/{length} {unit}");
    if !message.is_empty() {
        line += &format!(", {message}");
    }
    if let Some(rate) = rate {
        let left = Duration::try_from_secs_f64(length.saturating_sub(done) as f64 / rate);
        let left = left.unwrap_or(Duration::MAX);
        line += &format!(
            ", {} {unit}/s, {:#} left",
            rounded(rate),
            HumanDuration(left)
        );
    }
    line
}

/// A rate with three digits.
fn rounded(rate: f64) -> String {
    match rate {
        1e9.. => format!("{:.2}G", rate * 1e-9),
        1e6.. => format!("{:.2}M", rate * 1e-6),
        1e4.. => format!("{:.1}k", rate * 1e-3),
        100.0.. => format!("{rate:.0}"),
        _ => format!("{rate:.2}"),
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
    match ProgressStyle::with_template("{bar:24} {percent:>3} % {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rate_since_the_first_update() {
        let text = line(1281, 20_000, "steps", Some(640.0), "loss 0.1");
        assert_eq!(text, "1281/20000 steps, loss 0.1, 640 steps/s, 29s left");
        assert_eq!(line(0, 5, "graphs", None, ""), "0/5 graphs");
        assert!(line(9, 5, "graphs", Some(1.0), "").ends_with("0s left"));
    }
}
