//! `head<TAB>relation<TAB>tail` as text, the form of FB15k-237 and WN18RR.

use super::lines::{Lines, shortened};
use super::triples::{Place, Triples};
use crate::Error;

pub(crate) fn read(triples: &mut Triples, mut lines: Lines<'_>) -> Result<(), Error> {
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
        let mut fields = text.split('\t');
        let names = [fields.next(), fields.next(), fields.next()];
        let names = names.map(|name| name.unwrap_or_default().trim());
        let parts = ["head", "relation", "tail"];
        let reason = match names.iter().position(|name| name.is_empty()) {
            Some(idx) => format!(
                "the {} is empty: expected `head<TAB>relation<TAB>tail`",
                parts[idx]
            ),
            None => match fields.next() {
                Some(more) => format!(
                    "expected three fields between tabs, found a fourth: {}",
                    shortened(more.as_bytes())
                ),
                None => {
                    triples.report.triples += 1;
                    triples.named(names, false, at(0))?;
                    continue;
                }
            },
        };
        triples.bad_line(at(1), &reason)?;
    }
    Ok(())
}
