//! Receiver of an import's edges: counts degrees and spills the edges as numbers, or the names of
//! their ends.

use std::io::{self, Read as _};
use std::path::Path;

use shardgraph_graph::{EdgeSink, NamedEdgeSink};
use shardgraph_storage::{Hasher, SpillFile};

use super::names::Names;
use super::{ImportOptions, ImportProgress, ImportStage, REPORT_EVERY, beside};
use crate::Error;
use crate::edges::labels::LabelSpool;

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
        for end in [u, v] {
            let sum = &mut self.degrees[end as usize];
            *sum += f64::from(weight);
            if *sum > f64::from(f32::MAX) {
                let message =
                    format!("expected weights whose sum at a node is below 3.4e38, found {sum:e}");
                return Err(refused(message));
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
        names.number(stem, memory, take)
    }

    /// Gives every edge with its number to `take`; their ends are below `n_nodes`.
    pub(super) fn replay(
        &mut self,
        stage: ImportStage,
        n_nodes: u32,
        mut take: impl FnMut(u64, u32, u32, f32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let edges = std::mem::replace(
            &mut self.edges,
            SpillFile::new(beside(self.stem, "none"), 0),
        );
        let at = |e: io::Error| Error::io("read", edges.path(), e);
        let damaged = || Error::file(edges.path(), "damaged: import the graph again");
        let len = self.record();
        let mut record = [0; 12];
        record[8..].copy_from_slice(&1.0f32.to_le_bytes());
        let mut input = edges.read();
        let mut fingerprint = Hasher::new();
        for number in 0..self.n_edges {
            input.read_exact(&mut record[..len]).map_err(at)?;
            if self.expected.is_some() {
                fingerprint.update(&record[..len]);
            }
            let word = |i: usize| [record[i], record[i + 1], record[i + 2], record[i + 3]];
            let (u, v) = (u32::from_le_bytes(word(0)), u32::from_le_bytes(word(4)));
            if u.max(v) >= n_nodes {
                return Err(damaged());
            }
            take(number, u, v, f32::from_le_bytes(word(8)))?;
            self.report(stage, number + 1, Some(self.n_edges));
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
