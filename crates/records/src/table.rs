//! Rows as Markdown tables: rows that have the same columns stand in one table.

use std::collections::BTreeSet;

use crate::row::Row;
use crate::statistics::shown;

/// What the figure calls its axis, its number and its peer.
#[derive(Clone, Debug)]
pub struct Heads<'a> {
    /// The axis.
    pub x: &'a str,
    /// The first number of a row.
    pub y: &'a str,
    /// The peer.
    pub peer: &'a str,
}

/// The label that is a heading above its table in place of a column.
const HEADING: &str = "table";

/// All tables of a figure.
pub fn tables(rows: &[Row], heads: &Heads<'_>) -> String {
    let mut text = String::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let shape = Shape::of(first);
        let n = rest
            .iter()
            .take_while(|row| shape.fits(&Shape::of(row)))
            .count();
        let (group, after) = rest.split_at(n.max(1));
        text.push_str(&table(group, heads));
        rest = after;
    }
    text
}

/// The columns of a row.
#[derive(PartialEq)]
struct Shape {
    heading: Option<String>,
    labels: Vec<String>,
    values: BTreeSet<String>,
}

impl Shape {
    fn of(row: &Row) -> Shape {
        let labels = row.labels.iter();
        Shape {
            heading: heading(row).map(str::to_owned),
            labels: labels
                .map(|(key, _)| key.clone())
                .filter(|key| key != HEADING)
                .collect(),
            values: row.values.iter().map(|value| value.name.clone()).collect(),
        }
    }

    /// Whether another row belongs into the table; one that did not run belongs everywhere.
    fn fits(&self, other: &Shape) -> bool {
        let is_empty = |shape: &Shape| shape.values.is_empty() && shape.labels.is_empty();
        self.heading == other.heading
            && (is_empty(self)
                || is_empty(other)
                || self.labels == other.labels
                    && (other.values.is_subset(&self.values)
                        || self.values.is_subset(&other.values)))
    }
}

fn heading(row: &Row) -> Option<&str> {
    let (_, text) = row.labels.iter().find(|(key, _)| key == HEADING)?;
    Some(text)
}

fn table(rows: &[Row], heads: &Heads<'_>) -> String {
    let names = columns(rows.iter().flat_map(|row| &row.labels), |(key, _)| key);
    let names: Vec<&str> = names.into_iter().filter(|name| *name != HEADING).collect();
    let values = columns(rows.iter().flat_map(|row| &row.values), |value| &value.name);
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    let mut column = |head: &str, cell: &dyn Fn(&Row) -> String| {
        let cells: Vec<String> = rows.iter().map(cell).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            columns.push((head.to_owned(), cells));
        }
    };
    let number = |value: Option<f64>| value.map_or(String::new(), shown);
    column("series", &|row| row.series.clone());
    column(or(heads.x, "x"), &|row| number(row.x));
    for name in names {
        column(name, &|row| label(row, name));
    }
    column("paper", &|row| number(row.paper));
    for (i, name) in values.iter().enumerate() {
        let head = match i == 0 && values.len() == 1 {
            true => or(heads.y, name),
            false => name,
        };
        column(head, &|row| match row.value(name) {
            Some(value) => value.cell(),
            None if row.values.is_empty() => "not run".to_owned(),
            None => String::new(),
        });
    }
    column(heads.peer, &|row| number(row.peer));
    column("peer / ours", &|row| number(row.ratio()));
    column("note", &|row| row.note.clone());
    let title = rows.first().and_then(heading);
    markdown(title, &columns, rows.len())
}

/// Names in the order in which they come first.
fn columns<'r, T: 'r>(
    all: impl Iterator<Item = &'r T>,
    name: impl Fn(&'r T) -> &'r String,
) -> Vec<&'r str> {
    let mut found: Vec<&str> = Vec::new();
    for item in all {
        let name = name(item).as_str();
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn label(row: &Row, name: &str) -> String {
    let found = row.labels.iter().find(|(key, _)| key == name);
    found.map_or(String::new(), |(_, text)| text.clone())
}

fn or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

fn markdown(title: Option<&str>, columns: &[(String, Vec<String>)], n_rows: usize) -> String {
    let mut text = title.map_or(String::new(), |title| format!("### {title}\n\n"));
    let heads: Vec<&str> = columns.iter().map(|(head, _)| head.as_str()).collect();
    text.push_str(&format!("| {} |\n", heads.join(" | ")));
    text.push_str(&format!("|{}\n", "---|".repeat(columns.len())));
    for at in 0..n_rows {
        let cells: Vec<&str> = columns
            .iter()
            .map(|(_, cells)| cells[at].as_str())
            .collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Measured;

    const HEADS: Heads<'static> = Heads {
        x: "ranks",
        y: "seconds of a step",
        peer: "PyTorch",
    };

    fn row(series: &str, x: f64, seconds: Option<f64>) -> Row {
        Row {
            series: series.to_owned(),
            x: Some(x),
            values: seconds
                .map(|s| Measured::new("seconds", vec![s]))
                .into_iter()
                .collect(),
            ..Row::default()
        }
    }

    #[test]
    fn a_row_that_did_not_run_says_so_in_its_table() {
        let mut absent = row("b", 2.0, None);
        absent.note = "not run: data absent".to_owned();
        let text = tables(&[row("a", 1.0, Some(2.0)), absent], &HEADS);
        assert!(
            text.starts_with("| series | ranks | seconds of a step | note |\n"),
            "{text}"
        );
        assert!(
            text.contains("| b | 2 | not run | not run: data absent |"),
            "{text}"
        );
    }

    #[test]
    fn peers_stand_beside_our_numbers() {
        let mut peer = row("p", 1.0, Some(2.0));
        peer.peer = Some(8.0);
        let text = tables(&[row("a", 1.0, Some(2.0)), peer], &HEADS);
        assert!(text.contains("| p | 1 | 2 | 8 | 4 |"), "{text}");
        assert!(text.contains("| PyTorch | peer / ours |"), "{text}");
    }

    #[test]
    fn other_columns_are_another_table() {
        let other = Row {
            labels: vec![
                ("table".to_owned(), "T".to_owned()),
                ("graph".to_owned(), "g".to_owned()),
            ],
            values: vec![Measured::new("auc", vec![0.5, 0.7])],
            ..Row::default()
        };
        let text = tables(&[row("a", 1.0, Some(2.0)), other], &HEADS);
        assert!(
            text.contains("### T\n\n| graph | seconds of a step |"),
            "{text}"
        );
        assert!(text.contains("| g | 0.6000 (0.5000 to 0.7000) |"), "{text}");
    }
}
