//! Triples of names between tabs or commas: head, relation, tail, as FB15k-237 and WN18RR have
//! them, or columns in any order under a header.

use super::columns::Columns;
use super::lines::Lines;
use super::triples::{Place, Triples};
use crate::Error;

pub(crate) fn read(triples: &mut Triples, lines: Lines<'_>, separator: char) -> Result<(), Error> {
    let mut columns = None;
    triples.read_text(lines, |triples, text, place| {
        let columns = match &columns {
            Some(columns) => columns,
            None => match Columns::of_header(text, separator) {
                Some(header) => {
                    triples.report.add_header(header.left_out(text));
                    columns = Some(header);
                    return Ok(());
                }
                None => columns.insert(Columns::without_header(separator)),
            },
        };
        match columns.names(text) {
            Ok(names) => {
                triples.report.triples += 1;
                triples.named(names.each_ref().map(|name| &**name), false, place)
            }
            Err(reason) => triples.bad_line(Place { column: 1, ..place }, &reason),
        }
    })
}
