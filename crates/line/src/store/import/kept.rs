//! What an import has read, in files that outlast it: one that is killed behind the reading of a long text is gone on with from there.
//!
//! Beside the spilled edges and labels lie the degrees, and a state that names them. It is written last, once they are on disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sink::Sink;
use super::{Fed, ImportOptions, ImportProgress, beside};
use crate::Error;
use crate::store::Fingerprint;
use crate::store::labels::LabelSpool;
use crate::store::spool::{Scratch, Spool};

const SCHEMA_VERSION: u32 = 1;
pub(super) const STATE: &str = "state";
/// The files that a state goes with.
pub(super) const KEPT: [&str; 5] = ["edges", "labels", "labels-ends", "degrees", STATE];

/// What the files hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
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

impl State {
    /// The state of an import, if it is whole, of what these options ask for, and its files are there.
    pub(super) fn read(stem: &Path, options: &ImportOptions) -> Option<State> {
        let text = fs::read(beside(stem, STATE)).ok()?;
        let state: State = serde_json::from_slice(&text).ok()?;
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

    fn sealed(self) -> io::Result<State> {
        let open = State {
            fingerprint: 0,
            ..self
        };
        let text = serde_json::to_vec(&open)?;
        Ok(State {
            fingerprint: Fingerprint::of(&text),
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
pub(super) struct Taken<'s> {
    pub(super) sink: Sink<'s>,
    pub(super) labels: LabelSpool,
    pub(super) n_nodes: u32,
    pub(super) self_loops_dropped: u64,
    pub(super) zero_weights: u64,
    /// The state's file and the degrees', which go before the edges.
    kept: Option<(Scratch, Spool)>,
}

impl<'s> Taken<'s> {
    pub(super) fn new(sink: Sink<'s>, labels: LabelSpool, n_nodes: u32) -> Taken<'s> {
        Taken {
            sink,
            labels,
            n_nodes,
            self_loops_dropped: 0,
            zero_weights: 0,
            kept: None,
        }
    }

    /// With what the reader counted.
    pub(super) fn counted(self, fed: &Fed) -> Taken<'s> {
        Taken {
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
        let (stem, path) = (self.sink.stem, beside(self.sink.stem, STATE));
        let at = |e: io::Error| Error::io("write", &path, &e);
        let mut degrees = Spool::new(beside(stem, "degrees"), options.room());
        let each = self.sink.degrees.iter();
        each.map(|degree| degree.to_le_bytes())
            .try_for_each(|bytes| degrees.write(&bytes))
            .map_err(at)?;
        let state = State {
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
        let scratch = Scratch(Some(path.clone()));
        state
            .sealed()
            .and_then(|state| state.write(&path))
            .map_err(at)?;
        self.kept = Some((scratch, degrees));
        Ok(())
    }

    /// Removes the files of the edges, once they are in their buckets; the state first, so that it never names what is gone.
    pub(super) fn let_go(&mut self) {
        self.kept = None;
        self.sink.clear();
    }

    /// What another import, which was killed, had read.
    pub(super) fn again(
        state: &State,
        stem: &'s Path,
        options: &ImportOptions,
        progress: &'s mut dyn FnMut(ImportProgress),
    ) -> Result<Taken<'s>, Error> {
        let at = |what: &str, e: io::Error| Error::io("read", &beside(stem, what), &e);
        let room = options.room();
        let scratch = Scratch(Some(beside(stem, STATE)));
        let mut sink = Sink::new(stem, options, progress);
        let bytes = state.n_edges.saturating_mul(sink.record() as u64);
        sink.edges =
            Spool::kept(beside(stem, "edges"), 4 * room, bytes).map_err(|e| at("edges", e))?;
        sink.n_edges = state.n_edges;
        sink.expected = Some(state.edges_fingerprint);
        let labels = LabelSpool::kept(stem, "labels", room, state.label_bytes);
        let labels = labels.map_err(|e| at("labels", e))?;
        let degrees = degrees_again(stem, room, &mut sink.degrees).map_err(|e| at("degrees", e))?;
        if degrees.1 != state.degrees_fingerprint {
            let what = "damaged: import the graph again";
            return Err(Error::file(&beside(stem, "degrees"), what));
        }
        Ok(Taken {
            self_loops_dropped: state.self_loops_dropped,
            zero_weights: state.zero_weights,
            kept: Some((scratch, degrees.0)),
            ..Taken::new(sink, labels, state.n_nodes)
        })
    }
}

/// Reads the degrees; gives their file and its fingerprint.
fn degrees_again(stem: &Path, room: usize, degrees: &mut Vec<f64>) -> io::Result<(Spool, u64)> {
    let path = beside(stem, "degrees");
    let len = fs::metadata(&path)?.len();
    let spool = Spool::kept(path, room, len)?;
    let mut fingerprint = Fingerprint::new();
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
