//! Receiver of an import's edges: counts degrees and spills the edges as numbers, or the names of
//! their ends.

use std::io::{self, Read as _};
use std::path::Path;

use shardgraph_graph::{EdgeSink, NamedEdgeSink};
use shardgraph_storage::{Hasher, SpillFile};

use super::names::Names;
use super::options::{ImportOptions, ImportProgress, ImportStage, REPORT_EVERY};
use crate::Error;
use crate::edges::beside::beside;
use crate::edges::labels::LabelSpool;

/// Edges that are worked on together: lookups of nodes all over memory wait for one another where
/// other work lies between them, and overlap in a loop that does nothing else.
pub(super) const BATCH: usize = 1024;

/// An edge by numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) u: u32,
    pub(super) v: u32,
    /// 1 where weights do not count.
    pub(super) weight: f32,
}

/// The edges as numbers on disk, and the degrees so far.
pub(super) struct Sink<'s> {
    /// Beginning of the names of scratch files.
    pub(super) stem: &'s Path,
    progress: &'s mut dyn FnMut(ImportProgress),
    is_weighted: bool,
    memory: u64,
    pub(super) edges: SpillFile,
    pub(super) n_edges: u64,
    /// The fingerprint that the edges must have, where an import that was killed has read them.
    pub(super) expected: Option<u64>,
    pub(super) degrees: Vec<f64>,
    /// Edges without weights that are not in the degrees yet: [`Sink::count_degrees`].
    uncounted: Vec<[u32; 2]>,
    names: Names,
    /// Of the edges by name, where weights count.
    weights: SpillFile,
    n_named: u64,
}

impl<'s> Sink<'s> {
    pub(super) fn new(
        stem: &'s Path,
        options: &ImportOptions,
        progress: &'s mut dyn FnMut(ImportProgress),
    ) -> Sink<'s> {
        let room = options.room();
        Sink {
            stem,
            progress,
            is_weighted: options.weighted,
            memory: options.memory,
            edges: SpillFile::new(beside(stem, "edges"), 4 * room),
            n_edges: 0,
            expected: None,
            degrees: Vec::new(),
            uncounted: Vec::with_capacity(BATCH),
            names: Names::new(stem, room),
            weights: SpillFile::new(beside(stem, "weights"), room),
            n_named: 0,
        }
    }

    /// Drops the edges.
    pub(super) fn clear(&mut self) {
        self.edges = SpillFile::new(beside(self.stem, "none"), 0);
        self.n_edges = 0;
    }

    pub(super) fn report(&mut self, stage: ImportStage, edges: u64, n_edges: Option<u64>) {
        if edges.is_multiple_of(REPORT_EVERY) {
            (self.progress)(ImportProgress {
                stage,
                edges,
                n_edges,
            });
        }
    }

    /// Takes an edge by numbers.
    fn add(&mut self, u: u32, v: u32, weight: f32) -> Result<(), shardgraph_graph::Error> {
        let largest = u.max(v) as usize;
        if largest >= self.degrees.len() {
            // A vector that grows may have room for twice as many.
            if 16 * (largest as u64 + 1) > self.memory {
                let message = format!(
                    "memory = {}: {} nodes do not fit: raise the limit",
                    self.memory,
                    largest + 1
                );
                return Err(refused(message));
            }
            self.degrees.resize(largest + 1, 0.0);
        }
        if self.is_weighted {
            self.add_weight(u, weight)?;
            self.add_weight(v, weight)?;
        } else {
            self.uncounted.push([u, v]);
            if self.uncounted.len() == BATCH {
                self.count_degrees();
            }
        }
        self.n_edges += 1;
        let mut record = [0; 12];
        record[..4].copy_from_slice(&u.to_le_bytes());
        record[4..8].copy_from_slice(&v.to_le_bytes());
        record[8..].copy_from_slice(&weight.to_le_bytes());
        let written = self.edges.write(&record[..self.record()]);
        written.map_err(|e| shardgraph_graph::Error::io("write", self.edges.path(), e))
    }

    /// Adds the edges without weights that came last to the degrees.
    pub(super) fn count_degrees(&mut self) {
        for &[u, v] in &self.uncounted {
            self.degrees[u as usize] += 1.0;
            self.degrees[v as usize] += 1.0;
        }
        self.uncounted.clear();
    }

    fn add_weight(&mut self, end: u32, weight: f32) -> Result<(), shardgraph_graph::Error> {
        let sum = &mut self.degrees[end as usize];
        *sum += f64::from(weight);
        if *sum > f64::from(f32::MAX) {
            let message =
                format!("expected weights whose sum at a node is below 3.4e38, found {sum:e}");
            return Err(refused(message));
        }
        Ok(())
    }

    /// Bytes of a spilled edge.
    pub(super) fn record(&self) -> usize {
        if self.is_weighted { 12 } else { 8 }
    }

    /// The weight that counts.
    fn weight(&self, weight: f32) -> Result<f32, shardgraph_graph::Error> {
        let weight = if self.is_weighted { weight } else { 1.0 };
        match weight >= 0.0 && weight.is_finite() {
            true => Ok(weight),
            false => {
                let message = format!("expected a weight of 0 or more, found {weight}");
                Err(refused(message))
            }
        }
    }

    /// Turns the edges by name into edges by number; returns the labels.
    pub(super) fn number_names(&mut self) -> Result<LabelSpool, Error> {
        let (stem, memory) = (self.stem, self.memory / 2);
        let names = std::mem::replace(&mut self.names, Names::new(stem, 0));
        let no_weights = SpillFile::new(beside(stem, "no-weights"), 0);
        let weights = std::mem::replace(&mut self.weights, no_weights);
        let mut weights = weights.read();
        let (mut from, n_named) = (None, self.n_named);
        let mut n_done = 0;
        let take = |end: u32| {
            let Some(u) = from.take() else {
                from = Some(end);
                return Ok(());
            };
            let mut weight = 1.0f32.to_le_bytes();
            if self.is_weighted {
                let read = weights.read_exact(&mut weight);
                read.map_err(|e| Error::io("read the weights of", stem, e))?;
            }
            n_done += 1;
            self.report(ImportStage::Numbering, n_done, Some(n_named));
            match u == end {
                true => Ok(()), // a loop: only its node counts
                false => self
                    .add(u, end, f32::from_le_bytes(weight))
                    .map_err(|e| Error::graph(format!("edge {n_done} of the list: {e}"))),
            }
        };
        let labels = names.number(stem, memory, take)?;
        self.count_degrees();
        Ok(labels)
    }

    /// Gives all edges to `take`, up to [`BATCH`] at a time with the number of the first; their ends
    /// are below `n_nodes`.
    pub(super) fn replay(
        &mut self,
        stage: ImportStage,
        n_nodes: u32,
        mut take: impl FnMut(u64, &[Edge]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let edges = std::mem::replace(
            &mut self.edges,
            SpillFile::new(beside(self.stem, "none"), 0),
        );
        let at = |e: io::Error| Error::io("read", edges.path(), e);
        let damaged = || Error::file(edges.path(), "damaged: import the graph again");
        let len = self.record();
        let (mut bytes, mut batch) = (vec![0; BATCH * len], Vec::with_capacity(BATCH));
        let mut input = edges.read();
        let mut fingerprint = Hasher::new();
        let mut number = 0;
        while number < self.n_edges {
            let n = (self.n_edges - number).min(BATCH as u64);
            let bytes = &mut bytes[..n as usize * len];
            input.read_exact(bytes).map_err(at)?;
            if self.expected.is_some() {
                fingerprint.update(bytes);
            }
            batch.clear();
            batch.extend(bytes.chunks_exact(len).map(edge_of));
            if batch
                .iter()
                .any(|edge: &Edge| edge.u.max(edge.v) >= n_nodes)
            {
                return Err(damaged());
            }
            take(number, &batch)?;
            number += n;
            self.report(stage, number, Some(self.n_edges));
        }
        if self
            .expected
            .is_some_and(|expected| expected != fingerprint.finish())
        {
            return Err(damaged());
        }
        drop(input);
        self.edges = edges;
        Ok(())
    }
}

/// The edge of a record, with or without a weight.
fn edge_of(record: &[u8]) -> Edge {
    let word = |i: usize| [record[i], record[i + 1], record[i + 2], record[i + 3]];
    Edge {
        u: u32::from_le_bytes(word(0)),
        v: u32::from_le_bytes(word(4)),
        weight: match record.len() {
            12 => f32::from_le_bytes(word(8)),
            _ => 1.0,
        },
    }
}

fn refused(message: String) -> shardgraph_graph::Error {
    shardgraph_graph::Error::new(shardgraph_graph::ErrorKind::Sink, message)
}

impl EdgeSink for Sink<'_> {
    fn edge(&mut self, u: u32, v: u32, weight: f32) -> Result<(), shardgraph_graph::Error> {
        let weight = self.weight(weight)?;
        self.add(u, v, weight)?;
        self.report(ImportStage::Reading, self.n_edges, None);
        Ok(())
    }
}

impl NamedEdgeSink for Sink<'_> {
    fn named_edge(&mut self, u: &str, v: &str, weight: f32) -> Result<(), shardgraph_graph::Error> {
        let weight = self.weight(weight)?;
        let mut push = || {
            self.names.push(u)?;
            self.names.push(v)?;
            match self.is_weighted {
                true => self.weights.write(&weight.to_le_bytes()),
                false => Ok(()),
            }
        };
        push().map_err(|e| shardgraph_graph::Error::io("write", self.names.path(), e))?;
        self.n_named += 1;
        self.report(ImportStage::Reading, self.n_named, None);
        Ok(())
    }
}
