//! Detection of a file's format: that of the options, else the extension, else the first lines.

use super::{
    fields::{Field, Fields, finite, whole},
    lines::{Line, Lines},
};
use crate::{Error, ErrorKind, Format, FormatSource};
use shardgraph_storage::Source;
use std::path::Path;

pub(crate) fn format(
    source: &Source<'_>,
    asked: Option<Format>,
) -> Result<(Format, FormatSource), Error> {
    if let Some(format) = asked {
        return Ok((format, FormatSource::Option));
    }
    if let Some(format) = Format::from_path(Path::new(source.name())) {
        return Ok((format, FormatSource::Extension));
    }
    Ok((from_content(source)?, FormatSource::Content))
}

/// Format of the first line that is not blank; an edge list is what is left when nothing else fits.
fn from_content(source: &Source<'_>) -> Result<Format, Error> {
    let mut lines = Lines::open(source)?.with_long_rows();
    let mut saw_comment = false;
    while let Some(line) = lines.next_filled()? {
        let first = line.fields().next().map_or(&b""[..], |field| field.bytes);
        match first {
            tag if is_banner(tag) => return Ok(Format::MatrixMarket),
            tag if tag.starts_with(b"<") => return Ok(Format::GraphMl),
            b"p" => return Ok(problem(line.fields())),
            b"c" => saw_comment = true,
            tag if tag.starts_with(b"%") => {}
            _ if saw_comment && line.first() == Some(b'c') => {}
            _ if is_ml4co(line) => return Ok(Format::Ml4co),
            _ => match unread_form(line) {
                None => break,
                Some(form) => return Err(unread(line, form)),
            },
        }
    }
    by_header(source)
}

fn is_banner(tag: &[u8]) -> bool {
    tag.eq_ignore_ascii_case(b"%%MatrixMarket") || tag.eq_ignore_ascii_case(b"%MatrixMarket")
}

fn problem(mut fields: Fields<'_>) -> Format {
    fields.next();
    match fields.next().map(|field| field.bytes) {
        Some(b"edge" | b"col" | b"edges") => Format::Dimacs,
        Some(b"td" | b"vc" | b"cep" | b"tww" | b"ds" | b"sp") => Format::Pace,
        _ => Format::EdgeList,
    }
}

/// The name of a form of graphs that is not read, but would pass for an edge list of names.
fn unread_form(line: Line<'_>) -> Option<&'static str> {
    let text = line.bytes.trim_ascii();
    let first = text.split(|byte| b" \t{[".contains(byte)).next();
    match (first?, text.last()?) {
        (b"graph" | b"digraph" | b"strict", b'{') => Some("DOT"),
        (b"graph", b'[') | (b"Creator", b'"') => Some("GML"),
        (b"graph", _) if text == b"graph" => Some("GML"),
        (b"", _) if matches!(text[0], b'{' | b'[') => Some("JSON"),
        _ => None,
    }
}

#[cold]
fn unread(line: Line<'_>, form: &str) -> Error {
    let message = format!(
        "{form} is not read: write the graph as GraphML or as an edge list, such as by networkx.write_graphml"
    );
    line.error(ErrorKind::Syntax, 1, message)
}

/// A whole graph on a line: pairs of ids, then `label` and numbers.
fn is_ml4co(line: Line<'_>) -> bool {
    let mut fields = line.fields();
    let is_number = |field: &Field<'_>| whole(field.bytes).is_some();
    let mut n_ids = 0;
    while let Some(field) = fields.next() {
        if !is_number(&field) {
            let is_label = field.bytes == b"label" && n_ids % 2 == 0;
            return is_label && fields.next().as_ref().is_some_and(is_number);
        }
        n_ids += 1;
    }
    false
}

/// A bare `n m`: PACE when exactly m pairs from 1 to n follow, Gset when m triples do, METIS when n rows with 2m neighbours do.
fn by_header(source: &Source<'_>) -> Result<Format, Error> {
    let mut lines = Lines::open(source)?.with_long_rows();
    let mut guess = None;
    while let Some(line) = lines.next()? {
        match &mut guess {
            None if line.is_blank() || matches!(line.first(), Some(b'c' | b'%')) => {}
            None => match Guess::from_header(line) {
                Some(header) => guess = Some(header),
                None => return Ok(Format::EdgeList),
            },
            Some(guess) => {
                guess.take(line);
                if !guess.is_open() {
                    return Ok(Format::EdgeList);
                }
            }
        }
    }
    Ok(guess.map_or(Format::EdgeList, |guess| guess.decide()))
}

struct Guess {
    n: u64,
    m: u64,
    n_pairs: u64,
    n_triples: u64,
    /// Rows up to the last one that is not blank, and all of them.
    n_filled_rows: u64,
    n_rows: u64,
    n_neighbours: u64,
    may_be_pace: bool,
    may_be_metis: bool,
    may_be_gset: bool,
}

impl Guess {
    fn from_header(line: Line<'_>) -> Option<Guess> {
        let mut fields = line.fields();
        let (n, _) = fields.whole(format_args!("")).ok()?;
        let (m, _) = fields.whole(format_args!("")).ok()?;
        (m > 0 && fields.is_done()).then_some(Guess {
            n,
            m,
            n_pairs: 0,
            n_triples: 0,
            n_filled_rows: 0,
            n_rows: 0,
            n_neighbours: 0,
            may_be_pace: true,
            may_be_metis: true,
            may_be_gset: true,
        })
    }

    fn take(&mut self, line: Line<'_>) {
        match line.first() {
            Some(b'c') => (self.may_be_metis, self.may_be_gset) = (false, false),
            Some(b'%') => (self.may_be_pace, self.may_be_gset) = (false, false),
            None => self.n_rows += 1,
            Some(_) => {
                self.take_triple(line.fields());
                self.take_ids(line.fields());
            }
        }
        self.may_be_gset &= self.n_triples <= self.m;
        self.may_be_pace &= self.n_pairs <= self.m;
        self.may_be_metis &=
            self.n_filled_rows <= self.n && self.n_neighbours <= self.m.saturating_mul(2);
    }

    fn take_triple(&mut self, mut fields: Fields<'_>) {
        let mut is_id = || {
            let id = fields.next().and_then(|field| whole(field.bytes));
            id.is_some_and(|id| (1..=self.n).contains(&id))
        };
        let are_ids = is_id() && is_id();
        let weight = fields.next().and_then(|field| finite(field.bytes));
        self.may_be_gset &= are_ids && weight.is_some() && fields.is_done();
        self.n_triples += 1;
    }

    fn take_ids(&mut self, mut fields: Fields<'_>) {
        let mut n_ids = 0;
        while !fields.is_done() {
            let id = fields.whole(format_args!(""));
            if !id.is_ok_and(|(id, _)| (1..=self.n).contains(&id)) {
                self.may_be_pace = false;
                self.may_be_metis = false;
                return;
            }
            n_ids += 1;
        }
        self.n_pairs += 1;
        self.may_be_pace &= n_ids == 2;
        self.n_rows += 1;
        self.n_filled_rows = self.n_rows;
        self.n_neighbours += n_ids;
    }

    fn is_open(&self) -> bool {
        self.may_be_pace || self.may_be_metis || self.may_be_gset
    }

    fn decide(&self) -> Format {
        if self.may_be_pace && self.n_pairs == self.m {
            return Format::Pace;
        }
        if self.may_be_gset && self.n_triples == self.m {
            return Format::Gset;
        }
        let is_metis = self.n_rows >= self.n && self.n_neighbours == self.m.saturating_mul(2);
        if self.may_be_metis && is_metis {
            return Format::Metis;
        }
        Format::EdgeList
    }
}
