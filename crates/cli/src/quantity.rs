//! The values of flags that carry a unit: bytes, gigabytes a second.

/// Bytes, such as `16GiB`, `1.5GB` or `4096`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 10] = [
        ("", 1),
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let expected = "bytes as a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB behind it";
    scaled(text, &UNITS, expected)
}

/// Gigabytes (10^9) a second: a number above 0, or `inf`.
pub(crate) fn gigabytes_per_s(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0);
    number.ok_or_else(|| format!("expected gigabytes a second, a number above 0, found `{text}`"))
}

/// The number before a unit, whatever the unit's case, times the unit.
fn scaled(text: &str, units: &[(&str, u64)], expected: &str) -> Result<u64, String> {
    let wrong = || format!("expected {expected}, found `{text}`");
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let is_unit = |(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit.trim());
    let (_, unit) = units.iter().find(is_unit).ok_or_else(wrong)?;
    // Whole numbers stay exact.
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*unit).ok_or_else(wrong);
    }
    let product = number.parse::<f64>().map_err(|_| wrong())? * *unit as f64;
    match product < u64::MAX as f64 {
        true => Ok(product.round() as u64),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_multiply() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("16GiB", 16 << 30),
            ("16 gib", 16 << 30),
            ("1.5KB", 1500),
            (".5B", 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        assert_eq!(gigabytes_per_s("12.5"), Ok(12.5));
        assert_eq!(gigabytes_per_s("inf"), Ok(f64::INFINITY));
    }

    #[test]
    fn what_is_no_quantity_is_told_what_is() {
        for text in [
            "",
            "GiB",
            "-1",
            "1e9",
            "nan",
            "16 G",
            "1.2.3",
            "20000000TiB",
            "18446744073709551616",
        ] {
            let message = bytes(text).unwrap_err();
            assert!(message.contains("GiB or TiB"), "{message}");
        }
        for text in ["0", "-1", "NaN", "fast"] {
            assert!(gigabytes_per_s(text).is_err(), "{text}");
        }
    }
}
