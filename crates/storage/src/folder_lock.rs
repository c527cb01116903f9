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
    _file: Option<fs::File>,
}

impl FolderLock {
    /// Takes the lock, without waiting.
    ///
    /// # Errors
    /// [`Error::FolderHeld`] when another process or value has it; [`Error::Io`] when there is no such folder.
    pub fn take(folder: &Path) -> Result<FolderLock, Error> {
        if cfg!(not(unix)) {
            return Ok(FolderLock { _file: None });
        }
        let file = fs::File::open(folder).map_err(Error::io("open", folder))?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock { _file: Some(file) }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::FolderHeld {
                folder: folder.to_owned(),
            }),
            Err(fs::TryLockError::Error(error)) => Err(Error::io("lock", folder)(error)),
        }
    }
}
