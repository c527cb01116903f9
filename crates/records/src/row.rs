//! A row of a figure: what one point of one series gave.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::statistics::{self, Summary, shown};

/// A number with its name, its unit and all its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name, which carries the unit.
    pub name: String,
    /// Unit, as [`unit_of`] the name.
    pub unit: String,
    /// A number a run.
    pub samples: Vec<f64>,
}

/// A point of a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The line of the figure that it belongs to.
    pub series: String,
    /// Words that tell rows of a series apart, in the order of columns.
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    /// Its place on the axis.
    #[serde(default)]
    pub x: Option<f64>,
    /// What we measured; the first is the one that is drawn.
    #[serde(default)]
    pub values: Vec<Measured>,
    /// What the paper reports here.
    #[serde(default)]
    pub paper: Option<f64>,
    /// What a peer took in the same run; `values` then repeats our number of another series.
    #[serde(default)]
    pub peer: Option<f64>,
    /// Why something is missing, or what to keep in mind.
    #[serde(default)]
    pub note: String,
}

/// Keys of a line that are no labels and no values.
const OWN_KEYS: [&str; 5] = ["series", "x", "paper", "peer", "note"];

impl Measured {
    /// Samples under a name that carries their unit.
    pub fn new(name: &str, samples: Vec<f64>) -> Measured {
        Measured {
            name: name.to_owned(),
            unit: unit_of(name).to_owned(),
            samples,
        }
    }

    /// Lowest, middle and highest sample.
    pub fn summary(&self) -> Option<Summary> {
        statistics::summary(&self.samples)
    }

    /// The middle sample.
    pub fn median(&self) -> Option<f64> {
        self.summary().map(|summary| summary.median)
    }

    /// The median, and of several samples the lowest and the highest.
    pub fn cell(&self) -> String {
        match self.summary() {
            None => "-".to_owned(),
            Some(all) if self.samples.len() == 1 => shown(all.median),
            Some(all) => format!(
                "{} ({} to {})",
                shown(all.median),
                shown(all.min),
                shown(all.max)
            ),
        }
    }
}

impl Row {
    /// A row that did not run.
    pub fn not_run(series: &str, x: Option<f64>, why: &str) -> Row {
        Row {
            series: series.to_owned(),
            x,
            note: why.to_owned(),
            ..Row::default()
        }
    }

    /// Reads a measurement's line. Words are labels, and so are the numbers that `labels` names;
    /// other numbers and lists of numbers are values. `columns` come first, in their order.
    pub fn from_line(line: &Value, labels: &[String], columns: &[String]) -> Row {
        let empty = Map::new();
        let line = line.as_object().unwrap_or(&empty);
        let number = |key: &str| line.get(key).and_then(Value::as_f64);
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut row = Row {
            series: text("series").to_owned(),
            x: number("x"),
            paper: number("paper"),
            peer: number("peer"),
            note: text("note").to_owned(),
            ..Row::default()
        };
        let named = columns.iter().filter_map(|key| line.get_key_value(key));
        let others = line.iter().filter(|(key, _)| !columns.contains(key));
        for (key, value) in named.chain(others) {
            if OWN_KEYS.contains(&key.as_str()) {
                continue;
            }
            match value {
                Value::String(text) => row.labels.push((key.clone(), text.clone())),
                Value::Number(number) if labels.contains(key) => {
                    row.labels.push((key.clone(), number.to_string()));
                }
                Value::Number(_) | Value::Array(_) => {
                    row.values.push(Measured::new(key, numbers(value)));
                }
                _ => {}
            }
        }
        row
    }

    /// Our number at this point.
    pub fn ours(&self) -> Option<f64> {
        self.values.first()?.median()
    }

    /// Our number, unless it is another series' beside a peer's.
    pub fn own(&self) -> Option<f64> {
        self.ours().filter(|_| self.peer.is_none())
    }

    /// The peer's number over ours.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.peer? / self.ours()?;
        ratio.is_finite().then_some(ratio)
    }

    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<&Measured> {
        self.values.iter().find(|value| value.name == name)
    }

    /// Series, labels and x: what a sample of the row is filed under.
    pub fn key(&self) -> String {
        let mut words = vec![self.series.clone()];
        words.extend(
            self.labels
                .iter()
                .map(|(key, text)| format!("{key}={text}")),
        );
        words.extend(self.x.map(|x| format!("x={}", shown(x))));
        words.retain(|word| !word.is_empty());
        words.join(" ").replace(',', ";") // commas part the columns of raw.csv
    }

    /// Series, labels and place on the axis, for people.
    pub fn name(&self) -> String {
        let labels = self.labels.iter().map(|(_, text)| text.clone());
        let mut parts: Vec<String> = std::iter::once(self.series.clone()).chain(labels).collect();
        parts.retain(|part| !part.is_empty());
        parts.extend(self.x.map(|x| format!("at {}", shown(x))));
        parts.join(" · ")
    }

    /// One line for the terminal.
    pub fn in_short(&self) -> String {
        let mut text = self.key();
        for value in &self.values {
            text.push_str(&format!(" {} {}", value.name, value.cell()));
        }
        for (name, value) in [("paper", self.paper), ("peer", self.peer)] {
            if let Some(value) = value {
                text.push_str(&format!(" {name} {}", shown(value)));
            }
        }
        format!("{text} {}", self.note).trim_end().to_owned()
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_f64).collect(),
        value => value.as_f64().into_iter().collect(),
    }
}

/// Names carry their unit: `seconds_per_step`, `peak_rss_bytes`, `frames_per_s`.
pub fn unit_of(name: &str) -> &'static str {
    const UNITS: [(&str, &str); 8] = [
        ("_per_s", "1/s"),
        ("_per_second", "1/s"),
        ("seconds", "s"),
        ("_s", "s"),
        ("bytes", "B"),
        ("_ms", "ms"),
        ("_mib", "MiB"),
        ("_percent", "%"),
    ];
    if name.starts_with("seconds_per_") {
        return "s";
    }
    let found = UNITS.into_iter().find(|(end, _)| name.ends_with(end));
    found.map_or("", |(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_labels_values_and_its_own_keys() {
        let line = json!({"series": "a", "method": "ours, fp16", "threads": 2, "x": 3, "seconds": [1.0, 3.0], "edges": 7});
        let threads = ["threads".to_owned()];
        let row = Row::from_line(&line, &threads, &threads);
        let label = |key: &str, text: &str| (key.to_owned(), text.to_owned());
        assert_eq!(
            row.labels,
            [label("threads", "2"), label("method", "ours, fp16")]
        );
        assert_eq!(row.x, Some(3.0));
        let seconds = row.value("seconds").unwrap();
        assert_eq!((seconds.median(), seconds.unit.as_str()), (Some(2.0), "s"));
        assert_eq!(seconds.cell(), "2 (1 to 3)");
        assert_eq!(row.key(), "a threads=2 method=ours; fp16 x=3");
    }

    #[test]
    fn a_peers_row_is_no_number_of_ours() {
        let row = Row {
            values: vec![Measured::new("seconds", vec![0.5])],
            peer: Some(2.0),
            ..Row::default()
        };
        assert_eq!((row.own(), row.ratio()), (None, Some(4.0)));
    }

    #[test]
    fn names_carry_units() {
        for (name, unit) in [
            ("frames_per_s", "1/s"),
            ("seconds_per_step", "s"),
            ("peak_rss_bytes", "B"),
            ("total_s", "s"),
            ("epoch_ms", "ms"),
            ("objective", ""),
        ] {
            assert_eq!(unit_of(name), unit, "{name}");
        }
    }
}
