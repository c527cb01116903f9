//! Import: from a text file to a store file, in bounded memory.
//!
//! The text is read, degrees are counted and the edges are spilled as numbers; text ids go to files
//! and are numbered from there. Then the edges go to their buckets through one small buffer a
//! bucket. The file appears under its name when it is complete and on disk. The next import removes
//! the scratch files of a killed one, or goes on from them if it had read all of the same text.

mod names;
mod resume_point;
mod scatter;
mod scratch_names;
mod sink;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use shardgraph_graph::{
    Labels, NamedEdgeSink, ReadOptions, StreamedNames, WeightPolicy, stream_named,
};
use shardgraph_storage::{ScratchFile, regular_target};

use super::build::new_head;
use super::labels::LabelSpool;
use super::{Store, check_parts};
use crate::Error;
use crate::edges::partition::{DegreePartition, by_falling_degree, ranks_of};
use resume_point::{ParsedGraph, ResumePoint};
use scratch_names::{ScratchNames, remove_leftovers};
use sink::Sink;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Directions count.
    pub directed: bool,
    /// Edges are sampled by weight (the third column of an edge list).
    pub weighted: bool,
    /// Parts of each table, a power of two; by default [`Store::default_parts`] of the nodes.
    pub parts: Option<u32>,
    /// Bytes that importing may hold in memory.
    pub memory: u64,
    /// Bytes of a row of the tables that will be trained: default 512, 128 columns of fp32. There
    /// are more parts where 32 of the default ones would not fit in `memory`.
    pub row_bytes: u64,
    /// Identity of the input and its version, as [`ImportOptions::source_of`] gives it for a file.
    ///
    /// An import that was killed behind its reading is resumed by the next one of the same source
    /// to the same name. Default: none, every import begins anew.
    pub source: Option<String>,
    /// Options of the reader; `weighted` sets its `weights`, and `memory` its `max_id_bytes`.
    pub read: ReadOptions,
}

impl Default for ImportOptions {
    /// Undirected, without weights, 4 GiB.
    fn default() -> ImportOptions {
        ImportOptions {
            directed: false,
            weighted: false,
            parts: None,
            memory: 4 << 30,
            row_bytes: 512,
            source: None,
            read: ReadOptions::default(),
        }
    }
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Nodes.
    pub n_nodes: u32,
    /// Edges as listed, without loops.
    pub n_edges: u64,
    /// Parts of each table.
    pub n_parts: u32,
    /// Bytes of the file that was written.
    pub file_bytes: u64,
    /// Largest number of bytes that importing held in memory, by its own count.
    pub memory: u64,
    /// Edges from a node to itself that were left out, as far as the reader counts them.
    pub self_loops_dropped: u64,
    /// Edges of weight 0, as far as the reader counts them.
    pub zero_weights: u64,
    /// True if the graph was not read, because a killed import had read it.
    pub is_resumed: bool,
}

/// What an import does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportStage {
    /// Edges are read; how many there are is not yet known.
    Reading,
    /// Text ids are numbered.
    Numbering,
    /// Edges of each bucket are counted.
    Counting,
    /// Edges go to their buckets.
    Dealing,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportProgress {
    /// What it does.
    pub stage: ImportStage,
    /// Edges that went through this stage.
    pub edges: u64,
    /// Edges in all, once they are read.
    pub n_edges: Option<u64>,
}

/// Reports every so many edges.
pub(super) const REPORT_EVERY: u64 = 1 << 18;

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

impl ImportOptions {
    /// What the reader's table of integer ids may take of `memory`: [`ReadOptions::max_id_bytes`].
    #[must_use]
    pub fn id_bytes(&self) -> u64 {
        self.memory / 2
    }

    /// A file's path, length and time of change, for [`ImportOptions::source`]; `None` where the
    /// system does not know.
    #[must_use]
    pub fn source_of(file: &Path) -> Option<String> {
        let (path, known) = (fs::canonicalize(file).ok()?, fs::metadata(file).ok()?);
        let changed = known.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let (len, nanos) = (known.len(), changed.as_nanos());
        Some(format!("{} {len} {nanos}", path.display()))
    }

    /// Bytes of each scratch file that stay in memory; there are up to 400 such pieces.
    fn room(&self) -> usize {
        (self.memory / 1024).clamp(1 << 10, 1 << 18) as usize
    }

    /// The default parts, or as many that 32 of them fit in memory: 8 groups of 4, for threads.
    pub(super) fn parts_for(&self, n_nodes: u32) -> u32 {
        let table = u64::from(n_nodes).saturating_mul(self.row_bytes);
        let needed = table.saturating_mul(32).div_ceil(self.memory.max(1));
        let needed = needed.clamp(1, 1024).next_power_of_two();
        // More parts than rows would be empty ones, and the buffers of buckets are to fit too.
        let rows = u64::from(n_nodes.max(1));
        let left = self.memory.saturating_sub(per_node(n_nodes));
        let buffers = (left / LEAST_ROOM).isqrt().max(1);
        let most = 1 << rows.min(buffers).ilog2();
        let usual = Store::default_parts(n_nodes);
        usual.min(most.max(16) as u32).max(needed.min(most) as u32)
    }

    /// A buffer for each bucket, in bytes.
    fn buffer(&self, n_nodes: u32, n_parts: u32) -> Result<u64, Error> {
        let n_buckets = u64::from(n_parts) * u64::from(n_parts);
        let left = self.memory.saturating_sub(per_node(n_nodes));
        let buffer = (left / n_buckets).min(1 << 20) / 12 * 12;
        if buffer >= 1200 {
            return Ok(buffer);
        }
        let message = format!(
            "memory = {}: importing {n_nodes} nodes in {n_parts} parts takes {} bytes: raise the limit \
             or take fewer parts",
            self.memory,
            per_node(n_nodes) + 1200 * n_buckets
        );
        Err(Error::memory(message))
    }
}

/// Bytes of the buffer of a bucket, where the number of buckets can be chosen; less would work.
const LEAST_ROOM: u64 = 1600;

/// Bytes of degrees (f64), the order by them, ranks, and the two in the head.
fn per_node(n_nodes: u32) -> u64 {
    24 * u64::from(n_nodes)
}

/// What a reader found besides the edges.
#[derive(Debug, Default)]
pub struct InputSummary {
    /// The number of nodes and their labels, or `None` where the edges came with text ids.
    pub nodes: Option<(u32, Labels)>,
    /// Edges from a node to itself that were left out.
    pub self_loops_dropped: u64,
    /// Edges of weight 0.
    pub zero_weights: u64,
}

impl InputSummary {
    /// Summary of a reader's result.
    #[must_use]
    pub fn of(streamed: StreamedNames) -> InputSummary {
        let (report, nodes) = match streamed {
            StreamedNames::Numbered(all) => (all.report, Some((all.n_nodes, all.labels))),
            StreamedNames::Named(report) => (report, None),
        };
        InputSummary {
            nodes,
            self_loops_dropped: report.self_loops_dropped,
            zero_weights: report.zero_weights,
        }
    }
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
    let n_parts = options.parts.unwrap_or_else(|| options.parts_for(n_nodes));
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

/// `STEM-what` in the same folder.
pub(super) fn beside(stem: &Path, what: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push("-");
    name.push(what);
    name.into()
}
