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
    /// Seconds after which the work ends, whatever is done.
    limit: Option<f64>,
    /// True if the units are those of a part, behind which an unknown number of others comes.
    is_part: bool,
    /// Units that were done so far back that the rate follows what has changed since, and when that
    /// was: a resumed run does not begin at 0, and steps get slower once they learn.
    anchors: Option<[(u64, f64); 2]>,
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
            limit: None,
            is_part: false,
            anchors: None,
            bar: None,
        }
    }

    /// Work that ends after so many seconds, if it has not ended before.
    pub(crate) fn within(mut self, limit: Option<f64>) -> Self {
        self.limit = limit;
        self
    }

    /// Work of unknown length, until it ends or its time is over.
    pub(crate) fn of_time(report: &ReportArgs, limit: Option<f64>) -> Self {
        Self::new(report, 0, "").within(limit)
    }

    /// Sets the length of work whose length shows only once it runs; the rate begins anew.
    pub(crate) fn set_length(&mut self, length: u64) {
        if self.length != length {
            self.length = length;
            self.anchors = None;
        }
    }

    /// Says whether the units are those of a part alone: then no time left follows from them.
    pub(crate) fn set_part(&mut self, is_part: bool) {
        self.is_part = is_part;
    }

    /// Shows that `done` units are done; `message` is only asked for where it is shown.
    pub(crate) fn update(&mut self, done: u64, message: impl FnOnce() -> String) {
        if !self.is_wanted {
            return;
        }
        let now = self.timer.elapsed_s();
        let anchors = self.anchors.get_or_insert([(done, now); 2]);
        let [(first, since), (_, newer)] = *anchors;
        if now > 2.0 * newer {
            *anchors = [anchors[1], (done, now)];
        }
        if self.bar.is_none() && now <= SHOWN_AFTER_S {
            return;
        }
        let bar = self
            .bar
            .get_or_insert_with(|| new_bar(self.length).with_elapsed(Duration::from_secs_f64(now)));
        let rate = (done > first && now > since).then(|| (done - first) as f64 / (now - since));
        let left = self.limit.map(|limit| limit - now);
        let (length, done_of_it) = match (self.length, self.limit) {
            (0, Some(limit)) => ((1e3 * limit) as u64, (1e3 * now) as u64),
            (length, _) => (length, done),
        };
        bar.set_length(length);
        bar.set_position(done_of_it);
        bar.set_message(match self.length {
            0 => time_line(now, left, &message()),
            _ if self.is_part => time_line(now, left, &message()),
            length => line(
                done,
                length,
                self.unit,
                rate.map(|rate| (rate, left)),
                &message(),
            ),
        });
    }
}

/// What stands behind the bar of work that is measured by time alone.
fn time_line(now: f64, left: Option<f64>, message: &str) -> String {
    let duration = |seconds: f64| HumanDuration(Duration::from_secs_f64(seconds.max(0.0)));
    let time = match left {
        Some(left) => format!("{:#} left at most", duration(left)),
        None => format!("{:#} so far", duration(now)),
    };
    match message.is_empty() {
        true => time,
        false => format!("{message}, {time}"),
    }
}

/// What stands behind the bar.
fn line(
    done: u64,
    length: u64,
    unit: &str,
    rate: Option<(f64, Option<f64>)>,
    message: &str,
) -> String {
    let mut line = format!("{done}/{length} {unit}");
    if !message.is_empty() {
        line += &format!(", {message}");
    }
    if let Some((rate, limit)) = rate {
        let left = length.saturating_sub(done) as f64 / rate;
        let left = limit.map_or(left, |limit| left.min(limit.max(0.0)));
        let left = Duration::try_from_secs_f64(left);
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
    fn the_time_left_follows_from_the_rate_and_the_limit() {
        let text = line(1281, 20_000, "steps", Some((640.0, None)), "loss 0.1");
        assert_eq!(text, "1281/20000 steps, loss 0.1, 640 steps/s, 29s left");
        assert_eq!(line(0, 5, "graphs", None, ""), "0/5 graphs");
        assert!(line(9, 5, "graphs", Some((1.0, None)), "").ends_with("0s left"));
        let text = line(1281, 20_000, "steps", Some((640.0, Some(7.2))), "");
        assert!(
            text.ends_with("7s left"),
            "the time limit is nearer: {text}"
        );
        assert_eq!(
            time_line(3.0, Some(7.0), "best 14"),
            "best 14, 7s left at most"
        );
        assert_eq!(time_line(3.0, None, ""), "3s so far");
    }
}
