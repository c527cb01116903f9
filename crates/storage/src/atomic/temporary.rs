//! Temporary files `.NAME.PID-N.tmp`, and those that killed processes have left.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::target::{folder_of, rename_over};

/// A file that goes away with this value, unless it was renamed. Its lock says that it is alive.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) file: File,
    path: Option<PathBuf>,
}

impl Temporary {
    /// Makes a file in the folder of `path`.
    pub(super) fn create_beside(path: &Path) -> io::Result<Temporary> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let process = std::process::id();
        for attempt in 0u32.. {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{process}-{attempt}.tmp"));
            let path = path.with_file_name(hidden);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).open(&path) {
                Ok(file) => {
                    // A file system without locks has leftovers told by their process alone.
                    let _ = file.try_lock();
                    return Ok(Temporary {
                        file,
                        path: Some(path),
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(from) = &self.path {
            rename_over(from, to)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The error that led here matters more than one of tidying up.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the temporary files that killed processes have left in a folder: those whose process is
/// gone and whose lock is free. Returns their number.
///
/// A folder that cannot be listed has none. Linux alone says which processes there are; elsewhere
/// nothing is removed.
pub fn remove_leftovers(folder: &Path) -> usize {
    remove_leftovers_of(folder, |_| true)
}

/// As [`remove_leftovers`], of one file's name.
pub(super) fn remove_leftovers_beside(path: &Path) -> usize {
    let Some(name) = path.file_name() else {
        return 0;
    };
    remove_leftovers_of(folder_of(path), |of| name == OsStr::new(of))
}

fn remove_leftovers_of(folder: &Path, wanted: impl Fn(&str) -> bool) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let is_leftover = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        let parsed = name.and_then(parse);
        parsed.is_some_and(|(of, process)| wanted(of) && has_ended(process)) && is_unlocked(path)
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let leftovers = paths.filter(is_leftover);
    leftovers
        .filter(|path| fs::remove_file(path).is_ok())
        .count()
}

/// NAME and PID of `.NAME.PID-N.tmp`.
fn parse(name: &str) -> Option<(&str, u32)> {
    let name = name.strip_prefix('.')?.strip_suffix(".tmp")?;
    let (name, numbers) = name.rsplit_once('.')?;
    let (process, attempt) = numbers.split_once('-')?;
    attempt.parse::<u32>().ok()?;
    Some((name, process.parse().ok()?))
}

fn has_ended(process: u32) -> bool {
    cfg!(target_os = "linux") && !Path::new(&format!("/proc/{process}")).exists()
}

fn is_unlocked(path: &Path) -> bool {
    let file = OpenOptions::new().write(true).open(path);
    file.is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
