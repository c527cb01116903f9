//! Resume point: the parsed graph of an import in files that outlast it.
//!
//! Beside the spilled edges and labels lie the degrees, and a state that names them. It is written
//! last, once they are on disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_storage::{Hasher, ScratchFile, SpillFile};

use super::options::{ImportOptions, ImportProgress, InputSummary};
use super::sink::Sink;

use crate::Error;
use crate::edges::beside::beside;
use crate::edges::labels::LabelSpool;

const SCHEMA_VERSION: u32 = 2;
pub(super) const RESUME_POINT: &str = "state";
/// Files of a resume point.
pub(super) const RESUME_FILES: [&str; 5] =
    ["edges", "labels", "labels-ends", "degrees", RESUME_POINT];

/// Contents of the files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumePoint {
    schema_version: u32,
    source: String,
    is_weighted: bool,
    is_directed: bool,
    n_nodes: u32,
    n_edges: u64,
    edges_fingerprint: u64,
    degrees_fingerprint: u64,
    label_bytes: [u64; 2],
    self_loops_dropped: u64,
    zero_weights: u64,
    /// Of all the above.
    fingerprint: u64,
}

impl ResumePoint {
    /// The state of an import, if it is whole, of what these options ask for, and its files are
    /// there.
    pub(super) fn read(stem: &Path, options: &ImportOptions) -> Option<ResumePoint> {
        let text = fs::read(beside(stem, RESUME_POINT)).ok()?;
        let state: ResumePoint = serde_json::from_slice(&text).ok()?;
        let is_whole = state.clone().sealed().ok()?.fingerprint == state.fingerprint;
        let is_wanted = state.schema_version == SCHEMA_VERSION
            && Some(&state.source) == options.source.as_ref()
            && state.is_weighted == options.weighted
            && state.is_directed == options.directed;
        let record = if state.is_weighted { 12 } else { 8 };
        let [text, ends] = state.label_bytes;
        let files = [
            ("edges", state.n_edges.checked_mul(record)?),
            ("labels", text),
            ("labels-ends", ends),
        ];
        let len = |what: &str| {
            fs::metadata(beside(stem, what))
                .ok()
                .map(|known| known.len())
        };
        let are_there = files.iter().all(|(what, bytes)| len(what) == Some(*bytes));
        let has_degrees = len("degrees").is_some_and(|bytes| bytes <= 8 * u64::from(state.n_nodes));
        (is_whole && is_wanted && are_there && has_degrees).then_some(state)
    }

    fn sealed(self) -> io::Result<ResumePoint> {
        let open = ResumePoint {
            fingerprint: 0,
            ..self
        };
        let text = serde_json::to_vec(&open)?;
        Ok(ResumePoint {
            fingerprint: shardgraph_storage::hash(&text),
            ..open
        })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()
    }
}

/// A graph once all of it is read.
pub(super) struct ParsedGraph<'s> {
    pub(super) sink: Sink<'s>,
    pub(super) labels: LabelSpool,
    pub(super) n_nodes: u32,
    pub(super) self_loops_dropped: u64,
    pub(super) zero_weights: u64,
    /// The state's file and the degrees', which go before the edges.
    kept: Option<(ScratchFile, SpillFile)>,
}

impl<'s> ParsedGraph<'s> {
    pub(super) fn new(sink: Sink<'s>, labels: LabelSpool, n_nodes: u32) -> ParsedGraph<'s> {
        ParsedGraph {
            sink,
            labels,
            n_nodes,
            self_loops_dropped: 0,
            zero_weights: 0,
            kept: None,
        }
    }

    /// With what the reader counted.
    pub(super) fn counted(self, fed: &InputSummary) -> ParsedGraph<'s> {
        ParsedGraph {
            self_loops_dropped: fed.self_loops_dropped,
            zero_weights: fed.zero_weights,
            ..self
        }
    }

    /// Makes what was read outlast this process, if it is worth it: if it does not fit in memory.
    pub(super) fn keep(&mut self, options: &ImportOptions) -> Result<(), Error> {
        let Some(source) = options.source.clone() else {
            return Ok(());
        };
        if !self.sink.edges.is_filed() {
            return Ok(());
        }
        let (stem, path) = (self.sink.stem, beside(self.sink.stem, RESUME_POINT));
        let at = |e: io::Error| Error::io("write", &path, e);
        let mut degrees = SpillFile::new(beside(stem, "degrees"), options.room());
        let each = self.sink.degrees.iter();
        each.map(|degree| degree.to_le_bytes())
            .try_for_each(|bytes| degrees.write(&bytes))
            .map_err(at)?;
        let state = ResumePoint {
            schema_version: SCHEMA_VERSION,
            source,
            is_weighted: options.weighted,
            is_directed: options.directed,
            n_nodes: self.n_nodes,
            n_edges: self.sink.n_edges,
            edges_fingerprint: self.sink.edges.keep().map_err(at)?,
            degrees_fingerprint: degrees.keep().map_err(at)?,
            label_bytes: self.labels.keep().map_err(at)?,
            self_loops_dropped: self.self_loops_dropped,
            zero_weights: self.zero_weights,
            fingerprint: 0,
        };
        let scratch = ScratchFile::new(path.clone());
        state
            .sealed()
            .and_then(|state| state.write(&path))
            .map_err(at)?;
        self.kept = Some((scratch, degrees));
        Ok(())
    }

    /// Removes the files of the edges, once they are in their buckets; the state first, so that it
    /// never names what is gone.
    pub(super) fn release(&mut self) {
        self.kept = None;
        self.sink.clear();
    }

    /// What another import, which was killed, had read.
    pub(super) fn resume(
        state: &ResumePoint,
        stem: &'s Path,
        options: &ImportOptions,
        progress: &'s mut dyn FnMut(ImportProgress),
    ) -> Result<ParsedGraph<'s>, Error> {
        let at = |what: &str, e: io::Error| Error::io("read", &beside(stem, what), e);
        let room = options.room();
        let scratch = ScratchFile::new(beside(stem, RESUME_POINT));
        let mut sink = Sink::new(stem, options, progress);
        let bytes = state.n_edges.saturating_mul(sink.record() as u64);
        sink.edges =
            SpillFile::kept(beside(stem, "edges"), 4 * room, bytes).map_err(|e| at("edges", e))?;
        sink.n_edges = state.n_edges;
        sink.expected = Some(state.edges_fingerprint);
        let labels = LabelSpool::kept(stem, "labels", room, state.label_bytes);
        let labels = labels.map_err(|e| at("labels", e))?;
        let degrees = degrees_again(stem, room, &mut sink.degrees).map_err(|e| at("degrees", e))?;
        if degrees.1 != state.degrees_fingerprint {
            let what = "damaged: import the graph again";
            return Err(Error::file(&beside(stem, "degrees"), what));
        }
        Ok(ParsedGraph {
            self_loops_dropped: state.self_loops_dropped,
            zero_weights: state.zero_weights,
            kept: Some((scratch, degrees.0)),
            ..ParsedGraph::new(sink, labels, state.n_nodes)
        })
    }
}

/// Reads the degrees; gives their file and its fingerprint.
fn degrees_again(stem: &Path, room: usize, degrees: &mut Vec<f64>) -> io::Result<(SpillFile, u64)> {
    let path = beside(stem, "degrees");
    let len = fs::metadata(&path)?.len();
    let spool = SpillFile::kept(path, room, len)?;
    let mut fingerprint = Hasher::new();
    let mut input = spool.read();
    for _ in 0..len / 8 {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        fingerprint.update(&bytes);
        degrees.push(f64::from_le_bytes(bytes));
    }
    drop(input);
    Ok((spool, fingerprint.finish()))
}
