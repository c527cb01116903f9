//! Checkpoints on disk: a folder `checkpoint-0000000123` with the files of a step, complete once its MANIFEST is there.
//!
//! The MANIFEST has a line of JSON for each file: name, length, hash; then one with the hash of the folder's name and of
//! the lines before, so that each byte of a checkpoint is under a checksum. It is written last and, when a checkpoint goes,
//! removed first; so whatever a kill leaves is either a whole checkpoint or none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_storage::{Hasher, hash, write_atomic};

use crate::{Checkpoint, Error};

const MANIFEST: &str = "MANIFEST";

/// Checkpoints that a folder keeps: the newest, and one to fall back to.
pub const N_KEPT: usize = 2;

/// A line of the MANIFEST.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    bytes: u64,
    /// None for a file beside the checkpoint, which has a checksum inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    xxh3: Option<String>,
}

impl Entry {
    fn of(file: &str, bytes: &[u8]) -> Entry {
        Entry {
            file: file.to_owned(),
            bytes: bytes.len() as u64,
            xxh3: Some(format!("{:016x}", hash(bytes))),
        }
    }

    fn beside(file: &str, bytes: u64) -> Entry {
        Entry {
            file: file.to_owned(),
            bytes,
            xxh3: None,
        }
    }

    fn extent(&self) -> String {
        let hash = self.xxh3.as_ref().map(|hash| format!(" with hash {hash}"));
        format!("{} bytes{}", self.bytes, hash.unwrap_or_default())
    }

    fn line(&self) -> String {
        let text = serde_json::to_string(self);
        text.expect("strings and a number have a JSON form") + "\n"
    }
}

/// The last line of the MANIFEST.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    manifest_xxh3: String,
}

/// Lines of files with their seal, as the MANIFEST of a step has them.
pub(crate) fn sealed(step: u64, lines: &str) -> String {
    lines.to_owned() + &Seal::of(step, lines.as_bytes()).line()
}

impl Seal {
    /// Of the lines before it, in the checkpoint of a step.
    fn of(step: u64, lines: &[u8]) -> Seal {
        let mut hasher = Hasher::new();
        hasher.update(folder_name(step).as_bytes());
        hasher.update(lines);
        Seal {
            manifest_xxh3: format!("{:016x}", hasher.finish()),
        }
    }

    fn line(&self) -> String {
        let text = serde_json::to_string(self);
        text.expect("a string has a JSON form") + "\n"
    }
}

/// The name of a checkpoint's folder.
pub(crate) fn folder_name(step: u64) -> String {
    format!("checkpoint-{step:010}")
}

/// True if a file of a checkpoint may have this name.
pub(crate) fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain) && name != MANIFEST
}

/// Writes a checkpoint.
pub(crate) fn write(folder: &Path, checkpoint: &Checkpoint) -> Result<(), Error> {
    let target = folder.join(folder_name(checkpoint.step()));
    // The run's folder itself is not made again where it is gone.
    match fs::create_dir(&target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !target.is_dir() => {
            return Err(Error::io(&target)(error));
        }
        _ => {}
    }
    let mut manifest = String::new();
    for (name, bytes) in checkpoint.files() {
        let path = target.join(name);
        write_atomic(&path, |out| out.write_all(bytes)).map_err(Error::io(&path))?;
        manifest += &Entry::of(name, bytes).line();
    }
    for (name, bytes) in checkpoint.files_beside() {
        manifest += &Entry::beside(name, *bytes).line();
    }
    let manifest = sealed(checkpoint.step(), &manifest);
    let path = target.join(MANIFEST);
    write_atomic(&path, |out| out.write_all(manifest.as_bytes())).map_err(Error::io(&path))?;
    // The folder's own entry must be on disk before an older checkpoint goes.
    sync_folder(folder).map_err(Error::io(folder))
}

/// Makes a folder and those above it that are missing, for good: each one's entry is on disk.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Error> {
    if fs::metadata(folder).is_ok_and(|found| !found.is_dir()) {
        let reason = "this is a file: expected the name of a folder";
        return Err(Error::folder(folder, reason));
    }
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    for made in missing {
        let above = made.parent().filter(|path| !path.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        sync_folder(above).map_err(Error::io(above))?;
    }
    Ok(())
}

/// Only Unix can open a folder for that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => fs::File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// Part of a checkpoint to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All files that its MANIFEST names.
    Whole,
    /// The files that are asked for.
    Named,
}

/// See [`Checkpoint::newest`] and [`Checkpoint::newest_files`].
pub(crate) fn newest(
    folder: &Path,
    files: &[&str],
    part: Part,
) -> Result<Option<Checkpoint>, Error> {
    let mut damage = None;
    for (step, path) in listed(folder)?.into_iter().rev() {
        if !has_manifest(&path)? {
            continue; // a kill left it behind
        }
        match read(&path, step, files, part) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(error) if error.is_damage() => damage = damage.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    damage.map_or(Ok(None), Err)
}

fn has_manifest(checkpoint: &Path) -> Result<bool, Error> {
    let path = checkpoint.join(MANIFEST);
    path.try_exists().map_err(Error::io(&path))
}

/// See [`Checkpoint::passed_over`].
pub(crate) fn passed_over(folder: &Path) -> Result<Vec<Error>, Error> {
    let mut damages = Vec::new();
    for (step, path) in listed(folder)?.into_iter().rev() {
        if !has_manifest(&path)? {
            continue; // a kill left it behind
        }
        match read(&path, step, &[], Part::Whole) {
            Ok(_) => return Ok(damages),
            Err(error) if error.is_damage() => damages.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(Vec::new()) // there is none to go on from
}

/// Folders with a checkpoint's name, oldest first, complete or not. Anything else in the folder is not ours.
fn listed(folder: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(step) = name.and_then(step_of)
            && path.is_dir()
        {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Folders of checkpoints, complete or not.
pub(crate) fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(listed(folder)?.into_iter().map(|(_, path)| path).collect())
}

fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("checkpoint-")?.parse().ok()?;
    (folder_name(step) == name).then_some(step)
}

/// Removes what a kill has left incomplete, and complete checkpoints before the one that was `written`, but for the
/// `fallback`: any other between the two is one that resuming passed over as damaged. Damaged ones later than the one that was
/// written stay until the run comes there.
pub(crate) fn remove_old(folder: &Path, written: u64, fallback: Option<u64>) -> Result<(), Error> {
    for (step, path) in listed(folder)? {
        let is_kept = step >= written || Some(step) == fallback;
        if step != written && !(is_kept && has_manifest(&path)?) {
            remove(&path).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

/// Removes all checkpoints, the newest last.
pub(crate) fn remove_all(folder: &Path) -> Result<(), Error> {
    for path in folders(folder)? {
        remove(&path).map_err(Error::io(&path))?;
    }
    Ok(())
}

/// The MANIFEST goes first: a kill in between leaves no checkpoint that promises files which are gone.
fn remove(checkpoint: &Path) -> io::Result<()> {
    match fs::remove_file(checkpoint.join(MANIFEST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir_all(checkpoint),
    }
}

/// A checkpoint or the part of it, checked against its MANIFEST, which must name all of `files`.
fn read(folder: &Path, step: u64, files: &[&str], part: Part) -> Result<Checkpoint, Error> {
    let path = folder.join(MANIFEST);
    let manifest = fs::read(&path).map_err(Error::io(&path))?;
    let mut checkpoint = Checkpoint::new(step);
    checkpoint.set_origin(folder);
    if manifest.is_empty() {
        let reason =
            "the file is empty: put it back from a copy, or start a new run in another folder";
        return Err(Error::damaged(path.display(), reason));
    }
    let lines = unsealed(&manifest, step).map_err(|why| Error::damaged(path.display(), why))?;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let entry: Entry = serde_json::from_slice(line)
            .map_err(|e| Error::damaged(path.display(), format!("a damaged line: {e}")))?;
        if part == Part::Named && !files.contains(&entry.file.as_str()) {
            continue;
        }
        let bytes = read_file(folder, &entry)?;
        let added = match entry.xxh3 {
            Some(_) => checkpoint.add(&entry.file, bytes),
            None => checkpoint.add_beside(&entry.file, entry.bytes),
        };
        added.map_err(|e| Error::damaged(path.display(), e.to_string()))?;
    }
    for name in files {
        checkpoint.file(name)?;
    }
    Ok(checkpoint)
}

/// The lines of the files, whose seal is the last line.
fn unsealed(manifest: &[u8], step: u64) -> Result<&[u8], String> {
    let before_end = manifest.strip_suffix(b"\n").unwrap_or(manifest);
    let start = before_end.iter().rposition(|&byte| byte == b'\n');
    let (lines, seal) = manifest.split_at(start.map_or(0, |end| end + 1));
    if serde_json::from_slice::<Entry>(seal).is_ok() || contains(manifest, b"fnv1a64") {
        return Err(
            "an earlier version of this program wrote the checkpoint, or the end of the file is missing: go on with that \
             version, or start a new run in another folder"
                .to_owned(),
        );
    }
    match Seal::of(step, lines).line().as_bytes() == seal {
        true => Ok(lines),
        false => Err(
            "the file is damaged, or its folder was renamed: put the checkpoint back from a copy, or start a new run in \
             another folder"
                .to_owned(),
        ),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|found| found == part)
}

/// The content of a file; none of a file beside the checkpoint, whose length alone is compared.
fn read_file(folder: &Path, entry: &Entry) -> Result<Vec<u8>, Error> {
    if !is_file_name(&entry.file) {
        let reason = format!("`{}` is no file of a checkpoint", entry.file);
        return Err(Error::damaged(folder.join(MANIFEST).display(), reason));
    }
    let is_beside = entry.xxh3.is_none();
    let place = folder.parent().filter(|_| is_beside).unwrap_or(folder);
    let path = place.join(&entry.file);
    let read = || match is_beside {
        true => {
            let found = Entry::beside(&entry.file, fs::metadata(&path)?.len());
            Ok((found, Vec::new()))
        }
        false => fs::read(&path).map(|bytes| (Entry::of(&entry.file, &bytes), bytes)),
    };
    let (found, bytes) = read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::damaged(
            path.display(),
            "the checkpoint is damaged: its MANIFEST names this file, which is gone; put it back from a copy, or start a new \
             run in another folder",
        ),
        _ => Error::io(&path)(error),
    })?;
    if found == *entry {
        return Ok(bytes);
    }
    Err(Error::damaged(
        path.display(),
        format!(
            "the file is damaged: its MANIFEST says {}, and there are {}; put the file back from a copy, or start a new run in \
             another folder",
            entry.extent(),
            found.extent()
        ),
    ))
}
