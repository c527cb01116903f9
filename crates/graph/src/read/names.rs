//! The two ids of an edge where they are names: between commas or tabs with blanks inside, or in quotes.
//!
//! A line with a comma outside of quotes is cut at its commas, and else one with a tab at its tabs, so that
//! `Anna Lee,Bob` joins two nodes. Blanks around a name do not count. Quotes around a name go, and
//! a name in quotes may hold commas. Lines of numbers never come here: in those blanks and commas mean the same.

use super::{
    fields::{Field, is_blank},
    lines::Line,
};
use crate::Error;

/// What stands between the fields of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    Tab,
    /// Blanks, and names in quotes.
    Quoted,
    /// Blanks, and no quotes.
    Blank,
}

impl Separator {
    pub(super) fn of(line: Line<'_>) -> Separator {
        let (mut is_inside, mut has_tab, mut has_quote) = (false, false, false);
        for &byte in line.bytes {
            match byte {
                b'"' => (is_inside, has_quote) = (!is_inside, true),
                b',' if !is_inside => return Separator::Comma,
                b'\t' if !is_inside => has_tab = true,
                _ => {}
            }
        }
        match (has_tab, has_quote) {
            (true, _) if !begins_with_numbers(line) => Separator::Tab,
            (_, true) => Separator::Quoted,
            _ => Separator::Blank,
        }
    }

    fn ends_field(self, byte: u8) -> bool {
        match self {
            Separator::Comma => byte == b',',
            Separator::Tab => byte == b'\t',
            Separator::Quoted | Separator::Blank => is_blank(byte),
        }
    }
}

/// Whether numbers with blanks between stand before the first tab: the blanks are separators, too.
fn begins_with_numbers(line: Line<'_>) -> bool {
    let bytes = line.bytes.trim_ascii_start();
    let first = bytes.split(|&byte| byte == b'\t').next().unwrap_or(bytes);
    let first = first.trim_ascii_end();
    first.contains(&b' ') && first.iter().all(|b| b.is_ascii_digit() || *b == b' ')
}

/// The first two fields of a line and where its third would begin.
pub(super) fn named_ids(
    line: Line<'_>,
    separator: Separator,
) -> Result<(Field<'_>, Field<'_>, usize), Error> {
    let (u, at) = next_name(line, 0, separator)?;
    let (v, rest) = next_name(line, at, separator)?;
    match u.zip(v) {
        Some((u, v)) => Ok((u, v, rest)),
        None => {
            let expected = format_args!("a second node id");
            Err(line.expected(line.bytes.len() as u64 + 1, expected, None))
        }
    }
}

/// The name at or after byte `at`, and where the next field would begin.
fn next_name(
    line: Line<'_>,
    at: usize,
    separator: Separator,
) -> Result<(Option<Field<'_>>, usize), Error> {
    let bytes = line.bytes;
    let blanks = |at: usize| bytes[at..].iter().take_while(|&&b| is_blank(b)).count();
    let start = at + blanks(at);
    let (name, end) = match bytes.get(start) {
        None => return Ok((None, start)),
        Some(b'"') => in_quotes(line, start)?,
        Some(_) => {
            let rest = &bytes[start..];
            let length = rest.iter().position(|&byte| separator.ends_field(byte));
            let name = &rest[..length.unwrap_or(rest.len())];
            let name = name.trim_ascii_end();
            (name, start + name.len())
        }
    };
    let next = end + blanks(end);
    let follows = bytes.get(next).copied();
    if name.is_empty() {
        let column = start as u64 + 1;
        let found = &bytes[start..end.max(start + 1)];
        return Err(line.expected(column, format_args!("a field"), Some(found)));
    }
    let is_next = match separator {
        Separator::Comma => follows == Some(b','),
        Separator::Tab => bytes[end..next].contains(&b'\t'),
        Separator::Quoted | Separator::Blank => next > end,
    };
    if follows.is_some() && !is_next {
        let expected = format_args!("the end of a node id");
        return Err(line.expected(next as u64 + 1, expected, Some(&bytes[next..])));
    }
    let field = Field {
        bytes: name,
        column: start as u64 + 1,
    };
    let next = next + usize::from(separator == Separator::Comma && follows.is_some());
    Ok((Some(field), next))
}

/// What stands between the quote at `start` and the next one, and the byte behind that.
fn in_quotes<'l>(line: Line<'l>, start: usize) -> Result<(&'l [u8], usize), Error> {
    let rest = &line.bytes[start + 1..];
    match rest.iter().position(|&byte| byte == b'"') {
        Some(length) => Ok((&rest[..length], start + length + 2)),
        None => {
            let expected = format_args!("a quote that ends the node id");
            Err(line.expected(line.bytes.len() as u64 + 1, expected, None))
        }
    }
}
