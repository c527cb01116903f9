//! Durations as flags spell them: `10s`, `5m`, `500ms`; a bare number is seconds.

use std::time::Duration;

use shardgraph_collectives::Timeout;

/// Each unit and its length in seconds.
const UNITS: [(&str, f64); 7] = [
    ("", 1.0),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// A duration of 0 or more.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let expected = || {
        format!(
            "expected a duration such as 10s, 5m or 500ms (a bare number is seconds), found `{text}`"
        )
    };
    let is_unit = |c: char| c.is_ascii_alphabetic();
    let begin = text.trim_end_matches(is_unit).len();
    let (number, unit) = text.split_at(begin);
    let number = number.trim();
    // `1e3` ends in a digit; `inf` and `nan` have none.
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let number: Option<f64> = number.parse().ok().filter(|n: &f64| n.is_finite());
    let (Some((_, unit)), Some(number)) = (unit, number) else {
        return Err(expected());
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| expected())
}

/// A duration above 0.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    match duration.is_zero() {
        true => Err(format!("expected a duration above 0, found `{text}`")),
        false => Ok(duration),
    }
}

/// A duration above 0, in seconds.
pub(crate) fn positive_seconds(text: &str) -> Result<f64, String> {
    positive(text).map(|duration| duration.as_secs_f64())
}

/// A duration of 0 or more, in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    parse(text).map(|duration| duration.as_secs_f64())
}

/// A duration of 0 or more, in whole nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let nanoseconds = parse(text)?.as_nanos();
    u64::try_from(nanoseconds).map_err(|_| format!("expected less than 584 years, found `{text}`"))
}

/// The longest wait for another rank, or for the disk.
pub(crate) fn timeout(text: &str) -> Result<Timeout, String> {
    positive(text).map(Timeout::after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_multiply_and_a_bare_number_is_seconds() {
        for (text, expected) in [
            ("10s", 10_000_000_000),
            ("10", 10_000_000_000),
            ("0.5", 500_000_000),
            ("500ms", 500_000_000),
            ("5m", 300_000_000_000),
            ("2 h", 7_200_000_000_000),
            ("1.5us", 1_500),
            ("7ns", 7),
            ("0", 0),
        ] {
            assert_eq!(nanoseconds(text), Ok(expected), "{text}");
        }
        for wrong in [
            "", "s", "-1", "-1s", "NaN", "inf", "1e300", "soon", "5 min", "1S",
        ] {
            let message = parse(wrong).unwrap_err();
            assert!(message.contains("10s, 5m or 500ms"), "{wrong}: {message}");
        }
    }

    #[test]
    fn only_positive_times_are_timeouts() {
        let half = Timeout::after(Duration::from_millis(500));
        assert_eq!(timeout("0.5"), Ok(half));
        for wrong in ["0", "0s", "1e-12"] {
            assert!(timeout(wrong).unwrap_err().contains("above 0"), "{wrong}");
        }
    }
}
