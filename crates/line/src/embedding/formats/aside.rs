//! A file that is about to be replaced together with another one, put aside until both are there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use shardgraph_storage::regular_target;

use crate::Error;

/// What was at a path; unless [`Aside::forget`] is called, it is there again when this value goes.
///
/// After a kill it stays behind as `.NAME.PROCESS-N.earlier`.
#[derive(Debug)]
pub(super) struct Aside {
    /// Behind symbolic links.
    path: PathBuf,
    /// Where it is meanwhile; absent where there was nothing.
    earlier: Option<PathBuf>,
    is_forgotten: bool,
}

impl Aside {
    /// Puts a file aside; `None` for a device or a pipe, which is written to as it is.
    pub(super) fn put(path: &Path) -> io::Result<Option<Aside>> {
        let Ok(path) = regular_target(path) else {
            return Ok(None);
        };
        let earlier = match path.exists() {
            true => {
                let earlier = free_name(&path)?;
                fs::rename(&path, &earlier)?;
                Some(earlier)
            }
            false => None,
        };
        Ok(Some(Aside {
            path,
            earlier,
            is_forgotten: false,
        }))
    }

    /// Removes what was there, once its successor is.
    pub(super) fn forget(mut self) -> Result<(), Error> {
        self.is_forgotten = true;
        match &self.earlier {
            None => Ok(()),
            Some(earlier) => fs::remove_file(earlier).map_err(|e| Error::io("remove", earlier, e)),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.is_forgotten {
            return;
        }
        // The error that led here matters more than one of putting back.
        let _ = match &self.earlier {
            Some(earlier) => fs::rename(earlier, &self.path),
            None => fs::remove_file(&self.path),
        };
    }
}

/// A hidden name in the same folder that nothing has.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let process = std::process::id();
    for attempt in 0u32.. {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{process}-{attempt}.earlier"));
        let earlier = path.with_file_name(hidden);
        if fs::symlink_metadata(&earlier).is_err() {
            return Ok(earlier);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
