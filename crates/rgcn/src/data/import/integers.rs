//! Triples of numbers: `subject, relation, object` between commas, and OpenKE's files of ids.

use super::lines::{Line, Lines, shortened};
use super::ntriples::BadLine;
use super::triples::{Place, Triples};
use crate::Error;

/// `subject, relation, object`, blanks around the commas or not.
pub(crate) fn read_csv(triples: &mut Triples, mut lines: Lines<'_>) -> Result<(), Error> {
    while let Some(line) = lines.next_filled()? {
        match ids(line.bytes, |b| b == b',') {
            Ok(ids) => add(triples, ids, line)?,
            Err(bad) => triples.bad_line(place(line, bad.column), &bad.reason)?,
        }
    }
    Ok(())
}

/// A count, then as many lines `head tail relation`.
pub(crate) fn read_openke(triples: &mut Triples, mut lines: Lines<'_>) -> Result<(), Error> {
    let Some(line) = lines.next_filled()? else {
        return Ok(());
    };
    let count = whole(line.bytes.trim_ascii()).ok_or_else(|| {
        let found = shortened(line.bytes);
        let reason =
            format!("expected the number of triples alone on the first line, found {found}");
        line.error(Error::Graph, 1, reason)
    })?;
    let mut n_lines = 0;
    while let Some(line) = lines.next_filled()? {
        n_lines += 1;
        match ids(line.bytes, |b| b == b' ' || b == b'\t') {
            Ok([head, tail, relation]) => {
                add(triples, [head, relation, tail], line)?;
            }
            Err(bad) => triples.bad_line(place(line, bad.column), &bad.reason)?,
        }
    }
    if n_lines == u64::from(count) {
        return Ok(());
    }
    let reason = format!("the first line promises {count} triples, the file has {n_lines}");
    Err(Error::at(
        Error::Graph,
        lines.file(),
        lines.number(),
        0,
        &reason,
    ))
}

fn add(triples: &mut Triples, ids: [u32; 3], line: Line<'_>) -> Result<(), Error> {
    triples.report.triples += 1;
    triples.numbered(ids, place(line, 0))
}

fn place(line: Line<'_>, column: usize) -> Place<'_> {
    Place {
        file: line.file,
        line: line.number,
        column,
    }
}

/// Three whole numbers; several blanks between two of them count as one.
fn ids(line: &[u8], is_separator: impl Fn(u8) -> bool) -> Result<[u32; 3], BadLine> {
    let is_comma = is_separator(b',');
    let mut ids = [0; 3];
    let mut n_fields = 0;
    for field in line.split(|&b| is_separator(b)) {
        let bytes = field.trim_ascii();
        if bytes.is_empty() && !is_comma {
            continue;
        }
        let column = field.as_ptr() as usize - line.as_ptr() as usize + 1;
        let bad = |reason: String| Err(BadLine { column, reason });
        if n_fields == 3 {
            let found = shortened(bytes);
            return bad(format!("expected three ids, found a fourth field {found}"));
        }
        match whole(bytes) {
            Some(id) => ids[n_fields] = id,
            None => {
                let found = shortened(bytes);
                let is_name = is_comma && bytes.iter().any(u8::is_ascii_alphabetic);
                let hint = match is_name {
                    true => " (a file of names is of the format csv: say so)",
                    false => "",
                };
                return bad(format!(
                    "expected an id from 0 to {}, found {found}{hint}",
                    u32::MAX
                ));
            }
        }
        n_fields += 1;
    }
    match n_fields {
        3 => Ok(ids),
        n => Err(BadLine {
            column: line.len() + 1,
            reason: format!("expected three ids, found {n}"),
        }),
    }
}

/// Digits only, below 2^32.
pub(super) fn whole(field: &[u8]) -> Option<u32> {
    let is_number = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(field).ok().filter(|_| is_number)?;
    text.parse().ok()
}
