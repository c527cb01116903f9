//! From a file to the reader of its format.

use std::io::{self, BufReader, Cursor, Read};

use shardgraph_storage::{Unpacked, unpacking_error};

use super::format::TripleFormat;
use super::lines::{Line, Lines};
use super::options::Literals;
use super::triples::{Place, Triples};
use super::{archive, integers, names, ntriples, turtle};
use crate::Error;

/// Bytes that are read to find the format.
const HEAD: u64 = 1 << 16;

/// Reads a file, or the file of an archive that is meant.
pub(crate) fn read(triples: &mut Triples, mut unpacked: Unpacked) -> Result<(), Error> {
    let file = unpacked.name().to_owned();
    if !archive::is_archive(&file) {
        if let Some(member) = &triples.options.member {
            let reason = format!("the file is no archive: there is no `{member}` in it to choose");
            return Err(Error::at(Error::Config, &file, 0, 0, &reason));
        }
        return read_stream(triples, &file, Box::new(unpacked));
    }
    let members = archive::members(&file, &mut unpacked)?;
    let member = archive::choose(&file, members, triples.options.member.as_deref())?;
    triples.report.members.push(member.name.clone());
    let name = format!("{file}:{}", member.name);
    read_stream(
        triples,
        &name,
        Box::new(Unpacked::from_bytes(&name, member.bytes)?),
    )
}

fn read_stream(triples: &mut Triples, file: &str, source: Box<dyn Read>) -> Result<(), Error> {
    let mut source = BufReader::with_capacity(HEAD as usize, source);
    let n_before = triples.report.triples;
    let format = match triples.options.format {
        Some(format) => format,
        None => format_of(triples, file, &mut source)?,
    };
    check_options(triples, file, format)?;
    triples.report.add_file(format);
    match format {
        TripleFormat::Turtle => turtle::read(triples, file, source)?,
        TripleFormat::NTriples => read_ntriples(triples, Lines::new(file, Box::new(source)))?,
        TripleFormat::IntegerCsv => {
            integers::read_csv(triples, Lines::new(file, Box::new(source)))?
        }
        TripleFormat::OpenKe => integers::read_openke(triples, Lines::new(file, Box::new(source)))?,
        TripleFormat::TabSeparated => {
            names::read(triples, Lines::new(file, Box::new(source)), '\t')?;
        }
        TripleFormat::Csv => names::read(triples, Lines::new(file, Box::new(source)), ',')?,
    }
    if triples.report.triples == n_before {
        let reason = format!("the file holds no triple (read as {format})");
        return Err(Error::at(Error::Graph, file, 0, 0, &reason));
    }
    Ok(())
}

/// Refuses options that the format has no use for.
fn check_options(triples: &Triples, file: &str, format: TripleFormat) -> Result<(), Error> {
    let options = &triples.options;
    let is_rdf = matches!(format, TripleFormat::NTriples | TripleFormat::Turtle);
    let is_of_numbers = matches!(format, TripleFormat::IntegerCsv | TripleFormat::OpenKe);
    let useless = [
        ("literals", options.literals != Literals::Keep && !is_rdf),
        ("nodes", options.n_nodes.is_some() && !is_of_numbers),
        ("relations", options.n_relations.is_some() && !is_of_numbers),
        (
            "max_bad_lines",
            options.max_bad_lines > 0 && format == TripleFormat::Turtle,
        ),
    ];
    match useless.iter().find(|(_, is_useless)| *is_useless) {
        None => Ok(()),
        Some((option, _)) => {
            let reason = format!("the option {option} has no meaning for {format}: leave it out");
            Err(Error::at(Error::Config, file, 0, 0, &reason))
        }
    }
}

/// The format by the file's name, else by its first line, which stays in front of `source`.
fn format_of(
    triples: &Triples,
    file: &str,
    source: &mut BufReader<Box<dyn Read>>,
) -> Result<TripleFormat, Error> {
    // Of one set of files all have names or numbers: the first one says which.
    let has_names = triples.report.formats.last() == Some(&TripleFormat::Csv);
    match TripleFormat::from_name(file) {
        Some(TripleFormat::Csv) if !has_names => {
            let of_csv = |line: Line<'_>| Ok(TripleFormat::of_csv(line));
            Ok(by_first_line(file, source, of_csv)?.unwrap_or(TripleFormat::Csv))
        }
        Some(format) => Ok(format),
        None => by_first_line(file, source, TripleFormat::from_line)?
            .ok_or_else(|| Error::at(Error::Graph, file, 0, 0, "the file is empty")),
    }
}

/// The format by the first line that is not blank or a comment; `None` where there is none.
fn by_first_line(
    file: &str,
    source: &mut BufReader<Box<dyn Read>>,
    format: impl Fn(Line<'_>) -> Result<TripleFormat, Error>,
) -> Result<Option<TripleFormat>, Error> {
    let mut head = Vec::new();
    let n_read = source.take(HEAD).read_to_end(&mut head);
    n_read.map_err(|e| unpacking_error(e, file, 0))?;
    let found = first_format(Lines::new(file, Box::new(head.as_slice())), format);
    let rest = std::mem::replace(source, BufReader::new(Box::new(io::empty())));
    let whole: Box<dyn Read> = Box::new(Cursor::new(head).chain(rest));
    *source = BufReader::new(whole);
    found
}

fn first_format(
    mut lines: Lines<'_>,
    format: impl Fn(Line<'_>) -> Result<TripleFormat, Error>,
) -> Result<Option<TripleFormat>, Error> {
    while let Some(line) = lines.next_filled()? {
        if !line.bytes.trim_ascii_start().starts_with(b"#") {
            return format(line).map(Some);
        }
    }
    Ok(None)
}

fn read_ntriples(triples: &mut Triples, lines: Lines<'_>) -> Result<(), Error> {
    triples.read_text(lines, |triples, text, place| match ntriples::triple(text) {
        Ok(None) => Ok(()),
        Ok(Some(triple)) => {
            let names = [&*triple.subject, &*triple.predicate, &*triple.object];
            triples.rdf(names, triple.object_is_literal, place)
        }
        Err(bad) => {
            let column = bad.column;
            triples.bad_line(Place { column, ..place }, &bad.reason)
        }
    })
}
