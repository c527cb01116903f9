//! Options, progress and result of an import.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use shardgraph_graph::{Labels, ReadOptions, StreamedNames};

use crate::edges::Store;
use crate::{DeviceMemory, Error};

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
    /// Memory of the device that will train: there are as few parts as fit there. Default: none, the
    /// host trains.
    pub device: Option<DeviceMemory>,
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
            device: None,
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
pub(in crate::edges) const REPORT_EVERY: u64 = 1 << 18;

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
    pub(super) fn room(&self) -> usize {
        (self.memory / 1024).clamp(1 << 10, 1 << 18) as usize
    }

    /// The fewest parts that fit a device; for the host the default ones, or as many that 32 of them fit
    /// in memory: 8 groups of 4, for threads.
    pub(in crate::edges) fn parts_for(&self, n_nodes: u32, n_edges: u64) -> u32 {
        let table = u64::from(n_nodes).saturating_mul(self.row_bytes);
        let needed = table.saturating_mul(32).div_ceil(self.memory.max(1));
        let needed = needed.clamp(1, 1024).next_power_of_two();
        // More parts than rows would be empty ones, and the buffers of buckets are to fit too.
        let rows = u64::from(n_nodes.max(1));
        let left = self.memory.saturating_sub(per_node(n_nodes));
        let buffers = (left / LEAST_ROOM).isqrt().max(1);
        let most = 1 << rows.min(buffers).ilog2();
        if let Some(memory) = &self.device {
            let fewest = memory.fewest_parts(n_nodes, n_edges, self.weighted);
            return fewest.min(most.max(16) as u32);
        }
        let usual = Store::default_parts(n_nodes);
        usual.min(most.max(16) as u32).max(needed.min(most) as u32)
    }

    /// A buffer for each bucket, in bytes.
    pub(super) fn buffer(&self, n_nodes: u32, n_parts: u32) -> Result<u64, Error> {
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
pub(super) fn per_node(n_nodes: u32) -> u64 {
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
