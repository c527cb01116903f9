//! Names and units of keys, and numbers with them as people write them.

use serde_json::Number;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    Plain,
    /// A name made of digits.
    Id,
    Percent,
    /// Its seconds.
    Time(f64),
    /// Its bytes.
    Bytes(f64),
    /// Written as it stands, with this behind it.
    Suffix(&'static str),
}

/// Words of keys that have another name in text.
const WORDS: [(&str, &str); 20] = [
    ("auc", "AUC"),
    ("mrr", "MRR"),
    ("f1", "F1"),
    ("svd", "SVD"),
    ("iqm", "IQM"),
    ("netmf", "NetMF"),
    ("nmi", "mutual information"),
    ("adamic", "Adamic"),
    ("adar", "Adar"),
    ("evals", "evaluations"),
    ("env", "environment"),
    ("svg", "picture"),
    ("out", "file"),
    ("seconds", "time"),
    ("ms", "time"),
    ("ns", "time"),
    ("mib", "memory"),
    ("n", ""),
    ("gbs", ""),
    ("s", "second"),
];

/// Keys whose names do not tell enough: what they are called, and their unit where that is new.
const KEYS: [(&str, &str, Option<Unit>); 24] = [
    ("index", "number in the file", None),
    ("counts_persistent", "weights count as memory", None),
    ("pairs_differ", "but for some pairs", None),
    ("unknown_kinds", "of unknown kinds", None),
    ("runtime", "runtime", Some(Unit::Time(1e-9))),
    ("period", "period", Some(Unit::Time(1e-9))),
    ("latency", "latency", Some(Unit::Time(1e-9))),
    ("latency_seconds", "latency", None),
    (
        "one_device_period",
        "period of one device",
        Some(Unit::Time(1e-9)),
    ),
    ("speedup", "speedup over one device", None),
    ("excess_bytes", "beyond the memory", None),
    ("memory_bytes", "memory", None),
    ("peak_bytes", "peak memory", None),
    ("peak_memory_bytes", "peak memory", None),
    ("persistent_bytes", "persistent memory", None),
    (
        "budget_per_device",
        "memory limit of a device",
        Some(Unit::Bytes(1.0)),
    ),
    ("weight_bytes", "weights of the first layer", None),
    ("adamic_adar", "Adamic-Adar", None),
    ("accuracy_interval", "half of the 95 % interval", None),
    ("valid_learnt", "validation triples also learnt from", None),
    ("test_learnt", "test triples also learnt from", None),
    ("valid_unseen", "validation triples of unseen names", None),
    ("test_unseen", "test triples of unseen names", None),
    ("steps_per_s", "steps per second", None),
];

/// The name and unit of a key.
pub(super) fn described(key: &str) -> (String, Unit) {
    let words: Vec<&str> = key.split(['_', '-']).collect();
    let has = |word: &str| words.contains(&word);
    let unit = match () {
        () if has("seconds") => Unit::Time(1.0),
        () if has("ms") => Unit::Time(1e-3),
        () if has("ns") => Unit::Time(1e-9),
        () if has("bytes") => Unit::Bytes(1.0),
        () if has("mib") => Unit::Bytes(f64::from(1 << 20)),
        () if has("share") || has("shares") => Unit::Percent,
        () if has("gbs") => Unit::Suffix(" GB/s"),
        () if has("seed") || has("seeds") || has("index") => Unit::Id,
        () => Unit::Plain,
    };
    if let Some((_, name, own)) = KEYS.iter().find(|(known, ..)| *known == key) {
        return ((*name).to_owned(), own.unwrap_or(unit));
    }
    let word = |word: &&str| {
        let known = WORDS.iter().find(|(known, _)| known == word);
        known.map_or(*word, |(_, name)| name).to_owned()
    };
    let words: Vec<String> = words
        .iter()
        .map(word)
        .filter(|word| !word.is_empty())
        .collect();
    (words.join(" "), unit)
}

pub(super) fn with_unit(number: &Number, unit: Unit) -> String {
    let value = number.as_f64().unwrap_or(f64::NAN);
    match unit {
        Unit::Id => number.to_string(),
        Unit::Percent => format!("{:.1} %", 100.0 * value),
        Unit::Time(seconds) => human_seconds(value * seconds),
        Unit::Bytes(bytes) => human_bytes(value * bytes),
        Unit::Suffix(suffix) => format!("{number}{suffix}"),
        Unit::Plain if number.is_f64() => human_number(value),
        Unit::Plain => separated(&number.to_string()),
    }
}

/// A whole number with a comma before each three digits, from five digits on.
fn separated(digits: &str) -> String {
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |rest| ("-", rest));
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that may have a fraction: four digits behind the point at most, fewer behind large ones.
pub(crate) fn human_number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e15 || (size > 0.0 && size < 1e-3) => format!("{value:.3e}"),
        _ if size >= 1000.0 || (size >= 10.0 && value.fract().abs() <= 0.0) => {
            separated(&format!("{value:.0}"))
        }
        _ if size >= 100.0 => format!("{value:.2}"),
        _ if size >= 10.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// Seconds with the unit that people would take.
fn human_seconds(seconds: f64) -> String {
    const UNITS: [(f64, &str); 6] = [
        (3.6e3, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "us"),
        (1e-9, "ns"),
    ];
    // 100 s and 100 min are nearer to what people say than 1.667 of the next unit.
    let fits = |(size, unit): &&(f64, &str)| {
        seconds
            >= size
                * if matches!(*unit, "h" | "min") {
                    2.0
                } else {
                    1.0
                }
    };
    let (size, unit) = match UNITS.iter().find(fits) {
        Some(found) => *found,
        None if seconds > 0.0 => (1e-9, "ns"),
        None => (1.0, "s"),
    };
    format!("{} {unit}", four_digits(seconds / size))
}

/// Bytes in units of thousands.
fn human_bytes(bytes: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    match UNITS.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{} {unit}", four_digits(bytes / size)),
        None => format!("{bytes:.0} B"),
    }
}

/// Four digits, without zeros at the end of a fraction.
fn four_digits(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_four_digits_and_a_unit() {
        let cases = [
            (0.0, "0 s"),
            (4.2e-7, "420 ns"),
            (6.745e-6, "6.745 us"),
            (1.234e-3, "1.234 ms"),
            (0.0456, "45.6 ms"),
            (12.345, "12.35 s"),
            (119.0, "119 s"),
            (150.0, "2.5 min"),
            (7200.0, "2 h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_seconds(seconds), text);
        }
    }

    #[test]
    fn bytes_and_counts_are_those_that_people_read() {
        for (bytes, text) in [(7.0, "7 B"), (9_504_768.0, "9.505 MB"), (1e9, "1 GB")] {
            assert_eq!(human_bytes(bytes), text);
        }
        for (digits, text) in [("-12", "-12"), ("9999", "9999"), ("1234567", "1,234,567")] {
            assert_eq!(separated(digits), text);
        }
        for (value, text) in [
            (500.0, "500"),
            (12.5, "12.500"),
            (0.25, "0.2500"),
            (0.0, "0.0000"),
            (2e-5, "2.000e-5"),
        ] {
            assert_eq!(human_number(value), text);
        }
    }

    #[test]
    fn names_and_units_follow_from_the_key() {
        for (key, name, unit) in [
            ("load_seconds", "load time", Unit::Time(1.0)),
            ("seconds_per_step", "time per step", Unit::Time(1.0)),
            ("epoch_ms", "epoch time", Unit::Time(1e-3)),
            (
                "received_bytes_per_step",
                "received bytes per step",
                Unit::Bytes(1.0),
            ),
            (
                "env_steps_per_s",
                "environment steps per second",
                Unit::Plain,
            ),
            ("idle_shares", "idle shares", Unit::Percent),
            ("n_right", "right", Unit::Plain),
            ("seeds", "seeds", Unit::Id),
            ("runtime", "runtime", Unit::Time(1e-9)),
        ] {
            assert_eq!(described(key), (name.to_owned(), unit), "{key}");
        }
    }
}
