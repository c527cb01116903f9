//! Checkpoint of tables: which files hold which groups, and how far the run is.
//!
//! What MANIFEST names is never written over: each write has a generation of its own, and MANIFEST,
//! replaced as a whole, names the files of one moment between two steps. (A file that was written
//! since then may be reused for its group.) A killed run finds that moment again; all later files
//! are removed. The folder may hold other files too: only names of eight digits and `.rows` belong
//! to the run, and they are left alone where there is no MANIFEST.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_storage::{FolderLock, remove_leftovers, write_atomic};

use super::context::RunContext;
use super::reports::PartialLosses;
use super::row_files::{RowsFile, TableKey};
use crate::schedule::Layout;
use crate::{Config, Error};

const SCHEMA_VERSION: u32 = 10;
const MANIFEST: &str = "MANIFEST.json";

/// A point between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Number of finished orders.
    pub(super) orders: usize,
    pub(super) pass: u32,
    pub(super) step: usize,
    /// Losses of the pass so far, where passes are reported.
    pub(super) losses: PartialLosses,
}

/// A group and the generation of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestEntry {
    key: TableKey,
    generation: u64,
}

/// The manifest as it stands on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    schema_version: u32,
    store_hash: String,
    config: Config,
    layout: Layout,
    position: Position,
    samples: u64,
    files: Vec<ManifestEntry>,
    /// Of all the above.
    fingerprint: u64,
}

/// What remains readable of a manifest of any version.
#[derive(Deserialize)]
struct AnyVersion {
    schema_version: u32,
}

impl Manifest {
    /// State before the first step.
    fn initial(run: &RunContext<'_>) -> Result<Manifest, Error> {
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION,
            store_hash: format!("{:016x}", run.store.hash()),
            config: normalised(run.config),
            layout: run.layout,
            position: Position::default(),
            samples: 0,
            files: Vec::new(),
            fingerprint: 0,
        };
        manifest.sealed()
    }

    /// The manifest with its fingerprint.
    fn sealed(self) -> Result<Manifest, Error> {
        let open = Manifest {
            fingerprint: 0,
            ..self
        };
        let text = open.text()?;
        Ok(Manifest {
            fingerprint: shardgraph_storage::hash(&text),
            ..open
        })
    }

    fn text(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|e| Error::checkpoint(e.to_string()))
    }

    /// The manifest of a folder, if there is one; of another version, or damaged, it is an error.
    fn read(folder: &Path) -> Result<Option<Manifest>, Error> {
        let path = folder.join(MANIFEST);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        if let Ok(AnyVersion { schema_version }) = serde_json::from_slice(&bytes)
            && schema_version != SCHEMA_VERSION
        {
            let problem = format!("version {schema_version}, expected {SCHEMA_VERSION}");
            return Err(wrong(folder, &problem));
        }
        let read = serde_json::from_slice(&bytes);
        let manifest: Manifest =
            read.map_err(|e| wrong(folder, &format!("no state of a run ({e})")))?;
        match manifest.clone().sealed()?.fingerprint == manifest.fingerprint {
            true => Ok(Some(manifest)),
            false => Err(wrong(folder, "damaged")),
        }
    }

    fn write(&self, folder: &Path) -> Result<(), Error> {
        let (path, text) = (folder.join(MANIFEST), self.text()?);
        write_atomic(&path, |out| out.write_all(&text)).map_err(|e| Error::io("write", &path, e))
    }

    /// Refuses to go on from this manifest where `initial` is that of another run.
    fn check_same_run(&self, folder: &Path, initial: &Manifest) -> Result<(), Error> {
        if self.store_hash != initial.store_hash {
            return Err(wrong(folder, "a run on another graph"));
        }
        if self.config != initial.config {
            return Err(wrong(folder, "a run with other settings"));
        }
        match self.layout == initial.layout {
            true => Ok(()),
            false => Err(wrong(folder, "a run with another memory limit or schedule")),
        }
    }
}

/// Tables of a run in its folder.
#[derive(Debug)]
pub(super) struct TableCheckpoint {
    folder: PathBuf,
    manifest: Manifest,
    /// Newest generation of each group; groups that were never written have their first rows.
    files: BTreeMap<TableKey, u64>,
    next_generation: u64,
    /// Keeps other processes out for as long as it is open.
    _lock: FolderLock,
}

impl TableCheckpoint {
    /// Begins a run in a folder, or finds the interrupted one there.
    pub(super) fn open(folder: &Path, run: &RunContext<'_>) -> Result<TableCheckpoint, Error> {
        fs::create_dir_all(folder).map_err(|e| Error::io("make", folder, e))?;
        let lock = lock(folder)?;
        let initial = Manifest::initial(run)?;
        let manifest = match Manifest::read(folder)? {
            Some(manifest) => {
                manifest.check_same_run(folder, &initial)?;
                manifest
            }
            None => {
                refuse_foreign_files(folder)?;
                initial.write(folder)?;
                initial
            }
        };
        let files = manifest.files.iter();
        let files: BTreeMap<TableKey, u64> =
            files.map(|file| (file.key, file.generation)).collect();
        let checkpoint = TableCheckpoint {
            folder: folder.to_owned(),
            next_generation: files.values().max().map_or(0, |last| last + 1),
            files,
            manifest,
            _lock: lock,
        };
        remove_leftovers(&checkpoint.folder);
        checkpoint.remove_stale_files()?;
        Ok(checkpoint)
    }

    pub(super) fn position(&self) -> Position {
        self.manifest.position
    }

    pub(super) fn samples(&self) -> u64 {
        self.manifest.samples
    }

    /// The newest file of a group.
    pub(super) fn file(&self, key: TableKey) -> Option<RowsFile> {
        let generation = *self.files.get(&key)?;
        Some(RowsFile {
            path: self.path(generation),
            key,
            generation,
        })
    }

    /// The newest files of all groups.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let generations = self.files.values();
        generations
            .map(|&generation| self.path(generation))
            .collect()
    }

    /// A new file for a group, and the superseded one, unless a resumed run would need it.
    pub(super) fn new_file(&mut self, key: TableKey) -> (RowsFile, Option<PathBuf>) {
        let generation = self.next_generation;
        self.next_generation += 1;
        let replaced = self.files.insert(key, generation);
        let is_kept = |old: &u64| self.manifest.files.iter().any(|f| f.generation == *old);
        let superseded = replaced.filter(|old| !is_kept(old));
        let file = RowsFile {
            path: self.path(generation),
            key,
            generation,
        };
        (file, superseded.map(|old| self.path(old)))
    }

    /// Makes the present moment the one that a resumed run begins with.
    ///
    /// All files must be written, and outlast a power cut.
    pub(super) fn commit(&mut self, position: Position, samples: u64) -> Result<(), Error> {
        let files = self.files.iter();
        let files = files.map(|(&key, &generation)| ManifestEntry { key, generation });
        let manifest = Manifest {
            position,
            samples,
            files: files.collect(),
            ..self.manifest.clone()
        };
        let manifest = manifest.sealed()?;
        manifest.write(&self.folder)?;
        self.manifest = manifest;
        self.remove_stale_files()
    }

    /// Forgets a table that no answer needs; its files go with the next commit.
    pub(super) fn forget(&mut self, order: u32, table: u32) {
        self.files
            .retain(|key, _| (key.order, key.table) != (order, table));
    }

    /// Removes the run, once its answer is written. Interrupted in between, it begins anew.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.files.clear();
        self.commit(Position::default(), 0)?;
        let path = self.folder.join(MANIFEST);
        fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))
    }

    fn path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("{generation:08}.rows"))
    }

    /// Removes files of rows that are not of this moment.
    fn remove_stale_files(&self) -> Result<(), Error> {
        let wanted: BTreeSet<PathBuf> = self.paths().into_iter().collect();
        let at = |e: std::io::Error| Error::io("tidy", &self.folder, e);
        for path in rows_files(&self.folder).map_err(at)? {
            if !wanted.contains(&path) {
                fs::remove_file(&path).map_err(at)?;
            }
        }
        Ok(())
    }
}

/// Files in a folder whose names are those of a run's.
fn rows_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(".rows"));
        number.is_some_and(|n| n.len() >= 8 && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: std::io::Result<Vec<PathBuf>> = paths.collect();
    Ok(paths?.into_iter().filter(is_ours).collect())
}

/// Files that look like a run's, in a folder without a run, belong to somebody.
fn refuse_foreign_files(folder: &Path) -> Result<(), Error> {
    let found = rows_files(folder).map_err(|e| Error::io("read", folder, e))?;
    match found.first() {
        None => Ok(()),
        Some(path) => Err(Error::checkpoint(format!(
            "{}: a file of rows without a {MANIFEST}: take another folder, or empty this one",
            path.display()
        ))),
    }
}

/// Holds a folder for as long as the lock lives.
fn lock(folder: &Path) -> Result<FolderLock, Error> {
    FolderLock::take(folder).map_err(|e| match e {
        shardgraph_storage::Error::Io { doing, source, .. } => Error::io(doing, folder, source),
        other => Error::checkpoint(other.to_string()),
    })
}

/// Settings that make a run what it is: without threads and queues.
fn normalised(config: &Config) -> Config {
    let default = Config::default();
    Config {
        threads: default.threads,
        queues: default.queues,
        queue_length: default.queue_length,
        ranks: default.ranks,
        device_memory: default.device_memory,
        ..config.clone()
    }
}

fn wrong(folder: &Path, problem: &str) -> Error {
    Error::checkpoint(format!(
        "{}: {problem}: take another folder, or empty this one",
        folder.join(MANIFEST).display()
    ))
}

/// Lock of a folder, so that no other process trains in it.
#[derive(Debug)]
pub struct WorkFolderLock {
    _lock: FolderLock,
}

/// Keeps other processes, and [`crate::train_on_disk`] of this one, out of a folder until the lock
/// is dropped: while files are made there for a run.
///
/// # Errors
/// [`Error::Checkpoint`] where another process trains there, [`Error::Io`] without such a folder.
pub fn lock_work_folder(folder: &Path) -> Result<WorkFolderLock, Error> {
    lock(folder).map(|lock| WorkFolderLock { _lock: lock })
}

/// True if a run was begun in a folder and did not end.
#[must_use]
pub fn has_unfinished_run(folder: &Path) -> bool {
    folder.join(MANIFEST).exists()
}

/// Refuses a folder that a run with these settings cannot have, before the graph is read; gives the
/// passes of all orders that were over at the last checkpoint there, 0 where a run is to begin.
///
/// Another process trains there, another run was interrupted there, or files lie there that look
/// like a run's. The softmax loss has no tables on disk.
///
/// # Errors
/// As [`crate::train_on_disk`]: [`Error::Setting`], [`Error::Checkpoint`] or [`Error::Io`].
pub fn check_work_folder(folder: &Path, config: &Config) -> Result<u64, Error> {
    super::check_on_disk(config)?;
    if !folder.exists() {
        return Ok(0);
    }
    let _lock = lock(folder)?;
    match Manifest::read(folder)? {
        None => refuse_foreign_files(folder).map(|()| 0),
        Some(manifest) if manifest.config != normalised(config) => {
            Err(wrong(folder, "a run with other settings"))
        }
        Some(manifest) => {
            let Position { orders, pass, .. } = manifest.position;
            Ok(orders as u64 * u64::from(config.epochs) + u64::from(pass))
        }
    }
}
