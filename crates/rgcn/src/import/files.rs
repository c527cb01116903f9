//! From a file to the reader of its format.

use std::io::{self, BufReader, Cursor, Read};

use shardgraph_graph::{Unpacked, unpacking_error};

use super::lines::Lines;
use super::{Importer, Literals, TripleFormat, archive, integers, tab_separated, turtle};
use super::{Place, ntriples};
use crate::{Error, ErrorKind};

/// So many bytes are looked at to tell the format.
const HEAD: u64 = 1 << 16;

/// Reads a file, or the file of an archive that is meant.
pub(crate) fn read(importer: &mut Importer, mut unpacked: Unpacked) -> Result<(), Error> {
    let file = unpacked.name().to_owned();
    if !archive::is_archive(&file) {
        if let Some(member) = &importer.options.member {
            let reason = format!("the file is no archive: there is no `{member}` in it to choose");
            return Err(Error::at(ErrorKind::Config, &file, 0, 0, &reason));
        }
        return read_stream(importer, &file, Box::new(unpacked));
    }
    let members = archive::members(&file, &mut unpacked)?;
    let member = archive::choose(&file, members, importer.options.member.as_deref())?;
    importer.report.members.push(member.name.clone());
    let name = format!("{file}:{}", member.name);
    read_stream(
        importer,
        &name,
        Box::new(Unpacked::from_bytes(&name, member.bytes)?),
    )
}

fn read_stream(importer: &mut Importer, file: &str, source: Box<dyn Read>) -> Result<(), Error> {
    let mut source = BufReader::with_capacity(HEAD as usize, source);
    let n_before = importer.n_triples_seen();
    let format = match importer.options.format {
        Some(format) => format,
        None => match TripleFormat::from_name(file) {
            Some(format) => format,
            None => by_first_line(file, &mut source)?,
        },
    };
    check_options(importer, file, format)?;
    importer.report.add_file(format);
    match format {
        TripleFormat::Turtle => turtle::read(importer, file, source)?,
        TripleFormat::NTriples => read_ntriples(importer, Lines::new(file, Box::new(source)))?,
        TripleFormat::IntegerCsv => {
            integers::read_csv(importer, Lines::new(file, Box::new(source)))?
        }
        TripleFormat::OpenKe => {
            integers::read_openke(importer, Lines::new(file, Box::new(source)))?
        }
        TripleFormat::TabSeparated => {
            tab_separated::read(importer, Lines::new(file, Box::new(source)))?;
        }
    }
    if importer.n_triples_seen() == n_before {
        let reason = format!("the file holds no triple (read as {format})");
        return Err(Error::at(ErrorKind::Graph, file, 0, 0, &reason));
    }
    Ok(())
}

/// Refuses options that the format has no use for.
fn check_options(importer: &Importer, file: &str, format: TripleFormat) -> Result<(), Error> {
    let options = &importer.options;
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
            Err(Error::at(ErrorKind::Config, file, 0, 0, &reason))
        }
    }
}

/// The format by the first line that is not blank or a comment, which stays in front of `source`.
fn by_first_line(file: &str, source: &mut BufReader<Box<dyn Read>>) -> Result<TripleFormat, Error> {
    let mut head = Vec::new();
    let n_read = source.take(HEAD).read_to_end(&mut head);
    n_read.map_err(|e| unpacking_error(e, file, 0))?;
    let format = first_format(Lines::new(file, Box::new(head.as_slice())));
    let rest = std::mem::replace(source, BufReader::new(Box::new(io::empty())));
    let whole: Box<dyn Read> = Box::new(Cursor::new(head).chain(rest));
    *source = BufReader::new(whole);
    format
}

fn first_format(mut lines: Lines<'_>) -> Result<TripleFormat, Error> {
    while let Some(line) = lines.next_filled()? {
        if !line.bytes.trim_ascii_start().starts_with(b"#") {
            return TripleFormat::from_line(line);
        }
    }
    let file = lines.file();
    Err(Error::at(ErrorKind::Graph, file, 0, 0, "the file is empty"))
}

fn read_ntriples(importer: &mut Importer, mut lines: Lines<'_>) -> Result<(), Error> {
    while let Some(line) = lines.next()? {
        let at = |column| Place {
            file: line.file,
            line: line.number,
            column,
        };
        let text = match line.text() {
            Ok(text) => text,
            Err(column) => {
                importer.bad_line(at(column), "expected UTF-8, found other bytes")?;
                continue;
            }
        };
        match ntriples::triple(text) {
            Ok(None) => {}
            Ok(Some(triple)) => {
                let names = [&*triple.subject, &*triple.predicate, &*triple.object];
                importer.rdf_triple(names, triple.object_is_literal, at(0))?;
            }
            Err(bad) => importer.bad_line(at(bad.column), &bad.reason)?,
        }
    }
    Ok(())
}

impl Importer {
    /// Triples that were read, those with a dropped literal too.
    fn n_triples_seen(&self) -> u64 {
        self.report.triples
    }

    /// A triple whose literals are kept or dropped.
    pub(super) fn rdf_triple(
        &mut self,
        names: [&str; 3],
        object_is_literal: bool,
        place: Place<'_>,
    ) -> Result<(), Error> {
        self.report.triples += 1;
        if object_is_literal {
            self.report.literal_triples += 1;
            if self.options.literals == Literals::Drop {
                return Ok(());
            }
        }
        self.named(names, true, place)
    }
}
