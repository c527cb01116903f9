//! Readers of relational graphs: five forms of triples, packed or not, into one id space; label files; pruning of the data.
//!
//! Node and relation ids are given in the order of first sight where names are text, and are those of the file where it has numbers.
//! What was dropped or assumed stands in the [`ImportReport`].
//!
//! ```
//! use shardgraph_rgcn::import::{ImportOptions, Importer};
//!
//! let text = b"<http://a/ann> <http://a/knows> <http://a/bob> .\n<http://a/ann> <http://a/age> \"31\" .\n";
//! let mut importer = Importer::new(ImportOptions::default());
//! importer.add_bytes("people.nt", text)?;
//! let import = importer.finish()?;
//! assert_eq!((import.graph.n_nodes(), import.graph.n_relations()), (3, 2));
//! assert_eq!(import.nodes.find("http://a/bob"), Some(1));
//! assert_eq!(import.nodes.get(2), "\"31\"");
//! # Ok::<(), shardgraph_rgcn::Error>(())
//! ```

mod archive;
mod files;
mod format;
mod integers;
mod label_files;
pub(crate) mod lines;
mod ntriples;
mod prune;
mod report;
mod tab_separated;
mod turtle;

pub use format::TripleFormat;
pub use label_files::{LabelColumns, LabelFiles, LabelledNodes, read_labels};
pub use prune::NewIds;
pub use report::{BadLine, ImportReport};

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_graph::{Interner, Labels as Names, Unpacked};

use crate::graph::MAX_NODES;
use crate::{Error, ErrorKind, RelationalGraph};

/// What becomes of triples whose object is a literal. (R-GCN's authors keep them, DGL drops them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Literals {
    /// A literal is a node; equal literals are one node.
    #[default]
    Keep,
    /// The triple is left out, and counted.
    Drop,
}

/// How files of triples are read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// The form; `None` to go by the name, then by the first line.
    pub format: Option<TripleFormat>,
    /// Which file of a tar archive is meant, by its name with or without folders and endings; `None` for the only one, or the one called `train`.
    pub member: Option<String>,
    /// What becomes of literals.
    pub literals: Literals,
    /// How many lines may be bad; the default, 0, refuses the first one. Turtle has no lines: there the first error always ends it.
    pub max_bad_lines: u64,
    /// How many nodes a file of numbers has; `None` for one more than its largest id.
    pub n_nodes: Option<u32>,
    /// How many relations a file of numbers has, those without an edge among them; `None` for one more than its largest id, each with an edge.
    pub n_relations: Option<u32>,
    /// Whether a triple that a file has twice counts twice; by default it is one, as in a set of triples.
    pub keep_duplicates: bool,
}

/// A graph, what its nodes and relations are called, and what reading it dropped.
#[derive(Clone, Debug)]
pub struct Import {
    /// The graph; its edges come file by file.
    pub graph: RelationalGraph,
    /// What the nodes are called: IRIs without brackets, `_:label`, literals in quotes; or numbers.
    pub nodes: Names,
    /// What the relations are called.
    pub relations: Names,
    /// Which edges came from which file, in the order of the files.
    pub files: Vec<Range<usize>>,
    /// What was dropped, assumed and found.
    pub report: ImportReport,
}

/// Reads one file.
///
/// # Errors
/// Those of [`Importer::add`] and [`Importer::finish`].
///
/// # Complexity
/// Time O(bytes + edges log edges); memory up to 24 B an edge, 16 B more while duplicates are found, and each different name once.
pub fn import_file(path: &Path, options: &ImportOptions) -> Result<Import, Error> {
    let mut importer = Importer::new(options.clone());
    importer.add(path)?;
    importer.finish()
}

/// The names of the files in an archive; none for a file that is no archive by its name.
///
/// # Errors
/// [`ErrorKind::Io`]; [`ErrorKind::Graph`] for a damaged archive.
/// # Complexity
/// Unpacks the whole archive.
pub fn archive_members(path: &Path) -> Result<Vec<String>, Error> {
    let mut unpacked = Unpacked::open(path)?;
    let name = unpacked.name().to_owned();
    if !archive::is_archive(&name) {
        return Ok(Vec::new());
    }
    let members = archive::members(&name, &mut unpacked)?;
    Ok(members.into_iter().map(|member| member.name).collect())
}

/// Reads one or more files into one id space, such as the three splits of a benchmark of link prediction.
#[derive(Debug)]
pub struct Importer {
    options: ImportOptions,
    ids: Option<Ids>,
    sources: Vec<u32>,
    relations: Vec<u32>,
    targets: Vec<u32>,
    files: Vec<Range<usize>>,
    report: ImportReport,
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

impl Importer {
    /// An importer that has read nothing.
    #[must_use]
    pub fn new(options: ImportOptions) -> Importer {
        Importer {
            report: ImportReport::new(options.literals),
            options,
            ids: None,
            sources: Vec::new(),
            relations: Vec::new(),
            targets: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Reads a plain, `.gz` or `.zst` file, or a file of a `.tar`, `.tar.gz`, `.tgz` or `.tar.zst` archive.
    ///
    /// Blank nodes of different files are different nodes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::Graph`] with file, line and reason for what is not of the format, for a damaged or suspiciously
    /// growing stream, for a file without a triple, and for numbers after names or names after numbers.
    pub fn add(&mut self, path: &Path) -> Result<(), Error> {
        self.add_unpacked(Unpacked::open(path)?)
    }

    /// The same for a file of an archive, by its name with or without folders and endings: another one than [`ImportOptions::member`].
    ///
    /// # Errors
    /// As [`Importer::add`].
    pub fn add_member(&mut self, path: &Path, member: &str) -> Result<(), Error> {
        let standard = self.options.member.replace(member.to_owned());
        let result = self.add(path);
        self.options.member = standard;
        result
    }

    /// The same for bytes in memory; `name` stands in messages and may say the format.
    ///
    /// # Errors
    /// As [`Importer::add`].
    pub fn add_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.add_unpacked(Unpacked::from_bytes(name, bytes.to_vec())?)
    }

    fn add_unpacked(&mut self, unpacked: Unpacked) -> Result<(), Error> {
        let start = self.sources.len();
        files::read(self, unpacked)?;
        if !self.options.keep_duplicates {
            self.drop_duplicates(start);
        }
        self.files.push(start..self.sources.len());
        Ok(())
    }

    /// The graph of all files.
    ///
    /// # Errors
    /// [`ErrorKind::Graph`] where no file was read, where a relation of a file of numbers has no edge, or where ids are far beyond what
    /// the edges make plausible.
    pub fn finish(mut self) -> Result<Import, Error> {
        let (nodes, relations) = match self.ids.take() {
            None => {
                let reason = match self.report.triples {
                    0 => "no triple was read".to_owned(),
                    n => format!("all {n} triples have a literal, and literals are dropped"),
                };
                return Err(Error::new(ErrorKind::Graph, reason));
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
        };
        let graph = RelationalGraph::new(
            nodes.n_nodes(),
            relations.n_nodes(),
            self.sources,
            self.relations,
            self.targets,
        )?;
        self.report.count(&graph);
        Ok(Import {
            graph,
            nodes,
            relations,
            files: self.files,
            report: self.report,
        })
    }

    /// An edge between names; in RDF, blank nodes of different files are kept apart.
    pub(crate) fn named(
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
    pub(crate) fn numbered(&mut self, ids: [u32; 3], place: Place<'_>) -> Result<(), Error> {
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
        *n_nodes = end.max(*n_nodes);
        *n_relations = (u64::from(relation) + 1).max(*n_relations);
        self.edge(source, relation, target);
        Ok(())
    }

    fn edge(&mut self, source: u32, relation: u32, target: u32) {
        self.sources.push(source);
        self.relations.push(relation);
        self.targets.push(target);
    }

    /// Counts a bad line, or ends the import where there are more than allowed.
    pub(crate) fn bad_line(&mut self, place: Place<'_>, reason: &str) -> Result<(), Error> {
        let max = self.options.max_bad_lines;
        if self.report.bad_lines < max {
            self.report.add_bad_line(place, reason);
            return Ok(());
        }
        let reason = match max {
            0 => reason.to_owned(),
            _ => format!("{reason} (the bad line after {max} others, which is the limit)"),
        };
        Err(place.refuse(&reason))
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
            return Err(Error::new(ErrorKind::Graph, reason));
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
                    "relation {empty} has no edge: expected relations 0 to {} without a gap, or their number (`n_relations`; --relations of the program)",
                    n_relations - 1
                );
                Err(Error::new(ErrorKind::Graph, reason))
            }
        }
    }
}

/// So many nodes are believed without an edge where the user says how many there are; 64 more for each edge.
const MOST_ASKED: u64 = 1 << 28;

/// So many relations are believed without an edge: what `ba-rel` makes too. Each costs memory, whether it has edges or not.
const MOST_RELATIONS: u64 = 1 << 24;

/// Where in a file something was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub(crate) file: &'p str,
    pub(crate) line: u64,
    pub(crate) column: usize,
}

impl Place<'_> {
    pub(crate) fn refuse(self, reason: &str) -> Error {
        Error::at(
            ErrorKind::Graph,
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

#[cfg(test)]
mod tests;
