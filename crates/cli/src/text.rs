//! Text of an answer, made from what is serialised: the number that was asked for, then names and
//! values in two columns, then lists as tables. Names and units follow from the keys.

mod units;

use std::fmt::Display;
use std::io::{self, IsTerminal as _};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Number;

pub(crate) use self::units::{Unit, human_number};
use self::units::{described, with_unit};

/// What the text of an answer has beside its keys, or without them.
#[derive(Default)]
pub(crate) struct Layout<'a> {
    /// First line, without an end.
    pub(crate) headline: Option<String>,
    /// Key that stands first.
    pub(crate) first: &'a str,
    /// Keys that only JSON has.
    pub(crate) hidden: Vec<&'a str>,
    /// Units of keys that their names do not tell.
    pub(crate) units: &'a [(&'a str, Unit)],
    /// Last lines, with their ends.
    pub(crate) below: String,
}

impl<'a> Layout<'a> {
    /// Of an answer whose most important value has this key.
    pub(crate) fn first(first: &'a str) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }
}

/// Lists and objects that only JSON has, in every answer; some commands show them below it.
const HIDDEN: [&str; 6] = [
    "settings",
    "config",
    "import",
    "confusion",
    "runs",
    "solution",
];

/// Lists of objects that are one thing together, and one cell of a table.
const JOINED: [&str; 1] = ["components"];

/// Objects that are one line.
const LINES: [&str; 4] = ["links", "costs", "busiest_link", "critical_path"];

/// A column of words that is cut to fit the terminal keeps this width.
const NARROWEST: usize = 12;

/// Longest list that is shown whole.
const MAX_ITEMS: usize = 12;

/// A serialised value; keys keep their order.
#[derive(Deserialize)]
#[serde(untagged)]
enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Keys),
}

type Keys = IndexMap<String, Node>;

/// The text of an answer; every line has an end.
pub(crate) fn render(answer: &impl Serialize, layout: &Layout<'_>) -> anyhow::Result<String> {
    // Text is the form in which keys keep their order whatever serialises them.
    let mut keys: Keys = serde_json::from_str(&serde_json::to_string(answer)?)?;
    keys.retain(|key, _| !layout.hidden.contains(&key.as_str()));
    if let Some(at) = keys.get_index_of(layout.first) {
        keys.move_index(at, 0);
    }
    if let Some(Node::Null) = keys.get(layout.first) {
        keys.insert(layout.first.to_owned(), Node::Text("none".to_owned()));
    }
    let mut text = String::new();
    if let Some(headline) = &layout.headline {
        text = format!("{}\n", printable(headline));
    }
    let writer = Writer {
        units: layout.units,
    };
    writer.section(&keys, 0, &mut text);
    Ok(text + &layout.below)
}

/// Keys of settings that stand in an answer beside its own, but for those that a text shows.
pub(crate) fn settings(config: &impl Serialize) -> anyhow::Result<Vec<String>> {
    let keys: Keys = serde_json::from_str(&serde_json::to_string(config)?)?;
    let is_shown = |key: &str| ["mode", "seed", "threads"].contains(&key);
    Ok(keys.into_keys().filter(|key| !is_shown(key)).collect())
}

/// What reading a file dropped and merged.
pub(crate) fn reading(import: Option<&impl Display>) -> String {
    let report = import.map(ToString::to_string).unwrap_or_default();
    let lines: String = report.lines().map(|line| format!("  {line}\n")).collect();
    match lines.is_empty() {
        true => lines,
        false => format!("input\n{lines}"),
    }
}

/// A line for a terminal: characters of a file that end lines, move the cursor or turn the direction
/// of writing are escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => line.extend(c.escape_debug()),
            _ if c.is_control() => line.extend(c.escape_debug()),
            _ => line.push(c),
        }
    }
    line
}

/// A table with a header: aligned columns, those of numbers at their right.
pub(crate) fn table(rows: &[Vec<String>], indent: usize, out: &mut String) {
    columns(rows, true, indent, out);
}

fn columns(rows: &[Vec<String>], has_header: bool, indent: usize, out: &mut String) {
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let of = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let shape = |column: usize| {
        let cells = || rows.iter().map(move |row| of(row, column));
        let width = cells().map(|cell| cell.chars().count()).max();
        let mut body = cells().skip(1).filter(|cell| !cell.is_empty());
        let is_right = has_header && column > 0 && body.all(|cell| is_number(&cell));
        (width.unwrap_or(0), is_right)
    };
    let mut shapes: Vec<(usize, bool)> = (0..n_columns).map(shape).collect();
    if let Some(width) = terminal_width().filter(|_| has_header) {
        fit(&mut shapes, width.saturating_sub(indent));
    }
    for row in rows {
        let mut line = " ".repeat(indent);
        for (column, &(width, is_right)) in shapes.iter().enumerate() {
            let cell = cut(of(row, column), width);
            line += &match is_right {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Columns of the terminal that an answer is printed on; none for a file or a pipe.
fn terminal_width() -> Option<usize> {
    let size = io::stdout()
        .is_terminal()
        .then(terminal_size::terminal_size);
    size.flatten().map(|(width, _)| usize::from(width.0))
}

/// Narrows columns of words, the widest first, until a row fits.
fn fit(shapes: &mut [(usize, bool)], width: usize) {
    let total = |shapes: &[(usize, bool)]| shapes.iter().map(|(width, _)| width + 2).sum::<usize>();
    while total(shapes) > width + 2 {
        let excess = total(shapes) - width - 2;
        let words = shapes
            .iter_mut()
            .filter(|(width, is_right)| !is_right && *width > NARROWEST);
        let Some((widest, _)) = words.max_by_key(|(width, _)| *width) else {
            return;
        };
        *widest = widest.saturating_sub(excess).max(NARROWEST);
    }
}

/// The cell, or as much of it as fits.
fn cut(cell: String, width: usize) -> String {
    match cell.chars().count() > width {
        true => cell.chars().take(width - 1).chain(['…']).collect(),
        false => cell,
    }
}

/// Writes values with their names and units.
struct Writer<'a> {
    units: &'a [(&'a str, Unit)],
}

impl Writer<'_> {
    /// Values in two columns, then what has parts.
    fn section(&self, keys: &Keys, indent: usize, out: &mut String) {
        let shown = keys.iter().filter(|(key, node)| node.is_shown(key));
        let is_line =
            |(key, node): &(&String, &Node)| node.is_flat() || LINES.contains(&key.as_str());
        let (flat, nested): (Vec<_>, Vec<_>) = shown.partition(is_line);
        let line = |(key, node): (&String, &Node)| vec![described(key).0, self.cell(key, node)];
        let lines: Vec<Vec<String>> = flat.into_iter().map(line).collect();
        columns(&lines, false, indent, out);
        // Values of one shape in a row are one table.
        for group in nested.chunk_by(|(_, one), (_, next)| one.has_shape_of(next)) {
            match group {
                [(key, node)] => self.block(key, node, indent, out),
                _ => self.named_rows("", group, indent, out),
            }
        }
    }

    /// What has parts, below its name.
    fn block(&self, key: &str, node: &Node, indent: usize, out: &mut String) {
        let name = described(key).0;
        let title = format!("{}{name}\n", " ".repeat(indent));
        match node {
            Node::Map(keys)
                if keys
                    .iter()
                    .all(|(key, node)| !node.is_shown(key) || node.is_row()) =>
            {
                let rows: Vec<(&String, &Node)> = keys.iter().collect();
                self.named_rows(&name, &rows, indent, out);
            }
            Node::Map(keys) => {
                out.push_str(&title);
                self.section(keys, indent + 2, out);
            }
            Node::List(items) if items.iter().all(Node::is_row) => {
                out.push_str(&title);
                let rows: Vec<(&str, &Node)> = items.iter().map(|item| ("", item)).collect();
                self.table("", &rows, indent + 2, out);
            }
            Node::List(items) => {
                out.push_str(&title);
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push('\n');
                    }
                    match item {
                        Node::Map(keys) => self.section(keys, indent + 2, out),
                        other => columns(&[vec![self.cell(key, other)]], false, indent + 2, out),
                    }
                }
            }
            _ => {}
        }
    }

    /// A table whose rows have names.
    fn named_rows(&self, title: &str, rows: &[(&String, &Node)], indent: usize, out: &mut String) {
        let named = rows.iter().filter(|(key, node)| node.is_shown(key));
        let indent_of_names = if title.is_empty() { "" } else { "  " };
        let name = |key: &str| format!("{indent_of_names}{}", described(key).0);
        let names: Vec<(String, &Node)> = named.map(|(key, node)| (name(key), *node)).collect();
        let rows: Vec<(&str, &Node)> = names
            .iter()
            .map(|(name, node)| (name.as_str(), *node))
            .collect();
        self.table(title, &rows, indent, out);
    }

    /// A table with a header; columns are those of any row. Rows may have names.
    fn table(&self, title: &str, rows: &[(&str, &Node)], indent: usize, out: &mut String) {
        let has_names = rows.iter().any(|(name, _)| !name.is_empty());
        let cells: Vec<IndexMap<String, String>> =
            rows.iter().map(|(_, node)| self.cells(node)).collect();
        let mut header: Vec<String> = Vec::new();
        for name in cells.iter().flat_map(IndexMap::keys) {
            if !header.contains(name) {
                header.push(name.clone());
            }
        }
        let row = |(index, cells): (usize, &IndexMap<String, String>)| {
            let name = has_names.then(|| rows[index].0.to_owned());
            let values = header
                .iter()
                .map(|name| cells.get(name).cloned().unwrap_or_default());
            name.into_iter().chain(values).collect::<Vec<String>>()
        };
        let body: Vec<Vec<String>> = cells.iter().enumerate().map(row).collect();
        let head = has_names.then(|| title.to_owned()).into_iter();
        let head: Vec<String> = head.chain(header.iter().cloned()).collect();
        table(&[vec![head], body].concat(), indent, out);
    }

    /// The cells of a row by their names; what is one level down stands beside the rest.
    fn cells(&self, row: &Node) -> IndexMap<String, String> {
        let mut cells = IndexMap::new();
        let Node::Map(keys) = row else {
            return cells;
        };
        for (key, node) in keys.iter().filter(|(key, node)| node.is_shown(key)) {
            match node {
                Node::Map(inner) => {
                    for (name, node) in inner.iter().filter(|(_, node)| !node.is_empty()) {
                        let mut label = described(name).0;
                        if cells.contains_key(&label) {
                            label = format!("{} {label}", described(key).0);
                        }
                        cells.insert(label, self.cell(name, node));
                    }
                }
                _ => {
                    cells.insert(described(key).0, self.cell(key, node));
                }
            }
        }
        cells
    }

    /// A value in a line.
    fn cell(&self, key: &str, node: &Node) -> String {
        match node {
            Node::Null => String::new(),
            Node::Bool(true) => "yes".to_owned(),
            Node::Bool(false) => "no".to_owned(),
            Node::Text(text) => printable(text),
            Node::Number(number) => {
                let own = self.units.iter().find(|(known, _)| *known == key);
                with_unit(
                    number,
                    own.map_or_else(|| described(key).1, |(_, unit)| *unit),
                )
            }
            Node::Map(keys) => {
                let shown = keys
                    .iter()
                    .filter(|(_, node)| !node.is_empty() && !node.is_no());
                // A word tells itself what it is.
                let part = |(key, node): (&String, &Node)| match node {
                    Node::Text(text) => printable(text),
                    _ => format!("{} {}", described(key).0, self.cell(key, node)),
                };
                shown.map(part).collect::<Vec<String>>().join(", ")
            }
            Node::List(items) => {
                let shown = items.iter().take(MAX_ITEMS);
                let mut parts: Vec<String> = shown.map(|item| self.cell(key, item)).collect();
                if items.len() > MAX_ITEMS {
                    parts.push(format!("... ({} in all)", items.len()));
                }
                let is_composed = items.iter().any(|item| matches!(item, Node::Map(_)));
                parts.join(if is_composed { " + " } else { ", " })
            }
        }
    }
}

impl Node {
    /// Nothing to show.
    fn is_empty(&self) -> bool {
        match self {
            Node::Null => true,
            Node::Text(text) => text.is_empty(),
            Node::List(items) => items.is_empty(),
            Node::Map(keys) => keys.values().all(Node::is_empty),
            Node::Bool(_) | Node::Number(_) => false,
        }
    }

    /// What a line of several values leaves out.
    fn is_no(&self) -> bool {
        match self {
            Node::Bool(is_true) => !is_true,
            Node::Number(number) => number.as_f64() == Some(0.0),
            _ => false,
        }
    }

    /// Whether text has it, under this key.
    fn is_shown(&self, key: &str) -> bool {
        let is_for_json = self.has_parts() && HIDDEN.contains(&key);
        !is_for_json && !self.is_empty()
    }

    /// One value, or a list of such.
    fn is_flat(&self) -> bool {
        match self {
            Node::List(items) => items.iter().all(|item| !item.has_parts()),
            other => !other.has_parts(),
        }
    }

    fn has_parts(&self) -> bool {
        matches!(self, Node::List(_) | Node::Map(_))
    }

    /// Values that fit in a row of a table.
    fn is_row(&self) -> bool {
        let fits = |key: &str, node: &Node| match node {
            Node::Map(keys) => keys.values().all(Node::is_flat),
            Node::List(_) => node.is_flat() || JOINED.contains(&key),
            _ => true,
        };
        match self {
            Node::Map(keys) => keys
                .iter()
                .all(|(key, node)| !node.is_shown(key) || fits(key, node)),
            _ => false,
        }
    }

    /// Whether both are rows with the same keys.
    fn has_shape_of(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Map(one), Node::Map(other)) => self.is_row() && one.keys().eq(other.keys()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_of_words_give_way_to_the_terminal() {
        let fitted = |widths: &[(usize, bool)], width: usize| {
            let mut shapes = widths.to_vec();
            fit(&mut shapes, width);
            shapes.iter().map(|(width, _)| *width).collect::<Vec<_>>()
        };
        assert_eq!(fitted(&[(40, false), (10, true)], 52), [40, 10]);
        assert_eq!(fitted(&[(40, false), (10, true)], 42), [30, 10]);
        assert_eq!(
            fitted(&[(40, false), (30, false), (10, true)], 60),
            [16, 30, 10]
        );
        assert_eq!(fitted(&[(20, false), (90, true)], 60), [12, 90]);
        assert_eq!(
            (cut("abcdef".into(), 4), cut("äöü".into(), 3)),
            ("abc…".into(), "äöü".into())
        );
    }

    #[test]
    fn a_text_has_the_number_first_then_lines_then_tables() {
        #[derive(Serialize)]
        struct Answer {
            graph: &'static str,
            edges: u64,
            ok: bool,
            missing: Option<u64>,
            rows: serde_json::Value,
            mean_auc: f64,
            train: serde_json::Value,
            test: serde_json::Value,
        }
        let answer = Answer {
            graph: "a\nb",
            edges: 12345,
            ok: true,
            missing: None,
            rows: json!([{"name": "x", "score": {"auc": 0.5}}, {"name": "longer", "score": {"auc": 10.25}}]),
            mean_auc: 0.5,
            train: json!({"seconds": 0.5}),
            test: json!({"seconds": 12}),
        };
        let layout = Layout {
            below: "end\n".to_owned(),
            ..Layout::first("mean_auc")
        };
        let expected = "\
mean AUC  0.5000
graph     a\\nb
edges     12,345
ok        yes
rows
  name       AUC
  x       0.5000
  longer  10.250
         time
train  500 ms
test     12 s
end
";
        assert_eq!(render(&answer, &layout).unwrap(), expected);
    }

    #[test]
    fn a_number_that_stands_first_and_is_none_is_said_to_be() {
        let text = render(&json!({"a": 1, "loss": null}), &Layout::first("loss")).unwrap();
        assert_eq!(text, "loss  none\na     1\n");
    }
}
