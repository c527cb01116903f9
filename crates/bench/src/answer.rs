//! What a run of the binary printed, read back: its JSON object and its `METRIC:` lines.

use anyhow::{Context as _, Result, bail, ensure};

use serde_json::{Map, Value};
use toml::Table;

use crate::row::unit_of;

/// A number with its name and unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Metric {
    pub(crate) fn new(name: &str, value: f64, unit: &str) -> Metric {
        Metric {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
        }
    }
}

/// The fields and numbers of one run.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    fields: Map<String, Value>,
    pub(crate) metrics: Vec<Metric>,
}

impl Answer {
    /// Reads standard output: `METRIC:name:value:unit` lines, and the rest as one JSON object if it
    /// begins like one. Every number of that object is a metric too, and so are those of its only
    /// answer where it holds a list `answers` of one.
    pub(crate) fn parse(stdout: &str) -> Result<Answer> {
        let mut answer = Answer::default();
        let mut rest = String::new();
        for line in stdout.lines() {
            match line.strip_prefix("METRIC:") {
                Some(metric) => answer.metrics.push(parse_metric(metric)?),
                None => rest.extend([line, "\n"]),
            }
        }
        if rest.trim_start().starts_with('{')
            && let Value::Object(mut fields) =
                serde_json::from_str(&rest).context("the answer's JSON")?
        {
            if let Some([Value::Object(only)]) = fields
                .get("answers")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
            {
                fields.extend(only.clone());
            }
            let numbers = fields
                .iter()
                .filter_map(|(name, value)| Some((name, value.as_f64()?)));
            answer
                .metrics
                .extend(numbers.map(|(name, value)| Metric::new(name, value, unit_of(name))));
            answer.fields = fields;
        }
        Ok(answer)
    }

    /// Adds a number that was measured from outside.
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        self.metrics.push(Metric::new(name, value, unit_of(name)));
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        let metric = self.metrics.iter().find(|metric| metric.name == name);
        Ok(metric
            .with_context(|| format!("the answer has no number `{name}`"))?
            .value)
    }

    /// The number at a path `a.b`, or the largest of a list there.
    pub(crate) fn largest(&self, path: &str) -> Option<f64> {
        let mut names = path.split('.');
        let first = self.field(names.next()?);
        let found = names.fold(first, |value, name| value?.get(name))?;
        match found.as_array() {
            None => found.as_f64(),
            Some(items) => items.iter().filter_map(Value::as_f64).reduce(f64::max),
        }
    }

    /// Every field of `expected` has exactly that value in the answer.
    pub(crate) fn check_fields(&self, expected: &Table) -> Result<()> {
        for (name, wanted) in expected {
            let Some(found) = self.field(name) else {
                bail!("the answer has no `{name}`");
            };
            ensure!(
                is_same(found, wanted),
                "`{name}` is {found}, not {wanted:?}"
            );
        }
        Ok(())
    }

    /// Every number of `limits` is not exceeded in the answer.
    pub(crate) fn check_limits(&self, limits: &Table) -> Result<()> {
        for (name, limit) in limits {
            let limit =
                number(limit).with_context(|| format!("the limit of `{name}` is no number"))?;
            let found = self.number(name)?;
            ensure!(found <= limit, "`{name}` is {found}, over {limit}");
        }
        Ok(())
    }
}

/// Reads what follows `METRIC:`.
pub(crate) fn parse_metric(text: &str) -> Result<Metric> {
    let parts: Vec<&str> = text.trim_end().split(':').collect();
    let [name, value, unit] = parts[..] else {
        bail!("expected METRIC:name:value:unit, found METRIC:{text}");
    };
    let value = value
        .parse()
        .with_context(|| format!("METRIC:{text}: the value is no number"))?;
    Ok(Metric::new(name, value, unit))
}

fn is_same(found: &Value, wanted: &toml::Value) -> bool {
    match (found, wanted) {
        (Value::Bool(found), toml::Value::Boolean(wanted)) => found == wanted,
        (Value::String(found), toml::Value::String(wanted)) => found == wanted,
        (Value::Number(found), wanted) => number(wanted)
            .zip(found.as_f64())
            .is_some_and(|(wanted, found)| wanted.total_cmp(&found).is_eq()),
        _ => false,
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    value
        .as_float()
        .or_else(|| Some(value.as_integer()? as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STDOUT: &str = "METRIC:rate_gbs:12.5:GB/s\n{\"verified\": true, \"seconds\": 0.5, \"objective\": 14,\n\
        \"path\": \"collapsed\"}\n";

    #[test]
    fn reads_metrics_and_fields() {
        let answer = Answer::parse(STDOUT).unwrap();
        assert_eq!(answer.metrics[0], Metric::new("rate_gbs", 12.5, "GB/s"));
        assert!(answer.metrics.contains(&Metric::new("seconds", 0.5, "s")));
        assert_eq!(answer.field("path").unwrap().as_str(), Some("collapsed"));
        assert!(answer.number("verified").is_err());
    }

    #[test]
    fn text_without_json_is_no_error_but_broken_json_is() {
        assert!(Answer::parse("verified yes\n").unwrap().metrics.is_empty());
        assert!(Answer::parse("{\"a\": \n").is_err());
        assert!(Answer::parse("METRIC:a:b\n").is_err());
        assert!(Answer::parse("METRIC:a:fast:s\n").is_err());
    }

    #[test]
    fn checks_can_fail() {
        let answer = Answer::parse(STDOUT).unwrap();
        let fields = |text: &str| answer.check_fields(&text.parse().unwrap());
        assert!(fields("verified = true\nobjective = 14\npath = 'collapsed'").is_ok());
        for bad in [
            "verified = false",
            "objective = 13",
            "path = 'general'",
            "absent = 1",
            "verified = 1",
        ] {
            assert!(fields(bad).is_err(), "{bad}");
        }
        let limits = |text: &str| answer.check_limits(&text.parse().unwrap());
        assert!(limits("objective = 14\nseconds = 0.5").is_ok());
        for bad in ["objective = 13", "absent = 1", "objective = 'x'"] {
            assert!(limits(bad).is_err(), "{bad}");
        }
    }
}
