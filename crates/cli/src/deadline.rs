//! The value of `--deadline`: how long a rank waits for another.

use std::time::Duration;

use shardgraph_collectives::Deadline;

/// A number of seconds above 0.
pub(crate) fn parse(text: &str) -> Result<Deadline, String> {
    let seconds = text.parse().ok().and_then(of_seconds);
    seconds.ok_or_else(|| format!("expected seconds, a number above 0, found `{text}`"))
}

/// The same as a plain number, for work that ends itself.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let duration = parse(text)?.duration();
    Ok(duration.as_secs_f64())
}

/// A wait of this many seconds; `None` unless it is above 0.
pub(crate) fn of_seconds(seconds: f64) -> Option<Deadline> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (!duration.is_zero()).then(|| Deadline::after(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_times_are_deadlines() {
        let half = Deadline::after(Duration::from_millis(500));
        assert_eq!(parse("0.5"), Ok(half));
        for wrong in ["0", "-1", "NaN", "inf", "1e-12", "1e300", "soon", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
