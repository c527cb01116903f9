//! Readers of relational graphs: six forms of triples, packed or not, into one id space; label
//! files; pruning of the data.
//!
//! Node and relation ids are given in the order of first sight where names are text, and are those
//! of the file where it has numbers. Everything dropped or assumed stands in the [`ImportReport`].
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
mod columns;
pub(crate) mod fields;
mod files;
mod format;
mod integers;
mod label_files;
pub(crate) mod lines;
mod names;
mod ntriples;
mod options;
mod prune;
mod report;
mod triples;
mod turtle;

pub use format::TripleFormat;
pub use label_files::{LabelColumns, LabelFiles, LabelledNodes, read_labels};
pub use options::{ImportOptions, Literals};
pub use prune::NewIds;
pub use report::{BadLine, ImportReport};

use std::ops::Range;
use std::path::Path;

use shardgraph_graph::Labels as Names;
use shardgraph_storage::Unpacked;

use crate::{Error, RelationalGraph};
use triples::Triples;

/// A graph, the names of its nodes and relations, and the report of its import.
#[derive(Clone, Debug)]
pub struct Import {
    /// The graph; its edges come file by file.
    pub graph: RelationalGraph,
    /// The names of the nodes: IRIs without brackets, `_:label`, literals in quotes; or numbers.
    pub nodes: Names,
    /// The names of the relations.
    pub relations: Names,
    /// The edges of each file, in the order of the files.
    pub files: Vec<Range<usize>>,
    /// Everything dropped, assumed and found.
    pub report: ImportReport,
}

/// Reads one file.
///
/// # Errors
/// Those of [`Importer::add`] and [`Importer::finish`].
///
/// # Complexity
/// Time O(bytes + edges log edges); memory up to 24 B an edge, 16 B more while duplicates are
/// found, and each different name once.
pub fn import_file(path: &Path, options: &ImportOptions) -> Result<Import, Error> {
    let mut importer = Importer::new(options.clone());
    importer.add(path)?;
    importer.finish()
}

/// The names of the files in an archive; none for a file that is no archive by its name.
///
/// # Errors
/// [`Error::Io`]; [`Error::Graph`] for a damaged archive.
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

/// Reads one or more files into one id space, such as the three splits of a benchmark of link
/// prediction.
#[derive(Debug)]
pub struct Importer {
    triples: Triples,
}

impl Importer {
    /// An importer that has read nothing.
    #[must_use]
    pub fn new(options: ImportOptions) -> Importer {
        Importer {
            triples: Triples::new(options),
        }
    }

    /// Reads a plain, `.gz` or `.zst` file, or a file of a `.tar`, `.tar.gz`, `.tgz` or `.tar.zst`
    /// archive.
    ///
    /// Blank nodes of different files are different nodes.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Graph`] with file, line and reason for what is not of the format,
    /// for a damaged or suspiciously growing stream, for a file without a triple, and for numbers
    /// after names or names after numbers.
    pub fn add(&mut self, path: &Path) -> Result<(), Error> {
        self.add_unpacked(Unpacked::open(path)?)
    }

    /// The same for a file of an archive, by its name with or without folders and endings: another
    /// one than [`ImportOptions::member`].
    ///
    /// # Errors
    /// As [`Importer::add`].
    pub fn add_member(&mut self, path: &Path, member: &str) -> Result<(), Error> {
        let standard = self.triples.options.member.replace(member.to_owned());
        let result = self.add(path);
        self.triples.options.member = standard;
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
        self.triples
            .add_file(|triples| files::read(triples, unpacked))
    }

    /// The graph of all files.
    ///
    /// # Errors
    /// [`Error::Graph`] where no file was read, where a relation of a file of numbers has no edge,
    /// or where ids are far beyond what the edges make plausible.
    pub fn finish(mut self) -> Result<Import, Error> {
        let (nodes, relations) = self.triples.names()?;
        let Triples {
            sources,
            relations: columns,
            targets,
            files,
            mut report,
            ..
        } = self.triples;
        let graph = RelationalGraph::new(
            nodes.n_nodes(),
            relations.n_nodes(),
            sources,
            columns,
            targets,
        )?;
        report.count(&graph);
        Ok(Import {
            graph,
            nodes,
            relations,
            files,
            report,
        })
    }
}

#[cfg(test)]
mod tests;
