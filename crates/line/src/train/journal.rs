//! The state of a run on disk: which files hold which groups, and how far the run is.
//!
//! Groups are never written over: each write makes a new file, and MANIFEST, replaced as a whole, names the files of one moment
//! between two steps. A run that is killed finds that moment again; all later files are thrown away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_graph::write_atomic;

use super::options::Layout;
use crate::{Config, Error, ErrorKind, Store};

const SCHEMA_VERSION: u32 = 1;
const MANIFEST: &str = "MANIFEST.json";

/// A point between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// How many orders are finished.
    pub(crate) orders: usize,
    pub(crate) pass: u32,
    pub(crate) step: usize,
}

/// A group of a table of an order.
pub(crate) type Place = (u32, u32, u32);

/// The file as it stands on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    schema_version: u32,
    store_hash: String,
    config: Config,
    layout: Layout,
    position: Position,
    samples: u64,
    /// (order, table, group) and the number of the file.
    files: Vec<(Place, u64)>,
}

/// The folder of a run.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    manifest: Manifest,
    /// The newest file of each group; groups that were never written are as they began.
    files: BTreeMap<Place, u64>,
    next_file: u64,
}

impl Journal {
    /// Begins a run in a folder, or finds the one that was broken off there.
    pub(crate) fn open(
        folder: &Path,
        store: &Store,
        config: &Config,
        layout: Layout,
    ) -> Result<Journal, Error> {
        fs::create_dir_all(folder).map_err(|e| Error::io("make", folder, &e))?;
        // Threads do not change the result.
        let config = Config {
            threads: 1,
            ..config.clone()
        };
        let fresh = Manifest {
            schema_version: SCHEMA_VERSION,
            store_hash: format!("{:016x}", store.hash()),
            config,
            layout,
            position: Position::default(),
            samples: 0,
            files: Vec::new(),
        };
        let path = folder.join(MANIFEST);
        let manifest = match path.exists() {
            true => found(&path, &fresh)?,
            false => fresh,
        };
        let files: BTreeMap<Place, u64> = manifest.files.iter().copied().collect();
        let journal = Journal {
            folder: folder.to_owned(),
            next_file: files.values().max().map_or(0, |last| last + 1),
            files,
            manifest,
        };
        journal.remove_others()?;
        Ok(journal)
    }

    pub(crate) fn position(&self) -> Position {
        self.manifest.position
    }

    pub(crate) fn samples(&self) -> u64 {
        self.manifest.samples
    }

    /// The newest file of a group.
    pub(crate) fn file(&self, place: Place) -> Option<PathBuf> {
        let number = self.files.get(&place)?;
        Some(self.path(*number))
    }

    /// A new file for a group, and the one that it replaces, unless a resumed run would need that.
    pub(crate) fn new_file(&mut self, place: Place) -> (PathBuf, Option<PathBuf>) {
        let number = self.next_file;
        self.next_file += 1;
        let replaced = self.files.insert(place, number);
        let is_kept = |number: &u64| self.manifest.files.iter().any(|(_, kept)| kept == number);
        let replaced = replaced.filter(|number| !is_kept(number));
        (self.path(number), replaced.map(|number| self.path(number)))
    }

    /// Makes the present moment the one that a resumed run begins with. All files must be written.
    pub(crate) fn commit(&mut self, position: Position, samples: u64) -> Result<(), Error> {
        for number in self.files.values() {
            let path = self.path(*number);
            let sync = File::open(&path).and_then(|file| file.sync_all());
            sync.map_err(|e| Error::io("sync", &path, &e))?;
        }
        let manifest = Manifest {
            position,
            samples,
            files: self
                .files
                .iter()
                .map(|(place, number)| (*place, *number))
                .collect(),
            ..self.manifest.clone()
        };
        let path = self.folder.join(MANIFEST);
        let text = serde_json::to_vec(&manifest)
            .map_err(|e| Error::new(ErrorKind::Checkpoint, e.to_string()))?;
        write_atomic(&path, |out| out.write_all(&text))
            .map_err(|e| Error::io("write", &path, &e))?;
        self.manifest = manifest;
        self.remove_others()
    }

    /// Forgets a table that no answer needs; its files go with the next commit.
    pub(crate) fn forget(&mut self, order: u32, table: u32) {
        self.files.retain(|&(o, t, _), _| (o, t) != (order, table));
    }

    /// Removes the run, once its answer is written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let path = self.folder.join(MANIFEST);
        if path.exists() {
            fs::remove_file(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
        Journal {
            files: BTreeMap::new(),
            ..self
        }
        .remove_others()
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}.rows"))
    }

    /// Removes files of rows that are not of this moment.
    fn remove_others(&self) -> Result<(), Error> {
        let wanted: BTreeSet<PathBuf> = self.files.values().map(|n| self.path(*n)).collect();
        let at = |e: std::io::Error| Error::io("tidy", &self.folder, &e);
        for entry in fs::read_dir(&self.folder).map_err(at)? {
            let path = entry.map_err(at)?.path();
            if path.extension().is_some_and(|e| e == "rows") && !wanted.contains(&path) {
                fs::remove_file(&path).map_err(at)?;
            }
        }
        Ok(())
    }
}

/// The run in a folder, if this program can go on with it.
fn found(path: &Path, fresh: &Manifest) -> Result<Manifest, Error> {
    let wrong = |what: &str| {
        let message = format!(
            "{}: {what}: take another folder, or empty this one",
            path.display()
        );
        Error::new(ErrorKind::Checkpoint, message)
    };
    let bytes = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|e| wrong(&format!("no state of a run ({e})")))?;
    if manifest.schema_version != SCHEMA_VERSION {
        return Err(wrong(&format!(
            "version {}, expected {SCHEMA_VERSION}",
            manifest.schema_version
        )));
    }
    if manifest.store_hash != fresh.store_hash {
        return Err(wrong("a run on another graph"));
    }
    if manifest.config != fresh.config {
        return Err(wrong("a run with other settings"));
    }
    match manifest.layout == fresh.layout {
        true => Ok(manifest),
        false => Err(wrong("a run with another memory limit or schedule")),
    }
}
