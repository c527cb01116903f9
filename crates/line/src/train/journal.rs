//! The state of a run on disk: which files hold which groups, and how far the run is.
//!
//! What MANIFEST names is never written over: each write has a number of its own, and MANIFEST, replaced as a whole, names the files of
//! one moment between two steps. (A file that was written since then may become the next of its group.) A run that is killed finds that moment again; all later files are thrown away. The folder may hold other
//! files too: here only names of eight digits and `.rows` are the run's, and they are left alone where there is no MANIFEST.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_graph::write_atomic;

use super::options::Layout;
use crate::store::Fingerprint;
use crate::{Config, Error, ErrorKind, Store};

const SCHEMA_VERSION: u32 = 7;
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

/// A file of rows, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowsFile {
    pub(crate) path: PathBuf,
    pub(crate) place: Place,
    pub(crate) number: u64,
}

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
    /// Of all the above.
    fingerprint: u64,
}

impl Manifest {
    /// With the fingerprint that belongs to it.
    fn sealed(self) -> Result<Manifest, Error> {
        let open = Manifest {
            fingerprint: 0,
            ..self
        };
        let text = open.text()?;
        Ok(Manifest {
            fingerprint: Fingerprint::of(&text),
            ..open
        })
    }

    fn text(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|e| Error::new(ErrorKind::Checkpoint, e.to_string()))
    }

    /// That of a folder, if there is one; of another version, or damaged, it is an error.
    fn read(folder: &Path) -> Result<Option<Manifest>, Error> {
        let path = folder.join(MANIFEST);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", &path, &e)),
        };
        let read = serde_json::from_slice(&bytes);
        let manifest: Manifest =
            read.map_err(|e| wrong(folder, &format!("no state of a run ({e})")))?;
        if manifest.schema_version != SCHEMA_VERSION {
            let version = manifest.schema_version;
            let what = format!("version {version}, expected {SCHEMA_VERSION}");
            return Err(wrong(folder, &what));
        }
        match manifest.clone().sealed()?.fingerprint == manifest.fingerprint {
            true => Ok(Some(manifest)),
            false => Err(wrong(folder, "damaged")),
        }
    }

    fn write(&self, folder: &Path) -> Result<(), Error> {
        let (path, text) = (folder.join(MANIFEST), self.text()?);
        write_atomic(&path, |out| out.write_all(&text)).map_err(|e| Error::io("write", &path, &e))
    }
}

/// The folder of a run.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    manifest: Manifest,
    /// The newest file of each group; groups that were never written are as they began.
    files: BTreeMap<Place, u64>,
    next_file: u64,
    /// Keeps other processes out for as long as it is open.
    _lock: File,
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
        let lock = lock(folder)?;
        let fresh = fresh(store, config, layout)?;
        let manifest = match found(folder, &fresh)? {
            Some(manifest) => manifest,
            None => {
                refuse_strangers(folder)?;
                fresh.write(folder)?;
                fresh
            }
        };
        let files: BTreeMap<Place, u64> = manifest.files.iter().copied().collect();
        let journal = Journal {
            folder: folder.to_owned(),
            next_file: files.values().max().map_or(0, |last| last + 1),
            files,
            manifest,
            _lock: lock,
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
    pub(crate) fn file(&self, place: Place) -> Option<RowsFile> {
        let number = *self.files.get(&place)?;
        Some(RowsFile {
            path: self.path(number),
            place,
            number,
        })
    }

    /// The newest files of all groups.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files
            .values()
            .map(|&number| self.path(number))
            .collect()
    }

    /// A new file for a group, and the one that nobody needs any more for that, unless a resumed run would.
    pub(crate) fn new_file(&mut self, place: Place) -> (RowsFile, Option<PathBuf>) {
        let number = self.next_file;
        self.next_file += 1;
        let replaced = self.files.insert(place, number);
        let is_kept = |number: &u64| self.manifest.files.iter().any(|(_, kept)| kept == number);
        let replaced = replaced.filter(|number| !is_kept(number));
        let file = RowsFile {
            path: self.path(number),
            place,
            number,
        };
        (file, replaced.map(|number| self.path(number)))
    }

    /// Makes the present moment the one that a resumed run begins with. All files must be written, and outlast a power cut.
    pub(crate) fn commit(&mut self, position: Position, samples: u64) -> Result<(), Error> {
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
        let manifest = manifest.sealed()?;
        manifest.write(&self.folder)?;
        self.manifest = manifest;
        self.remove_others()
    }

    /// Forgets a table that no answer needs; its files go with the next commit.
    pub(crate) fn forget(&mut self, order: u32, table: u32) {
        self.files.retain(|&(o, t, _), _| (o, t) != (order, table));
    }

    /// Removes the run, once its answer is written. Broken off in between, it begins anew when it is asked for again.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.files.clear();
        self.commit(Position::default(), 0)?;
        let path = self.folder.join(MANIFEST);
        fs::remove_file(&path).map_err(|e| Error::io("remove", &path, &e))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}.rows"))
    }

    /// Removes files of rows that are not of this moment.
    fn remove_others(&self) -> Result<(), Error> {
        let wanted: BTreeSet<PathBuf> = self.files.values().map(|n| self.path(*n)).collect();
        let at = |e: std::io::Error| Error::io("tidy", &self.folder, &e);
        for path in rows_files(&self.folder).map_err(at)? {
            if !wanted.contains(&path) {
                fs::remove_file(&path).map_err(at)?;
            }
        }
        Ok(())
    }
}

/// The files in a folder whose names are those of a run's.
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

/// Files that look like a run's, in a folder where none was begun, are somebody's.
fn refuse_strangers(folder: &Path) -> Result<(), Error> {
    let found = rows_files(folder).map_err(|e| Error::io("read", folder, &e))?;
    match found.first() {
        None => Ok(()),
        Some(path) => Err(Error::new(
            ErrorKind::Checkpoint,
            format!(
                "{}: a file of rows without a {MANIFEST}: take another folder, or empty this one",
                path.display()
            ),
        )),
    }
}

/// Holds a folder for as long as the file that is given back is open.
fn lock(folder: &Path) -> Result<File, Error> {
    let file = File::open(folder).map_err(|e| Error::io("open", folder, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::Checkpoint,
            format!(
                "{}: another process trains in this folder: wait for it, or take another folder",
                folder.display()
            ),
        )),
        Err(fs::TryLockError::Error(e)) => Err(Error::io("lock", folder, &e)),
    }
}

/// What of the settings a run is: threads and queues are not.
fn settled(config: &Config) -> Config {
    let usual = Config::default();
    Config {
        threads: usual.threads,
        queues: usual.queues,
        queue_length: usual.queue_length,
        ..config.clone()
    }
}

/// The state before the first step.
fn fresh(store: &Store, config: &Config, layout: Layout) -> Result<Manifest, Error> {
    let fresh = Manifest {
        schema_version: SCHEMA_VERSION,
        store_hash: format!("{:016x}", store.hash()),
        config: settled(config),
        layout,
        position: Position::default(),
        samples: 0,
        files: Vec::new(),
        fingerprint: 0,
    };
    fresh.sealed()
}

/// The run in a folder, if there is one and this program can go on with it.
fn found(folder: &Path, fresh: &Manifest) -> Result<Option<Manifest>, Error> {
    let Some(manifest) = Manifest::read(folder)? else {
        return Ok(None);
    };
    if manifest.store_hash != fresh.store_hash {
        return Err(wrong(folder, "a run on another graph"));
    }
    if manifest.config != fresh.config {
        return Err(wrong(folder, "a run with other settings"));
    }
    match manifest.layout == fresh.layout {
        true => Ok(Some(manifest)),
        false => Err(wrong(folder, "a run with another memory limit or schedule")),
    }
}

fn wrong(folder: &Path, what: &str) -> Error {
    let message = format!(
        "{}: {what}: take another folder, or empty this one",
        folder.join(MANIFEST).display()
    );
    Error::new(ErrorKind::Checkpoint, message)
}

/// A folder that no other process can train in.
#[derive(Debug)]
pub struct WorkFolderLock {
    _file: File,
}

/// Keeps other processes, and [`crate::train_on_disk`] of this one, out of a folder until what it gives is dropped: while files are made
/// there that a run is to have.
///
/// # Errors
/// [`ErrorKind::Checkpoint`] where another process trains there, [`ErrorKind::Io`] where there is no such folder.
pub fn lock_work_folder(folder: &Path) -> Result<WorkFolderLock, Error> {
    lock(folder).map(|file| WorkFolderLock { _file: file })
}

/// Whether a run was begun in a folder that did not end.
#[must_use]
pub fn has_unfinished_run(folder: &Path) -> bool {
    folder.join(MANIFEST).exists()
}

/// Refuses a folder that a run with these settings cannot have, as far as that can be told before the graph is at hand: another
/// process trains there, another run was broken off there, or files lie there that look like a run's.
///
/// # Errors
/// As [`crate::train_on_disk`], of kind [`ErrorKind::Checkpoint`] or [`ErrorKind::Io`].
pub fn check_work_folder(folder: &Path, config: &Config) -> Result<(), Error> {
    if !folder.exists() {
        return Ok(());
    }
    let _lock = lock(folder)?;
    match Manifest::read(folder)? {
        None => refuse_strangers(folder),
        Some(manifest) if manifest.config != settled(config) => {
            Err(wrong(folder, "a run with other settings"))
        }
        Some(_) => Ok(()),
    }
}
