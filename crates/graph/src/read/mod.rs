//! Reading graph files: choose a format, stream the edges, report what was merged or dropped on the way.

mod detect;
mod dimacs;
pub(crate) mod edge_list;
mod fields;
mod graphml;
mod gset;
mod ids;
mod lines;
mod matrix_market;
mod metis;
mod ml4co;
mod names;
mod pace;
mod tally;

use crate::{
    EdgeSink, Error, ErrorKind, Format, Graph, GraphBuilder, ImportReport, Labels, NamedEdgeSink,
};
use shardgraph_storage::Source;
use std::path::Path;
use tally::Tally;

/// Policy for input that is not quite an undirected simple graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Take it as the nearest undirected simple graph and count in the [`ImportReport`] what was merged or dropped.
    #[default]
    Report,
    /// Fail with [`ErrorKind::Policy`].
    Refuse,
}

/// Choice of the numbers that become edge weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WeightPolicy {
    /// Those that the format declares: real and integer matrices, METIS files with edge weights. The default.
    #[default]
    Declared,
    /// As `Declared`, and an edge list must have a third column, which is the weight.
    ThirdColumn,
    /// None: weights are checked and dropped.
    Ignore,
}

/// Options of reading a file; the default takes everything that has one plain meaning and reports what it changed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// The format; by default the extension decides, then the content.
    pub format: Option<Format>,
    /// Choice of the numbers that become edge weights.
    pub weights: WeightPolicy,
    /// Edges from a node to itself: dropped by default.
    pub self_loops: Policy,
    /// A pair of nodes listed more than once, in either direction: merged by default, the first weight kept.
    ///
    /// [`stream_graph`] cannot see duplicates; there it is for the receiver to refuse them.
    pub duplicates: Policy,
    /// Entries above the diagonal of a symmetric matrix, which lists only those below: taken by default.
    pub both_triangles: Policy,
    /// A matrix that says it is `general`, so directed: merged to undirected by default.
    pub directed: Policy,
    /// The most nodes that a file may have.
    ///
    /// By default a header's count is believed up to 4,194,304 plus 64 for each edge that is really there, so that a short
    /// file cannot make the program ask for gigabytes. A number given here is believed whatever the edges.
    pub max_nodes: Option<u32>,
    /// Which graph of a file that has several, counted from 0; the first by default.
    pub index: Option<usize>,
    /// The most bytes that the integer ids of an edge list may take while they are made dense; by default as many as they do.
    pub max_id_bytes: Option<u64>,
}

/// A graph and what is to be known about where it came from.
#[derive(Clone, Debug)]
pub struct Import {
    /// The graph.
    pub graph: Graph,
    /// Names of the nodes in the file.
    pub labels: Labels,
    /// Counts of what was merged and dropped.
    pub report: ImportReport,
    /// Node weights, where the file has them (METIS).
    pub node_weights: Option<NodeWeights>,
}

/// Result of [`stream_graph`] at the end of the stream.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// Nodes, isolated ones included; the ids of the edges are `0..n_nodes`.
    pub n_nodes: u32,
    /// True if the weights of the edges mean anything.
    pub weighted: bool,
    /// Names of the nodes in the file.
    pub labels: Labels,
    /// Counts of what was dropped; the receiver fills in `duplicates_merged` and `weight_conflicts`.
    pub report: ImportReport,
    /// Node weights, where the file has them (METIS).
    pub node_weights: Option<NodeWeights>,
}

/// Result of [`stream_named`] at the end of the stream.
#[derive(Clone, Debug)]
pub enum StreamedNames {
    /// The edges came as numbers.
    Numbered(Streamed),
    /// The ids are text, and the edges came with them; how many nodes there are is for the sink to know.
    Named(ImportReport),
}

/// One or more weights for each node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeWeights {
    /// Weights per node, at least 1.
    pub n_per_node: u32,
    /// `n_nodes * n_per_node` weights, node after node.
    pub values: Vec<f32>,
}

/// Reads a graph from a plain, `.gz` or `.zst` file.
///
/// ```no_run
/// use shardgraph_graph::{ReadOptions, read_graph};
///
/// let import = read_graph("wiki-Vote.txt.gz".as_ref(), &ReadOptions::default())?;
/// print!("{}", import.report);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be read, is damaged or malformed, or holds what `options` refuses; with line and column.
///
/// # Complexity
/// Memory: 8 B per listed edge and the graph. Edge lists and METIS files are read twice (pipes are buffered whole).
pub fn read_graph(path: &Path, options: &ReadOptions) -> Result<Import, Error> {
    collect(&Source::open(path)?, options)
}

/// As [`read_graph`], from memory; `name` serves for the format and for messages.
///
/// # Errors
/// As [`read_graph`].
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Import, Error> {
    collect(&Source::from_bytes(name, bytes)?, options)
}

/// Reads a graph edge by edge into `sink`, without an edge list in memory.
///
/// Ids are those of the file less one for formats that number nodes from 1. In an edge list integer ids become dense in
/// ascending order (a first pass finds them, in memory proportional to the nodes); text ids in order of first sight.
///
/// # Errors
/// As [`read_graph`], and those of the sink, placed at the line in hand.
///
/// # Complexity
/// O(bytes) time; memory O(nodes) for edge lists (ids) and METIS (row checks), O(1) for the others.
pub fn stream_graph(
    path: &Path,
    options: &ReadOptions,
    sink: &mut dyn EdgeSink,
) -> Result<Streamed, Error> {
    stream_source(&Source::open(path)?, options, sink)
}

/// As [`stream_graph`], from memory.
///
/// # Errors
/// As [`stream_graph`].
pub fn stream_bytes(
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
    sink: &mut dyn EdgeSink,
) -> Result<Streamed, Error> {
    stream_source(&Source::from_bytes(name, bytes)?, options, sink)
}

/// As [`stream_graph`], but an edge list with text ids is given by them: the reader holds no label.
///
/// ```
/// use shardgraph_graph::{EdgeSink, Error, NamedEdgeSink, ReadOptions, StreamedNames, stream_named};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("follows.txt");
///
/// #[derive(Default)]
/// struct Names(Vec<String>);
/// impl EdgeSink for Names {
///     fn edge(&mut self, u: u32, v: u32, _weight: f32) -> Result<(), Error> {
///         Ok(self.0.extend([u.to_string(), v.to_string()]))
///     }
/// }
/// impl NamedEdgeSink for Names {
///     fn named_edge(&mut self, u: &str, v: &str, _weight: f32) -> Result<(), Error> {
///         Ok(self.0.extend([u.to_owned(), v.to_owned()]))
///     }
/// }
///
/// std::fs::write(&path, "ann bob\nbob cid\n").unwrap();
/// let mut names = Names::default();
/// let streamed = stream_named(&path, &ReadOptions::default(), &mut names)?;
/// assert!(matches!(streamed, StreamedNames::Named(report) if report.listed_edges == 2));
/// assert_eq!(names.0, ["ann", "bob", "bob", "cid"]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`stream_graph`].
///
/// # Complexity
/// As [`stream_graph`], and O(1) memory for text ids.
pub fn stream_named(
    path: &Path,
    options: &ReadOptions,
    sink: &mut dyn NamedEdgeSink,
) -> Result<StreamedNames, Error> {
    let source = Source::open(path)?;
    let (format, format_source) = detect::format(&source, options.format)?;
    match format {
        Format::EdgeList => {
            let report = ImportReport::new(format, format_source, source.compression());
            edge_list::read_named(&source, report, options, sink)
        }
        _ => stream_source(&source, options, sink).map(StreamedNames::Numbered),
    }
}

fn collect(source: &Source<'_>, options: &ReadOptions) -> Result<Import, Error> {
    let mut builder = GraphBuilder::new();
    let streamed = stream_source(source, options, &mut builder)?;
    let built = builder
        .finish_counted(streamed.n_nodes, streamed.weighted)
        .map_err(|e| e.or_at(source.name(), 0, 0))?;
    if built.duplicates_merged > 0 && options.duplicates == Policy::Refuse {
        let n = built.duplicates_merged;
        let message =
            format!("{n} edges are listed more than once, and duplicates are to be refused");
        return Err(Error::new(ErrorKind::Policy, message).or_at(source.name(), 0, 0));
    }
    let mut report = streamed.report;
    report.duplicates_merged = built.duplicates_merged;
    report.weight_conflicts = built.weight_conflicts;
    Ok(Import {
        graph: built.graph,
        labels: streamed.labels,
        report,
        node_weights: streamed.node_weights,
    })
}

fn stream_source(
    source: &Source<'_>,
    options: &ReadOptions,
    sink: &mut dyn EdgeSink,
) -> Result<Streamed, Error> {
    let (format, format_source) = detect::format(source, options.format)?;
    if options.index.is_some_and(|index| index > 0) && format != Format::Ml4co {
        let message = format!("a file of format {format} has one graph: expected index 0 or none");
        return Err(Error::new(ErrorKind::Argument, message).or_at(source.name(), 0, 0));
    }
    let report = ImportReport::new(format, format_source, source.compression());
    let mut tally = Tally::new(sink, options, report);
    match format {
        Format::MatrixMarket => matrix_market::read(source, tally),
        Format::EdgeList => edge_list::read(source, tally),
        Format::Dimacs => dimacs::read(source, tally),
        Format::Metis => metis::read(source, &mut tally).map(|weights| weights.attach(tally)),
        Format::Pace => pace::read(source, tally),
        Format::Gset => gset::read(source, tally),
        Format::Ml4co => ml4co::read(source, tally),
        Format::GraphMl => graphml::read(source, tally),
    }
}
