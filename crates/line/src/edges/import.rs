//! Import: from a text file to a store file, in bounded memory.
//!
//! The text is read, degrees are counted and the edges are spilled as numbers; text ids go to files
//! and are numbered from there. Then the edges go to their buckets through one small buffer a
//! bucket. The file appears under its name when it is complete and on disk. The next import removes
//! the scratch files of a killed one, or goes on from them if it had read all of the same text.

mod names;
pub(super) mod options;
mod resume_point;
mod scatter;
mod scratch_names;
mod sink;

use std::path::Path;

use shardgraph_graph::{Labels, NamedEdgeSink, WeightPolicy, stream_named};
use shardgraph_storage::{ScratchFile, regular_target};

use super::beside::beside;
use super::build::new_head;
use super::labels::LabelSpool;
use super::{Store, check_parts};
use crate::Error;
use crate::edges::partition::{DegreePartition, by_falling_degree, ranks_of};
use options::per_node;
pub use options::{ImportOptions, ImportProgress, ImportStage, Imported, InputSummary};
use resume_point::{ParsedGraph, ResumePoint};
use scratch_names::{ScratchNames, remove_leftovers};
use sink::Sink;

/// Reads a graph file (plain, `.gz` or `.zst`) and writes a store's file.
///
/// ```
/// use shardgraph_line::{ImportOptions, Store, import_file};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (text, path) = (folder.path().join("follows.txt"), folder.path().join("follows.store"));
/// std::fs::write(&text, "ann bob\nbob cid\n").unwrap();
/// let imported = import_file(&text, &path, &ImportOptions::default())?;
/// assert_eq!((imported.n_nodes, imported.n_edges), (3, 2));
/// assert_eq!(Store::open(&path)?.labels()?.get(2), "cid");
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// What the reader refuses; [`Error::Graph`] for a negative weight; [`Error::Memory`] where the
/// nodes alone pass the limit; [`Error::Io`], also where `out` is a device or a pipe. No file is
/// left then.
///
/// # Complexity
/// The text is read twice (the first time for the ids), the edges are written twice and read twice
/// as numbers. Memory: 24 B a node (integer ids that are no range of numbers 8 B more), and up to 1
/// MiB a bucket. Text ids are written two times more, and take 28 B a node and a 64th of their
/// table.
pub fn import_file(graph: &Path, out: &Path, options: &ImportOptions) -> Result<Imported, Error> {
    let mut read = options.read.clone();
    read.weights = match options.weighted {
        true => WeightPolicy::ThirdColumn,
        false => WeightPolicy::Ignore,
    };
    read.max_id_bytes = Some(options.id_bytes());
    let source = options
        .source
        .clone()
        .or_else(|| ImportOptions::source_of(graph));
    let options = ImportOptions {
        source,
        ..options.clone()
    };
    import_stream(out, &options, &mut |_| {}, |sink| {
        Ok(InputSummary::of(stream_named(graph, &read, sink)?))
    })
}

/// As [`import_file`], from anything that gives edges to the sink.
///
/// # Errors
/// As [`import_file`], and those of `feed`.
pub fn import_stream(
    out: &Path,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress),
    feed: impl FnOnce(&mut dyn NamedEdgeSink) -> Result<InputSummary, shardgraph_graph::Error>,
) -> Result<Imported, Error> {
    check_parts(options.parts.unwrap_or(1))?;
    let out = regular_target(out).map_err(|e| Error::io("write", out, e))?;
    let scratch = ImportScratch::claim(&out, options)?;
    import_into(&out, &scratch, options, progress, feed)
}

/// As [`import_stream`], with given scratch files.
fn import_into(
    out: &Path,
    scratch: &ImportScratch,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress),
    feed: impl FnOnce(&mut dyn NamedEdgeSink) -> Result<InputSummary, shardgraph_graph::Error>,
) -> Result<Imported, Error> {
    let stem = scratch.names.stem();
    let mut parsed = match &scratch.resume_point {
        Some(point) => ParsedGraph::resume(point, stem, options, progress)?,
        None => {
            let mut parsed = parse(Sink::new(stem, options, progress), options, feed)?;
            parsed.keep(options)?;
            parsed
        }
    };
    let n_nodes = parsed.n_nodes;
    let n_edges = parsed.sink.n_edges;
    let usual = || options.parts_for(n_nodes, n_edges);
    let n_parts = options.parts.unwrap_or_else(usual);
    let buffer = options.buffer(n_nodes, n_parts)?;
    let mut degrees = std::mem::take(&mut parsed.sink.degrees);
    degrees.resize(n_nodes as usize, 0.0);
    let (order, label_bytes) = (by_falling_degree(&degrees), parsed.labels.bytes());
    let mut head = new_head(
        DegreePartition { n_nodes, n_parts },
        &degrees,
        order,
        label_bytes,
    );
    drop(degrees);
    head.is_directed = options.directed;
    head.is_weighted = options.weighted;
    let ranks = ranks_of(&head.order);
    let file_bytes = scatter::scatter(&mut head, &ranks, &mut parsed, out, buffer as usize)?;
    Ok(Imported {
        n_nodes,
        n_edges: head.counts.iter().sum(),
        n_parts,
        file_bytes,
        memory: per_node(n_nodes) + buffer * u64::from(n_parts) * u64::from(n_parts),
        self_loops_dropped: parsed.self_loops_dropped,
        zero_weights: parsed.zero_weights,
        is_resumed: scratch.resume_point.is_some(),
    })
}

/// Reads all of a graph.
fn parse<'s>(
    mut sink: Sink<'s>,
    options: &ImportOptions,
    feed: impl FnOnce(&mut dyn NamedEdgeSink) -> Result<InputSummary, shardgraph_graph::Error>,
) -> Result<ParsedGraph<'s>, Error> {
    let summary = feed(&mut sink)?;
    sink.count_degrees();
    let (n_nodes, labels) = match &summary.nodes {
        Some((n_nodes, labels)) => (*n_nodes, spooled(labels, sink.stem, options)?),
        None => {
            let labels = sink.number_names()?;
            (labels.len() as u32, labels)
        }
    };
    if sink.degrees.len() > n_nodes as usize || labels.len() != u64::from(n_nodes) {
        let (n_labels, n_seen) = (labels.len(), sink.degrees.len());
        let message = format!(
            "{n_nodes} nodes, {n_labels} labels, edges up to node {n_seen}: expected one number"
        );
        return Err(Error::graph(message));
    }
    Ok(ParsedGraph::new(sink, labels, n_nodes).counted(&summary))
}

/// As [`import_stream`], to a scratch file beside `near` that loses its name when it is open: it
/// goes with the store, even if the process is killed.
///
/// # Errors
/// As [`import_stream`], and those of [`Store::open`].
pub fn import_scratch(
    near: &Path,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress),
    feed: impl FnOnce(&mut dyn NamedEdgeSink) -> Result<InputSummary, shardgraph_graph::Error>,
) -> Result<(Store, Imported), Error> {
    check_parts(options.parts.unwrap_or(1))?;
    let scratch = ImportScratch::claim(near, options)?;
    let path = beside(scratch.names.stem(), "store");
    let _file = ScratchFile::new(path.clone());
    let imported = import_into(&path, &scratch, options, progress, feed)?;
    Ok((Store::open(&path)?, imported))
}

/// Labels of a reader, out of memory.
fn spooled(labels: &Labels, stem: &Path, options: &ImportOptions) -> Result<LabelSpool, Error> {
    let mut spool = LabelSpool::new(stem, "labels", options.room());
    let mut label = Vec::new();
    for v in 0..labels.n_nodes() {
        label.clear();
        labels
            .write_label(v, &mut label)
            .and_then(|()| spool.push(&label))
            .map_err(|e| Error::io("write", spool.path(), e))?;
    }
    Ok(spool)
}

/// Names of an import's scratch files, and where a killed import of the same graph had come.
struct ImportScratch {
    names: ScratchNames,
    resume_point: Option<ResumePoint>,
}

impl ImportScratch {
    /// Removes the scratch files of killed imports, or takes over those of one that had read this
    /// graph.
    fn claim(out: &Path, options: &ImportOptions) -> Result<ImportScratch, Error> {
        let resumed = remove_leftovers(out, |stem| ResumePoint::read(stem, options));
        let resumed = resumed.map_err(|e| Error::io("tidy beside", out, e))?;
        let (names, resume_point) = match resumed {
            Some((names, point)) => (names, Some(point)),
            None => {
                let names = ScratchNames::new(out);
                (names.map_err(|e| Error::io("write beside", out, e))?, None)
            }
        };
        Ok(ImportScratch {
            names,
            resume_point,
        })
    }
}
