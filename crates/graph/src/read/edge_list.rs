//! Edge lists: one edge per line as two ids, optionally more columns, separated by blanks or one comma.
//!
//! Names with blanks stand between commas or tabs, or in quotes ([`super::names`]). Lines that begin with `#` or `%` are comments. Ids are plain integers (digits, no leading zeros, below 2^64) or text;
//! one text id makes all ids of the file text, so that labels are written back as they came. A first pass finds out and
//! collects the integer ids, which become dense in ascending order; text ids become dense in order of first sight.
//! A first line that names two columns (`src,dst,weight`) is a header and no edge.

use super::{
    ReadOptions, Streamed, StreamedNames, WeightPolicy,
    fields::{self, Field, is_blank},
    ids::{IdMap, IdSet},
    lines::{Line, Lines},
    names::{Separator, named_ids},
    tally::Tally,
};
use crate::{Error, ErrorKind, ImportReport, Labels, MAX_NODES, NamedEdgeSink, labels::Interner};
use shardgraph_storage::Source;

/// The longest text id, in bytes.
pub(super) const MAX_LABEL: usize = 4096;

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let scan = scan_ids(source, tally.options)?;
    tally.report.header_line = scan.header;
    match scan.ids {
        Ids::Integers(map) => numbered(source, map, tally),
        Ids::Text { line, id } => {
            tally.report.first_text_id = Some((line, id));
            let interner = read_text(source, &mut tally)?;
            let weighted = tally.options.weights == WeightPolicy::ThirdColumn;
            Ok(tally.finish(interner.len(), weighted, Labels::text(interner)))
        }
    }
}

/// As [`read`], but text ids go to the sink as they are.
pub(crate) fn read_named(
    source: &Source<'_>,
    mut report: ImportReport,
    options: &ReadOptions,
    sink: &mut dyn NamedEdgeSink,
) -> Result<StreamedNames, Error> {
    let scan = scan_ids(source, options)?;
    report.header_line = scan.header;
    match scan.ids {
        Ids::Integers(map) => {
            let tally = Tally::new(sink, options, report);
            numbered(source, map, tally).map(StreamedNames::Numbered)
        }
        Ids::Text { line, id } => {
            let mut unread = NoEdges;
            let mut tally = Tally::new(&mut unread, options, report);
            tally.report.first_text_id = Some((line, id));
            read_names(source, &mut tally, sink)?;
            Ok(StreamedNames::Named(tally.report))
        }
    }
}

/// In the place of a sink where edges do not pass through the tally.
struct NoEdges;

impl crate::EdgeSink for NoEdges {
    fn edge(&mut self, _u: u32, _v: u32, _weight: f32) -> Result<(), Error> {
        Ok(())
    }
}

fn numbered(source: &Source<'_>, map: IdMap, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let first = read_integers(source, &map, &mut tally)?;
    tally.report.n_columns = first.as_ref().map_or(0, |first| first.n_columns);
    tally.report.header_as_edge = first.and_then(|first| first.header(&tally.report, &map));
    let weighted = tally.options.weights == WeightPolicy::ThirdColumn;
    Ok(tally.finish(map.n_nodes(), weighted, map.labels()))
}

enum Ids {
    Integers(IdMap),
    /// Position of the first text id.
    Text {
        line: u64,
        id: String,
    },
}

/// What the first pass found.
struct Scan {
    ids: Ids,
    /// The line that names the columns, with its text.
    header: Option<(u64, String)>,
}

/// Names of the two columns of an edge, in small letters without `_`, `-` and a final `id`.
const COLUMN_NAMES: [(&str, &str); 15] = [
    ("source", "target"),
    ("source", "destination"),
    ("src", "dst"),
    ("src", "dest"),
    ("src", "trg"),
    ("from", "to"),
    ("fromnode", "tonode"),
    ("head", "tail"),
    ("u", "v"),
    ("i", "j"),
    ("node1", "node2"),
    ("vertex1", "vertex2"),
    ("user1", "user2"),
    ("id1", "id2"),
    ("follower", "followee"),
];

pub(crate) fn are_column_names(u: &[u8], v: &[u8]) -> bool {
    let plain = |field: &[u8]| {
        let text = String::from_utf8_lossy(field).to_ascii_lowercase();
        let text = text.trim_matches('"').replace(['_', '-'], "");
        text.strip_suffix("id").unwrap_or(&text).to_owned()
    };
    let (u, v) = (plain(u), plain(v));
    COLUMN_NAMES.contains(&(u.as_str(), v.as_str()))
}

/// The first pass: integers or text, the set of integers, and a header.
fn scan_ids(source: &Source<'_>, options: &ReadOptions) -> Result<Scan, Error> {
    let mut lines = Lines::open(source)?;
    let mut set = IdSet::default();
    let limit = options.max_id_bytes.unwrap_or(u64::MAX);
    let mut n_edges = 0u64;
    let (mut header, mut first_text) = (None, None);
    loop {
        let seen = lines.bytes_seen();
        let Some(line) = lines.next()? else { break };
        let Some((u, v, _)) = two_ids(line)? else {
            continue;
        };
        if n_edges == 0 && header.is_none() && are_column_names(u.bytes, v.bytes) {
            header = Some((
                line.number,
                shown(Field {
                    bytes: line.bytes,
                    column: 1,
                }),
            ));
            continue;
        }
        n_edges += 1;
        if let (Some(u), Some(v)) = (integer(u.bytes), integer(v.bytes)) {
            set.insert(u, seen);
            set.insert(v, seen);
            if set.bytes() > limit {
                return Err(too_many_ids(line, limit));
            }
        } else if n_edges == 1 && integer(u.bytes).is_none() && integer(v.bytes).is_none() {
            first_text = Some((line.number, shown(u)));
        } else {
            let text = if integer(u.bytes).is_none() { u } else { v };
            let (line, id) = first_text.unwrap_or_else(|| (line.number, shown(text)));
            return Ok(Scan {
                ids: Ids::Text { line, id },
                header,
            });
        }
    }
    match first_text {
        None => {
            let map = set.into_map().map_err(|e| e.or_at(source.name(), 0, 0))?;
            Ok(Scan {
                ids: Ids::Integers(map),
                header,
            })
        }
        Some((line, id)) if n_edges == 1 => Ok(Scan {
            ids: Ids::Text { line, id },
            header,
        }),
        Some((line, found)) => {
            let message = format!(
                "expected a node id, found `{found}` while all other ids are integers: if this line names the columns, put `#` before it"
            );
            Err(Error::new(ErrorKind::Syntax, message).or_at(source.name(), line, 1))
        }
    }
}

#[cold]
fn too_many_ids(line: Line<'_>, limit: u64) -> Error {
    let message =
        format!("expected node ids that take at most {limit} bytes of memory, found more");
    line.error(ErrorKind::TooLarge, 1, message)
}

fn shown(field: Field<'_>) -> String {
    String::from_utf8_lossy(&field.bytes[..field.bytes.len().min(24)]).into_owned()
}

/// The first edge of a list, which may have been meant as a header.
struct FirstEdge {
    line: u64,
    ids: Option<(u64, u64)>,
    n_columns: u64,
    /// Whether all later edges have a third column.
    later_have_it: bool,
}

impl FirstEdge {
    fn of(line: Line<'_>, u: Field<'_>, v: Field<'_>, n_columns: u64) -> FirstEdge {
        FirstEdge {
            line: line.number,
            ids: integer(u.bytes).zip(integer(v.bytes)),
            n_columns,
            later_have_it: true,
        }
    }

    /// The line and its text, if it counts nodes and edges: `n m` before m edges among about n nodes, or before weighted edges.
    fn header(self, report: &ImportReport, map: &IdMap) -> Option<(u64, String)> {
        let (n, m) = self.ids?;
        let n_later = report.listed_edges - 1;
        let may_count = n_later > 0 && n > 2 && n.saturating_add(2) >= u64::from(map.n_nodes());
        let has_third_column = self.n_columns > 2;
        let is_alone = self.later_have_it && !has_third_column;
        let is_header = may_count && (m == n_later || is_alone) && !has_third_column;
        is_header.then(|| (self.line, format!("{n} {m}")))
    }
}

fn read_integers(
    source: &Source<'_>,
    map: &IdMap,
    tally: &mut Tally<'_>,
) -> Result<Option<FirstEdge>, Error> {
    let mut lines = Lines::open(source)?;
    let mut first: Option<FirstEdge> = None;
    while let Some(line) = lines.next()? {
        let Some((u, v, rest)) = edge(line, &tally.report)? else {
            continue;
        };
        let n_columns = 2 + n_fields(&line.bytes[rest..]);
        match &mut first {
            None => first = Some(FirstEdge::of(line, u, v, n_columns)),
            Some(first) => {
                first.later_have_it &= n_columns > 2;
                if n_columns != first.n_columns && tally.report.ragged_line.is_none() {
                    tally.report.ragged_line = Some((line.number, n_columns));
                }
            }
        }
        let weight = third_column(line, rest, tally)?;
        let dense = |field: Field<'_>| integer(field.bytes).and_then(|id| map.get(id));
        let (Some(u), Some(v)) = (dense(u), dense(v)) else {
            let message = "the file changed while it was read";
            return Err(line.error(ErrorKind::Io, 1, message));
        };
        tally.edge(line, u, v, weight)?;
    }
    Ok(first)
}

fn read_text(source: &Source<'_>, tally: &mut Tally<'_>) -> Result<Interner, Error> {
    let mut lines = Lines::open(source)?;
    let mut interner = Interner::default();
    while let Some(line) = lines.next()? {
        let Some((u, v, rest)) = edge(line, &tally.report)? else {
            continue;
        };
        let weight = third_column(line, rest, tally)?;
        let u = interner.intern(label(line, u)?.as_bytes());
        let v = interner.intern(label(line, v)?.as_bytes());
        if interner.len() > MAX_NODES - 1 {
            let message = format!("expected at most {MAX_NODES} different node ids, found more");
            return Err(line.error(ErrorKind::TooLarge, 1, message));
        }
        tally.edge(line, u, v, weight)?;
    }
    Ok(interner)
}

fn read_names(
    source: &Source<'_>,
    tally: &mut Tally<'_>,
    sink: &mut dyn NamedEdgeSink,
) -> Result<(), Error> {
    let mut lines = Lines::open(source)?;
    while let Some(line) = lines.next()? {
        let Some((u, v, rest)) = edge(line, &tally.report)? else {
            continue;
        };
        let weight = third_column(line, rest, tally)?;
        let (u, v) = (label(line, u)?, label(line, v)?);
        tally.named(line, u == v, weight)?;
        sink.named_edge(u, v, weight)
            .map_err(|error| error.or_at(line.file, line.number, 0))?;
    }
    Ok(())
}

/// A text id as it may be kept: UTF-8 without control characters or quotes inside.
fn label<'l>(line: Line<'_>, field: Field<'l>) -> Result<&'l str, Error> {
    let bytes = field.bytes;
    let checked = if bytes.len() > MAX_LABEL {
        Err("at most 4096 bytes")
    } else if bytes.iter().any(u8::is_ascii_control) {
        Err("no control characters")
    } else if bytes.contains(&b'"') {
        Err("no quotes inside")
    } else {
        std::str::from_utf8(bytes).map_err(|_| "valid UTF-8")
    };
    checked.map_err(|what| {
        let expected = format_args!("a node id of {what}");
        line.expected(field.column, expected, Some(bytes))
    })
}

/// The weight, where the third column is one; otherwise further columns are counted and left alone.
fn third_column(line: Line<'_>, at: usize, tally: &mut Tally<'_>) -> Result<f32, Error> {
    let is_more = |at: usize| u64::from(skip_blanks(line.bytes, at) < line.bytes.len());
    if tally.options.weights != WeightPolicy::ThirdColumn {
        tally.report.extra_column_lines += is_more(at);
        return Ok(1.0);
    }
    let expected = format_args!("a finite number of at most 3.4e38 as weight in the third column");
    let (field, rest) = next_field(line, at)?;
    let Some(field) = field else {
        return Err(line.expected(line.bytes.len() as u64 + 1, expected, None));
    };
    tally.report.extra_column_lines += is_more(rest);
    fields::finite(field.bytes)
        .ok_or_else(|| line.expected(field.column, expected, Some(field.bytes)))
}

/// The two ids of an edge and where its third field would begin; `None` where the line is no edge.
fn edge<'l>(
    line: Line<'l>,
    report: &ImportReport,
) -> Result<Option<(Field<'l>, Field<'l>, usize)>, Error> {
    let header = report.header_line.as_ref().map(|(number, _)| *number);
    match header == Some(line.number) {
        true => Ok(None),
        false => two_ids(line),
    }
}

/// The first two fields of a line and where its third would begin; `None` for blank lines and comments.
fn two_ids(line: Line<'_>) -> Result<Option<(Field<'_>, Field<'_>, usize)>, Error> {
    if matches!(line.first(), None | Some(b'#' | b'%')) {
        return Ok(None);
    }
    let numbers = plain_ids(line);
    let is_number = |field: Field<'_>| field.bytes.iter().all(u8::is_ascii_digit);
    match numbers {
        Ok((u, v, _)) if is_number(u) && is_number(v) => numbers.map(Some),
        _ => match Separator::of(line) {
            Separator::Blank => numbers.map(Some),
            separator => named_ids(line, separator).map(Some),
        },
    }
}

/// Two ids without blanks, with blanks or one comma between.
fn plain_ids(line: Line<'_>) -> Result<(Field<'_>, Field<'_>, usize), Error> {
    let second = |line: Line<'_>| {
        let expected = format_args!("a second node id");
        line.expected(line.bytes.len() as u64 + 1, expected, None)
    };
    let (u, at) = next_field(line, 0)?;
    let (v, rest) = next_field(line, at)?;
    u.zip(v)
        .map(|(u, v)| (u, v, rest))
        .ok_or_else(|| second(line))
}

/// The field at or after byte `at` and where the next would begin: past blanks, and one comma.
fn next_field(line: Line<'_>, at: usize) -> Result<(Option<Field<'_>>, usize), Error> {
    let bytes = line.bytes;
    let start = skip_blanks(bytes, at);
    let len = bytes[start..]
        .iter()
        .take_while(|&&b| !is_blank(b) && b != b',')
        .count();
    let column = start as u64 + 1;
    let end = start + len;
    if len == 0 {
        return match bytes.get(start) {
            Some(_) => Err(line.expected(column, format_args!("a field"), Some(b","))),
            None => Ok((None, end)),
        };
    }
    let mut next = skip_blanks(bytes, end);
    next += usize::from(bytes.get(next) == Some(&b','));
    let field = Field {
        bytes: &bytes[start..end],
        column,
    };
    Ok((Some(field), next))
}

/// Fields of the rest of a line.
fn n_fields(rest: &[u8]) -> u64 {
    let is_gap = |&b: &u8| is_blank(b) || b == b',';
    let fields = rest.split(is_gap).filter(|field| !field.is_empty());
    fields.count() as u64
}

fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|&&b| is_blank(b)).count()
}

/// The id as an integer, if writing that integer gives the same text.
pub(crate) fn integer(field: &[u8]) -> Option<u64> {
    if field[0] == b'0' && field.len() > 1 {
        return None;
    }
    fields::whole(field)
}
