//! Names of an import's scratch files, which no other import has, and the leftovers of killed ones.
//!
//! They are called `OUT.import-TIME-WHAT`, the time in nanoseconds as 16 hexadecimal digits. An
//! import holds a lock on its file `...-lock` for as long as it runs. So names whose lock file is
//! there, and not held, are those of a killed import, on whatever machine it ran; where the system
//! has no locks, they stay. An import that was killed behind its reading leaves a file `...-state`
//! too (see `resume_point`): an import of the same text takes its names over, with the lock.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::resume_point::{RESUME_FILES, RESUME_POINT, ResumePoint};
use crate::edges::beside::beside;

const LOCK: &str = "lock";
/// Two imports that begin in the same nanosecond, or one whose lock was taken for a leftover, try
/// again.
const ATTEMPTS: u32 = 100;

/// Names for the scratch files of one import.
#[derive(Debug)]
pub(super) struct ScratchNames {
    stem: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl ScratchNames {
    pub(super) fn new(out: &Path) -> io::Result<ScratchNames> {
        for _ in 0..ATTEMPTS {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = since.map_or(0, |since| since.as_nanos() as u64);
            let mut stem = out.as_os_str().to_owned();
            stem.push(format!(".import-{time:016x}"));
            let stem = PathBuf::from(stem);
            let lock = beside(&stem, LOCK);
            let held = match File::create_new(&lock) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            };
            // Another import may have found the file before it was locked, and removed it.
            let is_held = !matches!(held.try_lock(), Err(TryLockError::WouldBlock));
            if is_held && lock.exists() {
                return Ok(ScratchNames {
                    stem,
                    lock,
                    _held: held,
                });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Beginning of the names of all scratch files.
    pub(super) fn stem(&self) -> &Path {
        &self.stem
    }
}

impl Drop for ScratchNames {
    fn drop(&mut self) {
        // A lock file that stays is removed by the next import.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Removes the scratch files of killed imports; takes over those of one that had read what is
/// `wanted`.
pub(super) fn remove_leftovers(
    out: &Path,
    wanted: impl Fn(&Path) -> Option<ResumePoint>,
) -> io::Result<Option<(ScratchNames, ResumePoint)>> {
    let Some(name) = out.file_name() else {
        return Ok(None);
    };
    let prefix = format!("{}.import-", name.to_string_lossy());
    let mut taken = None;
    for (time, files) in leftovers(out, &prefix)? {
        let stem = out.with_file_name(format!("{prefix}{time}"));
        let lock = beside(&stem, LOCK);
        // Some file systems lock only what is open for writing.
        let Ok(held) = OpenOptions::new().write(true).open(&lock) else {
            continue; // nobody's, or another user's
        };
        if held.try_lock().is_err() || !lock.exists() {
            continue;
        }
        let state = match taken {
            None => wanted(&stem),
            Some(_) => None,
        };
        let is_kept = |path: &PathBuf| RESUME_FILES.iter().any(|what| *path == beside(&stem, what));
        let is_over = |path: &&PathBuf| **path != lock && (state.is_none() || !is_kept(path));
        files
            .iter()
            .filter(is_over)
            .try_for_each(|path| remove(path))?;
        match state {
            Some(state) => {
                taken = Some((
                    ScratchNames {
                        stem,
                        lock,
                        _held: held,
                    },
                    state,
                ))
            }
            None => remove(&lock)?, // the last, so that what a kill leaves is still known
        }
    }
    Ok(taken)
}

/// The scratch files of imports to a name, by their times.
fn leftovers(out: &Path, prefix: &str) -> io::Result<BTreeMap<String, Vec<PathBuf>>> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut imports: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let name = entry?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(prefix));
        if let Some((time, what)) = rest.and_then(|rest| rest.split_once('-'))
            && is_time(time)
            && is_scratch(what)
        {
            let files = imports.entry(time.to_owned()).or_default();
            files.push(out.with_file_name(&name));
        }
    }
    Ok(imports)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()), // another import was faster
        ended => ended,
    }
}

fn is_time(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// True if an import gives a scratch file this name.
pub(super) fn is_scratch(what: &str) -> bool {
    const PLAIN: [&str; 9] = [
        "edges",
        "weights",
        "ends",
        "labels",
        "degrees",
        "partial",
        "store",
        RESUME_POINT,
        LOCK,
    ];
    let base = what.strip_suffix("-ends").unwrap_or(what);
    let of_names = base.strip_prefix("names-").or_else(|| {
        let numbers = base.strip_prefix("numbers-")?;
        Some(numbers.strip_suffix("-labels").unwrap_or(numbers))
    });
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    PLAIN.contains(&base) || of_names.is_some_and(is_number)
}
