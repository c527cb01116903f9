//! Checkpoint of tables: which files hold which groups, and how far the run is.
//!
//! Files of rows lie in the run's folder, beside the checkpoint that names them. What it names is never
//! written over: each write has a generation of its own. (A file that was written since then may be
//! reused for its group.) A killed run finds that moment again; all later files are removed. The folder
//! may hold other files too: only names of eight digits and `.rows` belong to the run, and they are left
//! alone where there is no checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_job::{Checkpoint, Folder, Metrics, RunRecorder};
use shardgraph_storage::FolderLock;

use super::context::RunContext;
use super::reports::PartialLosses;
use super::row_files::{RowsFile, TableKey};
use crate::schedule::Layout;
use crate::{Config, Error};

const SCHEMA_VERSION: u32 = 11;
/// The state of a run in its checkpoint.
const STATE: &str = "run.json";
/// Files in a checkpoint's own folder.
const FILES: &[&str] = &[STATE];

/// A point between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Number of finished orders.
    pub(super) orders: usize,
    pub(super) pass: u32,
    /// Steps of the pass so far.
    pub(super) step: usize,
    /// Steps of the run so far.
    pub(super) n_steps: u64,
    /// Samples of the run so far.
    pub(super) samples: u64,
    /// Losses of the pass so far.
    pub(super) losses: PartialLosses,
}

impl Position {
    /// Nothing is trained: a run begins here, even where this follows the steps of one that ended.
    fn is_begin(&self) -> bool {
        self.samples == 0
    }
}

/// State of a run in its checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunState {
    store_hash: String,
    config: Config,
    layout: Layout,
    position: Position,
    /// Groups, and the generations of their files.
    files: Vec<(TableKey, u64)>,
}

impl RunState {
    /// State before the first step.
    fn initial(run: &RunContext<'_>) -> RunState {
        RunState {
            store_hash: format!("{:016x}", run.store.hash()),
            config: normalised(run.config),
            layout: run.layout,
            position: Position::default(),
            files: Vec::new(),
        }
    }

    /// State in a checkpoint, with a position that a run of these settings can have after the checkpoint's steps.
    fn of(checkpoint: &Checkpoint) -> Result<RunState, Error> {
        let state: RunState = checkpoint.json(STATE, SCHEMA_VERSION)?;
        let Position {
            orders,
            pass,
            step,
            n_steps,
            ..
        } = state.position;
        let (n_orders, n_passes) = (state.config.order.each().len(), state.config.epochs);
        let is_within = orders < n_orders && pass < n_passes;
        let is_end = (orders, pass, step) == (n_orders, 0, 0);
        let has_last_generation = state.files.iter().any(|file| file.1 == u64::MAX);
        match (is_within || is_end) && n_steps == checkpoint.step() && !has_last_generation {
            true => Ok(state),
            false => Err(wrong(checkpoint.origin(), "no run comes to this position")),
        }
    }

    /// Refuses to go on from here where `initial` is the state of another run.
    fn check_same_run(&self, origin: &str, initial: &RunState) -> Result<(), Error> {
        let problem = if self.store_hash != initial.store_hash {
            "a run on another graph"
        } else if self.config != initial.config {
            "a run with other settings"
        } else if self.layout != initial.layout {
            "a run with another memory limit or schedule"
        } else {
            return Ok(());
        };
        Err(wrong(origin, problem))
    }
}

/// Tables of a run in its folder.
#[derive(Debug)]
pub(super) struct TableCheckpoint {
    folder: PathBuf,
    /// As the newest checkpoint has it.
    state: RunState,
    /// Newest generation of each group; groups that were never written have their first rows.
    files: BTreeMap<TableKey, u64>,
    next_generation: u64,
}

impl TableCheckpoint {
    /// Begins a run in a folder, or finds the interrupted one there; the recorder holds the folder.
    ///
    /// Metrics lie in the folder, where none are given.
    pub(super) fn open(
        folder: &Path,
        metrics: Option<Metrics>,
        run: &RunContext<'_>,
    ) -> Result<(TableCheckpoint, RunRecorder), Error> {
        let mut state = RunState::initial(run);
        let is_new = !has_unfinished_run(folder);
        let held = match is_new {
            true => Folder::of_new_run(folder, FILES, &[])?,
            false => {
                let (held, newest) = Folder::of_old_run(folder, FILES)?;
                let found = RunState::of(&newest)?;
                found.check_same_run(newest.origin(), &state)?;
                state = found;
                match state.position.is_begin() {
                    true => held.without_metrics(),
                    false => held,
                }
            }
        };
        let recorder = match metrics {
            Some(metrics) => RunRecorder::with_metrics(held, metrics),
            None => RunRecorder::open(held)?,
        };
        let files: BTreeMap<TableKey, u64> = state.files.iter().copied().collect();
        let mut checkpoint = TableCheckpoint {
            folder: folder.to_owned(),
            next_generation: files.values().max().map_or(0, |last| last + 1),
            files,
            state,
        };
        if is_new {
            refuse_foreign_files(folder)?;
            // From here on files of rows are the run's own.
            recorder.write_checkpoint(&checkpoint.at(Position::default())?)?;
        }
        checkpoint.remove_stale_files()?;
        Ok((checkpoint, recorder))
    }

    /// Tables of a dry run, which has no folder.
    pub(super) fn dry(run: &RunContext<'_>) -> TableCheckpoint {
        TableCheckpoint {
            folder: PathBuf::new(),
            state: RunState::initial(run),
            files: BTreeMap::new(),
            next_generation: 0,
        }
    }

    pub(super) fn position(&self) -> Position {
        self.state.position
    }

    /// The newest file of a group.
    pub(super) fn file(&self, key: TableKey) -> Option<RowsFile> {
        let generation = *self.files.get(&key)?;
        Some(RowsFile {
            path: self.folder.join(name_of(generation)),
            key,
            generation,
        })
    }

    /// The newest files of all groups.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let generations = self.files.values();
        generations
            .map(|&generation| self.folder.join(name_of(generation)))
            .collect()
    }

    /// A new file for a group, and the superseded one, unless a resumed run would need it.
    pub(super) fn new_file(&mut self, key: TableKey) -> (RowsFile, Option<PathBuf>) {
        let generation = self.next_generation;
        self.next_generation += 1;
        let replaced = self.files.insert(key, generation);
        let is_kept = |old: &u64| self.state.files.iter().any(|file| file.1 == *old);
        let superseded = replaced.filter(|old| !is_kept(old));
        let file = RowsFile {
            path: self.folder.join(name_of(generation)),
            key,
            generation,
        };
        (file, superseded.map(|old| self.folder.join(name_of(old))))
    }

    /// Makes the present moment the one that a resumed run begins with, once the checkpoint is written.
    ///
    /// All files must be written, and outlast a power cut.
    pub(super) fn at(&mut self, position: Position) -> Result<Checkpoint, Error> {
        self.state.files = self.files.iter().map(|(&key, &file)| (key, file)).collect();
        self.state.position = position;
        let mut checkpoint = Checkpoint::new(position.n_steps);
        checkpoint.add_json(STATE, SCHEMA_VERSION, &self.state)?;
        for &generation in self.files.values() {
            let name = name_of(generation);
            let path = self.folder.join(&name);
            let found = fs::metadata(&path).map_err(|e| Error::io("read", &path, e))?;
            checkpoint.add_beside(&name, found.len())?;
        }
        Ok(checkpoint)
    }

    /// Forgets a table that no answer needs; its files go with the next checkpoint.
    pub(super) fn forget(&mut self, order: u32, table: u32) {
        self.files
            .retain(|key, _| (key.order, key.table) != (order, table));
    }

    /// Removes the run, once its answer is written. Interrupted in between, it begins anew.
    pub(super) fn finish(mut self, recorder: &RunRecorder) -> Result<(), Error> {
        self.files.clear();
        let anew = Position {
            n_steps: self.state.position.n_steps + 1,
            ..Position::default()
        };
        recorder.write_checkpoint(&self.at(anew)?)?;
        self.remove_stale_files()?;
        Ok(recorder.remove_checkpoints()?)
    }

    /// Removes files of rows that are not of this moment.
    pub(super) fn remove_stale_files(&self) -> Result<(), Error> {
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

fn name_of(generation: u64) -> String {
    format!("{generation:08}.rows")
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
            "{}: a file of rows without a checkpoint: take another folder, or empty this one",
            path.display()
        ))),
    }
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

fn wrong(origin: &str, problem: &str) -> Error {
    Error::checkpoint(format!(
        "{origin}: {problem}: take another folder, or empty this one"
    ))
}

/// Keeps other processes, and [`crate::train_on_disk`] of this one, out of a folder until the lock
/// is dropped: while files are made there for a run.
///
/// # Errors
/// [`Error::Job`] where another process trains there, or without such a folder.
pub fn lock_work_folder(folder: &Path) -> Result<FolderLock, Error> {
    Ok(FolderLock::take(folder).map_err(shardgraph_job::Error::from)?)
}

/// True if a run was begun in a folder and did not end.
#[must_use]
pub fn has_unfinished_run(folder: &Path) -> bool {
    !matches!(Checkpoint::newest_files(folder, FILES), Ok(None))
}

/// Refuses a folder that a run with these settings cannot have, before the graph is read; gives the
/// step of the checkpoint that the run goes on from, none where it is to begin.
///
/// Another process trains there, another run was interrupted there, or files lie there that look
/// like a run's. The softmax loss has no tables on disk.
///
/// # Errors
/// As [`crate::train_on_disk`]: [`Error::Setting`], [`Error::Checkpoint`], [`Error::Job`] or [`Error::Io`].
pub fn check_work_folder(folder: &Path, config: &Config) -> Result<Option<u64>, Error> {
    super::check_on_disk(config)?;
    if !folder.exists() {
        return Ok(None);
    }
    let _lock = lock_work_folder(folder)?;
    let Some(newest) = Checkpoint::newest_files(folder, FILES)? else {
        return refuse_foreign_files(folder).map(|()| None);
    };
    let state = RunState::of(&newest)?;
    if state.config != normalised(config) {
        return Err(wrong(newest.origin(), "a run with other settings"));
    }
    let position = state.position;
    Ok((!position.is_begin()).then_some(position.n_steps))
}
