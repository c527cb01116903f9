//! Turtle, through oxttl. The format has no lines to start again at, so the first error ends the
//! import.

use std::collections::BTreeMap;
use std::io::Read;

use oxttl::{TurtleParseError, TurtleParser};
use shardgraph_storage::unpacking_error;

use super::ntriples;
use super::triples::{Place, Triples};
use crate::Error;

/// The byte-order mark of UTF-8, which some editors write.
const MARK: &[u8] = &[0xef, 0xbb, 0xbf];

pub(crate) fn read(triples: &mut Triples, file: &str, mut source: impl Read) -> Result<(), Error> {
    let mut head = Vec::new();
    let n_read = (&mut source).take(MARK.len() as u64).read_to_end(&mut head);
    n_read.map_err(|e| unpacking_error(e, file, 0))?;
    let head = head.strip_prefix(MARK).unwrap_or(&head);
    let mut blank_nodes = BlankNodes::default();
    for triple in TurtleParser::new().for_reader(head.chain(source)) {
        let triple = triple.map_err(|error| syntax_error(error, file))?;
        // A triple prints itself as N-Triples has it: so its terms get their keys in one place.
        let line = format!("{triple} .");
        let place = Place {
            file,
            line: 0,
            column: 0,
        };
        let parsed = ntriples::triple(&line).map_err(|bad| place.refuse(&bad.reason))?;
        let Some(parsed) = parsed else { continue };
        let subject = blank_nodes.renamed(&parsed.subject);
        let object = blank_nodes.renamed(&parsed.object);
        let names = [&*subject, &*parsed.predicate, &*object];
        triples.rdf(names, parsed.object_is_literal, place)?;
    }
    Ok(())
}

fn syntax_error(error: TurtleParseError, file: &str) -> Error {
    match error {
        TurtleParseError::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
            let reason = "a token of more than 16 MiB: a literal or comment that is never closed?";
            Error::at(Error::Graph, file, 0, 0, reason)
        }
        TurtleParseError::Io(error) => unpacking_error(error, file, 0).into(),
        TurtleParseError::Syntax(error) => {
            let start = error.location().start;
            let (line, column) = (start.line + 1, start.column + 1);
            Error::at(Error::Graph, file, line, column, error.message())
        }
    }
}

/// Blank nodes by the order in which they come: those without a label have a random one from the
/// parser.
#[derive(Default)]
struct BlankNodes(BTreeMap<String, usize>);

impl BlankNodes {
    fn renamed(&mut self, name: &str) -> String {
        let Some(label) = name.strip_prefix("_:") else {
            return name.to_owned();
        };
        let next = self.0.len();
        let idx = *self.0.entry(label.to_owned()).or_insert(next);
        format!("_:b{idx}")
    }
}
