//! Atomic files: a file appears under its name complete and on disk, or not at all.

mod temporary;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::target::{OutputTarget, open_stream};
use temporary::{Temporary, remove_leftovers_beside};

pub use temporary::remove_leftovers;

/// Writes a file through a temporary one in the same folder: write, fsync, rename, fsync of the folder.
///
/// On an error or panic of `write` the temporary file is removed and what was at `path` stays. (After a kill it may stay
/// behind as `.NAME.PID-N.tmp`, which the next [`check_writable`] removes.) A symbolic link is followed, also to a file that is not
/// there yet, and the permissions of a file that is replaced are kept. A character device or a pipe
/// is written to directly, a pipe once a process reads it, within 10 s.
///
/// ```
/// use shardgraph_storage::write_atomic;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cover.txt");
/// write_atomic(&path, |out| out.write_all(b"1\n2\n"))?;
/// assert_eq!(std::fs::read(&path)?, b"1\n2\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of `write` and of the system.
pub fn write_atomic(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    StagedFile::write(path, write)?.publish()
}

/// File that is complete and on disk under a temporary name; without [`StagedFile::publish`] it is removed.
///
/// For several files that belong together: only when all are staged is the first one published.
///
/// ```
/// use shardgraph_storage::StagedFile;
/// # let folder = tempfile::tempdir()?;
/// let paths = ["plan", "chart"].map(|name| folder.path().join(name));
/// let plan = StagedFile::write(&paths[0], |out| out.write_all(b"1"))?;
/// let chart = StagedFile::write(&paths[1], |out| out.write_all(b"2"))?;
/// assert!(!paths[0].exists());
/// plan.publish()?;
/// chart.publish()?;
/// assert_eq!(std::fs::read(&paths[0])?, b"1");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct StagedFile {
    /// Absent for what is no regular file and has been written to.
    temporary: Option<Temporary>,
    path: PathBuf,
}

impl StagedFile {
    /// All of [`write_atomic`] but the rename.
    ///
    /// # Errors
    /// Those of `write` and of the system; a folder, a socket and a block device are refused.
    pub fn write(
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<StagedFile> {
        let path = match OutputTarget::of(path)? {
            OutputTarget::File(path) => path,
            OutputTarget::Stream(path) => {
                let mut stream = open_stream(&path)?;
                write(&mut stream)?;
                stream.flush()?;
                return Ok(StagedFile {
                    temporary: None,
                    path,
                });
            }
        };
        let mut temporary = Temporary::create_beside(&path)?;
        if let Ok(replaced) = fs::metadata(&path) {
            temporary.file.set_permissions(replaced.permissions())?;
        }
        write(&mut temporary.file)?;
        temporary.file.sync_all()?;
        Ok(StagedFile {
            temporary: Some(temporary),
            path,
        })
    }

    /// Renames the file to its own name.
    ///
    /// # Errors
    /// Those of the system.
    pub fn publish(self) -> io::Result<()> {
        match self.temporary {
            None => Ok(()),
            Some(temporary) => temporary.rename(&self.path),
        }
    }
}

/// Checks that [`write_atomic`] could make its temporary file, and leaves nothing behind: not that
/// file, and none that a killed process has left under its names.
///
/// Pipes and devices are not tried: opening a pipe is an event for its reader.
///
/// # Errors
/// Those of the system.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match OutputTarget::of(path)? {
        OutputTarget::Stream(_) => Ok(()),
        OutputTarget::File(path) => {
            remove_leftovers_beside(&path);
            Temporary::create_beside(&path).map(drop)
        }
    }
}

#[cfg(test)]
mod tests;
