//! A cost or a size as JSON has it: an integer or a number with a fraction, checked where its owner can be named.

use serde::{Deserialize, Deserializer, de};
use shardgraph_costgraph::{Error, ErrorKind, MAX_TOTAL, whole};
use std::fmt;

/// A number that is not yet checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    Whole(u64),
    Other(f64),
}

impl Default for Amount {
    fn default() -> Amount {
        Amount::Whole(0)
    }
}

impl Amount {
    /// The nearest whole number of nanoseconds or bytes.
    pub(crate) fn whole(self, what: &dyn Fn() -> String) -> Result<u64, Error> {
        match self {
            Amount::Whole(value) if value <= MAX_TOTAL => Ok(value),
            Amount::Whole(value) => Err(Error::new(
                ErrorKind::OutOfRange,
                format!("{} is {value}; it must be a number from 0 to 2^62", what()),
            )),
            Amount::Other(value) => whole(&what(), value),
        }
    }

    /// The same amount in another unit.
    pub(crate) fn scaled(self, factor: f64) -> Amount {
        match self {
            Amount::Whole(value) => Amount::Other(value as f64 * factor),
            Amount::Other(value) => Amount::Other(value * factor),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        from.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl de::Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Amount, E> {
        Ok(Amount::Whole(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Amount, E> {
        Ok(u64::try_from(value).map_or(Amount::Other(value as f64), Amount::Whole))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Amount, E> {
        Ok(Amount::Other(value))
    }
}

/// An error of serde_json with its place: `line` is that of the JSON's first line in the file.
pub(crate) fn json_error(error: &serde_json::Error, file: &str, line: u64) -> Error {
    let text = error.to_string();
    // The place that serde_json appends is that within the JSON, not that within the file.
    let message = text.split(" at line ").next().unwrap_or_default();
    let at_line = line + (error.line() as u64).saturating_sub(1);
    let kind = ErrorKind::Syntax;
    Error::new(kind, message).or_at(file, at_line, error.column() as u64)
}
