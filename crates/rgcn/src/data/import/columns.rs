//! The columns of a table of triples: head, relation and tail, or those that a header names.

use std::borrow::Cow;

use super::fields::fields;
use super::lines::shortened;

const PARTS: [&str; 3] = ["head", "relation", "tail"];

/// Names of the columns of heads, of relations and of tails, by which a header is known. One-letter
/// names are not among them: nodes have such.
const HEADERS: [&[&str]; 3] = [
    &["head", "subject", "source", "src", "from"],
    &["relation", "predicate", "property", "rel", "edge", "type"],
    &["tail", "object", "target", "dst", "to"],
];

/// The places of head, relation and tail in a line.
pub(super) struct Columns {
    separator: char,
    places: [usize; 3],
    n_columns: usize,
}

/// True if the line names a column of heads, one of relations and one of tails.
pub(super) fn is_header(line: &str, separator: char) -> bool {
    Columns::of_header(line, separator).is_some()
}

impl Columns {
    pub(super) fn without_header(separator: char) -> Columns {
        Columns {
            separator,
            places: [0, 1, 2],
            n_columns: 3,
        }
    }

    /// The columns that a line names; `None` for a line that is no header.
    pub(super) fn of_header(line: &str, separator: char) -> Option<Columns> {
        let names: Result<Vec<_>, _> = fields(line, separator).collect();
        let names = names.ok()?;
        let place = |known: &[&str]| {
            let is_known = |name: &Cow<'_, str>| known.iter().any(|k| name.eq_ignore_ascii_case(k));
            let mut found = (0..names.len()).filter(|&idx| is_known(&names[idx]));
            found.next().filter(|_| found.next().is_none())
        };
        let [head, relation, tail] = HEADERS.map(place);
        Some(Columns {
            separator,
            places: [head?, relation?, tail?],
            n_columns: names.len(),
        })
    }

    /// The names of a header's other columns.
    pub(super) fn left_out(&self, header: &str) -> Vec<String> {
        let named = fields(header, self.separator).flatten().enumerate();
        let others = named.filter(|(idx, _)| !self.places.contains(idx));
        others.map(|(_, name)| name.into_owned()).collect()
    }

    /// Head, relation and tail of a line, or the reason against it.
    pub(super) fn names<'l>(&self, line: &'l str) -> Result<[Cow<'l, str>; 3], String> {
        let mut names = [const { Cow::Borrowed("") }; 3];
        let mut n_fields = 0;
        for field in fields(line, self.separator) {
            let field = field?;
            if n_fields == self.n_columns {
                let found = shortened(field.as_bytes());
                return Err(match n_fields {
                    3 => format!("expected three fields, found a fourth: {found}"),
                    n => format!("expected {n} fields, as the header has, found one more: {found}"),
                });
            }
            if let Some(part) = self.places.iter().position(|&place| place == n_fields) {
                names[part] = field;
            }
            n_fields += 1;
        }
        match names.iter().position(|name| name.is_empty()) {
            None if n_fields == self.n_columns => Ok(names),
            None => Err(format!(
                "expected {} fields, as the header has, found {n_fields}",
                self.n_columns
            )),
            Some(part) => Err(format!(
                "the {} is empty: expected head, relation and tail with {} between",
                PARTS[part],
                if self.separator == '\t' {
                    "tabs"
                } else {
                    "commas"
                }
            )),
        }
    }
}
