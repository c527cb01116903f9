//! A folder that one process at a time works in.

use std::fs;
use std::path::Path;

use crate::Error;

/// Lock on a folder, held until this value is dropped or the process ends.
///
/// The folder itself carries the lock (`flock`), so a kill leaves nothing behind. On systems other than Unix nothing is held.
///
/// ```
/// use shardgraph_storage::{Error, FolderLock};
/// # let folder = tempfile::tempdir().unwrap();
/// let lock = FolderLock::take(folder.path())?;
/// # #[cfg(unix)]
/// assert!(matches!(FolderLock::take(folder.path()), Err(Error::FolderHeld { .. })));
/// drop(lock);
/// assert!(FolderLock::take(folder.path()).is_ok());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct FolderLock {
    file: Option<fs::File>,
}

impl FolderLock {
    /// Takes the lock, without waiting.
    ///
    /// # Errors
    /// [`Error::FolderHeld`] when another process or value has it; [`Error::Io`] when there is no such folder.
    pub fn take(folder: &Path) -> Result<FolderLock, Error> {
        if cfg!(not(unix)) {
            return Ok(FolderLock { file: None });
        }
        let file = fs::File::open(folder).map_err(Error::io("open", folder))?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock { file: Some(file) }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::FolderHeld {
                folder: folder.to_owned(),
            }),
            Err(fs::TryLockError::Error(error)) => Err(Error::io("lock", folder)(error)),
        }
    }

    /// True where `folder` is still the folder that is held: false once it was moved or removed, also
    /// where another one has its name. On systems other than Unix true.
    ///
    /// ```
    /// use shardgraph_storage::FolderLock;
    /// # let scratch = tempfile::tempdir()?;
    /// # let (run, away) = (scratch.path().join("run"), scratch.path().join("away"));
    /// std::fs::create_dir(&run)?;
    /// let lock = FolderLock::take(&run)?;
    /// assert!(lock.is_at(&run));
    /// std::fs::rename(&run, &away)?;
    /// std::fs::create_dir(&run)?;
    /// # #[cfg(unix)]
    /// assert!(!lock.is_at(&run));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_at(&self, folder: &Path) -> bool {
        let Some(file) = &self.file else {
            return true;
        };
        match (file.metadata(), fs::metadata(folder)) {
            (Ok(held), Ok(found)) => is_same(&held, &found),
            _ => false,
        }
    }
}

impl Drop for FolderLock {
    /// Unlocks instead of closing alone: a child between fork and exec has a copy of the open file.
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = file.unlock();
        }
    }
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}
