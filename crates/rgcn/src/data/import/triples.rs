//! The triples of an import under way: ids of names or numbers, and what was dropped on the way.

use std::ops::Range;

use shardgraph_graph::{Interner, Labels as Names};

use super::lines::Lines;
use super::options::{ImportOptions, Literals};
use super::report::{BadLine, ImportReport};
use crate::Error;
use crate::graph::MAX_NODES;

/// The triples that were read so far; the readers of all formats add to them.
#[derive(Debug)]
pub(crate) struct Triples {
    pub(super) options: ImportOptions,
    ids: Option<Ids>,
    /// Where the last triple, the largest node and the largest relation stand: file and line.
    last: FileLine,
    largest_node: FileLine,
    largest_relation: FileLine,
    pub(super) sources: Vec<u32>,
    pub(super) relations: Vec<u32>,
    pub(super) targets: Vec<u32>,
    pub(super) files: Vec<Range<usize>>,
    pub(super) report: ImportReport,
}

#[derive(Debug)]
enum Ids {
    Text {
        nodes: Interner,
        relations: Interner,
    },
    /// One more than the largest id so far.
    Numbers { n_nodes: u64, n_relations: u64 },
}

impl Triples {
    pub(super) fn new(options: ImportOptions) -> Triples {
        Triples {
            report: ImportReport::new(options.literals),
            options,
            ids: None,
            last: FileLine::default(),
            largest_node: FileLine::default(),
            largest_relation: FileLine::default(),
            sources: Vec::new(),
            relations: Vec::new(),
            targets: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Adds a file through its reader.
    pub(super) fn add_file(
        &mut self,
        read: impl FnOnce(&mut Triples) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = self.sources.len();
        read(self)?;
        if !self.options.keep_duplicates {
            self.drop_duplicates(start);
        }
        self.files.push(start..self.sources.len());
        Ok(())
    }

    /// The names of all nodes and relations.
    pub(super) fn names(&mut self) -> Result<(Names, Names), Error> {
        Ok(match self.ids.take() {
            None => {
                let reason = match self.report.triples {
                    0 => "no triple was read".to_owned(),
                    n => format!("all {n} triples have a literal, and literals are dropped"),
                };
                return Err(self.last.refuse(&reason));
            }
            Some(Ids::Text { nodes, relations }) => (Names::text(nodes), Names::text(relations)),
            Some(Ids::Numbers {
                n_nodes,
                n_relations,
            }) => {
                self.check_numbers(n_nodes, n_relations)?;
                let n_nodes = self.options.n_nodes.unwrap_or(n_nodes as u32);
                let nodes = Names::offset(0, n_nodes);
                let n_relations = self.options.n_relations.unwrap_or(n_relations as u32);
                (nodes, Names::offset(0, n_relations))
            }
        })
    }

    /// A triple of RDF, whose literals are kept or dropped.
    pub(super) fn rdf(
        &mut self,
        names: [&str; 3],
        object_is_literal: bool,
        place: Place<'_>,
    ) -> Result<(), Error> {
        self.report.triples += 1;
        if object_is_literal {
            self.last = place.kept();
            self.report.literal_triples += 1;
            if self.options.literals == Literals::Drop {
                return Ok(());
            }
        }
        self.named(names, true, place)
    }

    /// An edge between names; in RDF, blank nodes of different files are kept apart.
    pub(super) fn named(
        &mut self,
        names: [&str; 3],
        is_rdf: bool,
        place: Place<'_>,
    ) -> Result<(), Error> {
        let n_files = self.files.len();
        let ids = self.ids.get_or_insert_with(|| Ids::Text {
            nodes: Interner::default(),
            relations: Interner::default(),
        });
        let Ids::Text { nodes, relations } = ids else {
            return Err(place.refuse("names in this file, numbers in the one before it"));
        };
        let [subject, predicate, object] = names;
        let mut node = |name: &str| match name.strip_prefix("_:") {
            // No label holds a blank.
            Some(label) if is_rdf && n_files > 0 => {
                nodes.intern(format!("_:{label} of file {n_files}").as_bytes())
            }
            _ => nodes.intern(name.as_bytes()),
        };
        let (source, target) = (node(subject), node(object));
        if nodes.len() > MAX_NODES {
            return Err(place.refuse("more different nodes than 32 bits count"));
        }
        let relation = relations.intern(predicate.as_bytes());
        self.edge(source, relation, target);
        Ok(())
    }

    /// An edge between numbers.
    pub(super) fn numbered(&mut self, ids: [u32; 3], place: Place<'_>) -> Result<(), Error> {
        let known = self.ids.get_or_insert(Ids::Numbers {
            n_nodes: 0,
            n_relations: 0,
        });
        let Ids::Numbers {
            n_nodes,
            n_relations,
        } = known
        else {
            return Err(place.refuse("numbers in this file, names in the one before it"));
        };
        let [source, relation, target] = ids;
        let end = u64::from(source.max(target)) + 1;
        let allowed = self.options.n_nodes.unwrap_or(MAX_NODES);
        if end > u64::from(allowed) {
            let reason = format!("node {}: expected one below {allowed}", end - 1);
            return Err(place.refuse(&reason));
        }
        if end > *n_nodes {
            (*n_nodes, self.largest_node) = (end, place.kept());
        }
        let end = u64::from(relation) + 1;
        if end > *n_relations {
            (*n_relations, self.largest_relation) = (end, place.kept());
        }
        self.edge(source, relation, target);
        Ok(())
    }

    fn edge(&mut self, source: u32, relation: u32, target: u32) {
        self.sources.push(source);
        self.relations.push(relation);
        self.targets.push(target);
    }

    /// Counts a bad line, or ends the import where there are more than allowed.
    pub(super) fn bad_line(&mut self, place: Place<'_>, reason: &str) -> Result<(), Error> {
        let max = self.options.max_bad_lines;
        if self.report.bad_lines < max {
            self.report.add_bad_line(BadLine {
                file: place.file.to_owned(),
                line: place.line,
                column: place.column as u64,
                reason: reason.to_owned(),
            });
            return Ok(());
        }
        let reason = match max {
            0 => reason.to_owned(),
            _ => format!("{reason} (the bad line after {max} others, which is the limit)"),
        };
        Err(place.refuse(&reason))
    }

    /// Reads the lines that are not blank; one that is no text is a bad line.
    pub(super) fn read_text(
        &mut self,
        mut lines: Lines<'_>,
        mut read: impl FnMut(&mut Triples, &str, Place<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some(line) = lines.next_filled()? {
            let place = Place {
                file: line.file,
                line: line.number,
                column: 0,
            };
            match line.text() {
                Ok(text) => read(self, text, place)?,
                Err(column) => {
                    let place = Place { column, ..place };
                    self.bad_line(place, "expected UTF-8, found other bytes")?;
                }
            }
        }
        Ok(())
    }

    /// Of equal triples in one file, all but the first go.
    fn drop_duplicates(&mut self, start: usize) {
        let is_first = first_of_equals(
            &self.sources[start..],
            &self.relations[start..],
            &self.targets[start..],
        );
        let n_edges = is_first.len();
        for column in [&mut self.sources, &mut self.relations, &mut self.targets] {
            let mut kept = start;
            for (edge, &is_first) in is_first.iter().enumerate() {
                column[kept] = column[start + edge];
                kept += usize::from(is_first);
            }
            column.truncate(kept);
        }
        self.report.duplicates_dropped += (n_edges - (self.sources.len() - start)) as u64;
    }

    /// Numbers with gaps: relations may have none, nodes may up to a plausible share.
    fn check_numbers(&self, n_nodes: u64, n_relations: u64) -> Result<(), Error> {
        let n_edges = self.sources.len() as u64;
        let asked = u64::from(self.options.n_nodes.unwrap_or(0));
        if asked > MOST_ASKED + 64 * n_edges {
            let expected = format!("at most {} for {n_edges} edges", MOST_ASKED + 64 * n_edges);
            return Err(Error::config("nodes", asked, &expected));
        }
        let most = (4 << 20) + 64 * n_edges;
        if n_nodes > most && self.options.n_nodes.is_none() {
            let reason = format!(
                "node ids up to {} for {n_edges} edges are not plausible: say how many nodes there are (`n_nodes`; --nodes of the program)",
                n_nodes - 1
            );
            return Err(self.largest_node.refuse(&reason));
        }
        if let Some(asked) = self.options.n_relations {
            let expected = match u64::from(asked) {
                asked if asked < n_relations => {
                    format!("at least {n_relations}, by the largest id")
                }
                asked if asked > MOST_RELATIONS => format!("at most {MOST_RELATIONS}"),
                _ => return Ok(()),
            };
            return Err(Error::config("relations", asked, &expected));
        }
        self.check_relations(n_relations)
    }

    /// Every relation has an edge: a gap is more likely a slip than meant.
    fn check_relations(&self, n_relations: u64) -> Result<(), Error> {
        let mut used = self.relations.clone();
        used.sort_unstable();
        used.dedup();
        let gap = used
            .iter()
            .zip(0..)
            .find(|&(&relation, idx)| relation != idx);
        match gap {
            None => Ok(()),
            Some((_, empty)) => {
                let reason = format!(
                    "relation {empty} has no edge: expected relations 0 to {} without a gap, or their number (`n_relations`; --relations of the program), or numbers that are names (--input-format csv)",
                    n_relations - 1
                );
                Err(self.largest_relation.refuse(&reason))
            }
        }
    }
}

/// The most nodes that a user may claim without edges; each edge allows 64 more.
const MOST_ASKED: u64 = 1 << 28;

/// The most relations that a user may claim: as many as `ba-rel` makes. Each costs memory, whether
/// it has edges or not.
const MOST_RELATIONS: u64 = 1 << 24;

/// A place in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub(crate) file: &'p str,
    pub(crate) line: u64,
    pub(crate) column: usize,
}

/// A line of a file; of none where nothing was read.
#[derive(Debug, Default)]
struct FileLine {
    file: String,
    line: u64,
}

impl FileLine {
    fn refuse(&self, reason: &str) -> Error {
        match self.file.is_empty() {
            true => Error::new(Error::Graph, reason),
            false => Error::at(Error::Graph, &self.file, self.line, 0, reason),
        }
    }
}

impl Place<'_> {
    /// File and line, to be named later.
    fn kept(self) -> FileLine {
        FileLine {
            file: self.file.to_owned(),
            line: self.line,
        }
    }

    pub(crate) fn refuse(self, reason: &str) -> Error {
        Error::at(
            Error::Graph,
            self.file,
            self.line,
            self.column as u64,
            reason,
        )
    }
}

/// For each edge, whether no equal one comes before it.
fn first_of_equals(sources: &[u32], relations: &[u32], targets: &[u32]) -> Vec<bool> {
    let column = |id: u32, shift: u32| u128::from(id) << shift;
    let edges = sources.iter().zip(relations).zip(targets).zip(0u32..);
    let mut keys: Vec<u128> = edges
        .map(|(((&s, &r), &t), edge)| {
            column(s, 96) | column(r, 64) | column(t, 32) | u128::from(edge)
        })
        .collect();
    keys.sort_unstable();
    let mut is_first = vec![true; sources.len()];
    for pair in keys.windows(2) {
        if pair[0] >> 32 == pair[1] >> 32 {
            is_first[pair[1] as u32 as usize] = false;
        }
    }
    is_first
}
