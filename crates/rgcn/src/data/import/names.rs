//! Triples of names between tabs or commas: head, relation, tail, as FB15k-237 and WN18RR have
//! them, or columns in any order under a header.

use super::columns::Columns;
use super::lines::Lines;
use super::triples::{Place, Triples};
use crate::Error;

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
