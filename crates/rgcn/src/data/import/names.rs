//! Triples of names between tabs or commas: head, relation, tail, as FB15k-237 and WN18RR have
//! them, or columns in any order under a header.

use std::borrow::Cow;

use super::fields::fields;
use super::lines::{Lines, shortened};
use super::triples::{Place, Triples};
use crate::Error;

const PARTS: [&str; 3] = ["head", "relation", "tail"];

/// Names of the columns of heads, of relations and of tails, by which a header is known. One-letter
/// names are not among them: nodes have such.
const HEADERS: [&[&str]; 3] = [
    &["head", "subject", "source", "src", "from"],
    &["relation", "predicate", "property", "rel", "edge", "type"],
    &["tail", "object", "target", "dst", "to"],
];

/// The places of head, relation and tail in a line.
struct Columns {
    separator: char,
    places: [usize; 3],
    n_columns: usize,
}

pub(crate) fn read(
    triples: &mut Triples,
    mut lines: Lines<'_>,
    separator: char,
) -> Result<(), Error> {
    let mut columns = None;
    while let Some(line) = lines.next_filled()? {
        let at = |column| Place {
            file: line.file,
            line: line.number,
            column,
        };
        let text = match line.text() {
            Ok(text) => text,
            Err(column) => {
                triples.bad_line(at(column), "expected UTF-8, found other bytes")?;
                continue;
            }
        };
        let columns = match &columns {
            Some(columns) => columns,
            None => match Columns::of_header(text, separator) {
                Some(header) => {
                    triples.report.add_header(header.left_out(text));
                    columns = Some(header);
                    continue;
                }
                None => columns.insert(Columns::without_header(separator)),
            },
        };
        match columns.names(text) {
            Ok(names) => {
                triples.report.triples += 1;
                triples.named(names.each_ref().map(|name| &**name), false, at(0))?;
            }
            Err(reason) => triples.bad_line(at(1), &reason)?,
        }
    }
    Ok(())
}

/// True if the line names a column of heads, one of relations and one of tails.
pub(super) fn is_header(line: &str, separator: char) -> bool {
    Columns::of_header(line, separator).is_some()
}

impl Columns {
    fn without_header(separator: char) -> Columns {
        Columns {
            separator,
            places: [0, 1, 2],
            n_columns: 3,
        }
    }

    /// The columns that a line names; `None` for a line that is no header.
    fn of_header(line: &str, separator: char) -> Option<Columns> {
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
    fn left_out(&self, header: &str) -> Vec<String> {
        let named = fields(header, self.separator).flatten().enumerate();
        let others = named.filter(|(idx, _)| !self.places.contains(idx));
        others.map(|(_, name)| name.into_owned()).collect()
    }

    /// Head, relation and tail of a line, or the reason against it.
    fn names<'l>(&self, line: &'l str) -> Result<[Cow<'l, str>; 3], String> {
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
