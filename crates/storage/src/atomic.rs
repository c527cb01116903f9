//! Atomic files: a file appears under its name complete and on disk, or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Writes a file through a temporary one in the same folder: write, fsync, rename, fsync of the folder.
///
/// On an error or panic of `write` the temporary file is removed and what was at `path` stays. (After a kill it may stay
/// behind as `.NAME.PID-N.tmp`.) A symbolic link is followed, and the permissions
/// of a file that is replaced are kept. Something that is no regular file, such as
/// `/dev/stdout` or a pipe, is written to directly.
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
    /// Those of `write` and of the system.
    pub fn write(
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<StagedFile> {
        let Some(path) = regular_target(path)? else {
            let mut device = OpenOptions::new().write(true).open(path)?;
            write(&mut device)?;
            device.flush()?;
            let path = path.to_owned();
            return Ok(StagedFile {
                temporary: None,
                path,
            });
        };
        let (mut file, temporary) = create_beside(&path)?;
        if let Ok(replaced) = fs::metadata(&path) {
            file.set_permissions(replaced.permissions())?;
        }
        write(&mut file)?;
        file.sync_all()?;
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
            Some(temporary) => {
                temporary.rename(&self.path)?;
                sync_folder(&self.path)
            }
        }
    }
}

/// Checks that [`write_atomic`] could make its temporary file, and leaves nothing behind.
///
/// Pipes and devices are not tried: opening a pipe is an event for its reader.
///
/// # Errors
/// Those of the system.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match regular_target(path)? {
        None => Ok(()),
        Some(path) => create_beside(&path).map(drop),
    }
}

/// The regular file that is or will be at a path, behind symbolic links; `None` for devices and pipes.
fn regular_target(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(target) if target.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(target) if !target.is_file() => Ok(None),
        Ok(_) => fs::canonicalize(path).map(Some),
        Err(_) => Ok(Some(path.to_owned())),
    }
}

/// A file that goes away with this value, unless it was renamed.
#[derive(Debug)]
struct Temporary(Option<PathBuf>);

impl Temporary {
    fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(from) = &self.0 {
            fs::rename(from, to)?;
        }
        self.0 = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error that led here matters more than one of tidying up.
            let _ = fs::remove_file(path);
        }
    }
}

fn create_beside(path: &Path) -> io::Result<(File, Temporary)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let process = std::process::id();
    for attempt in 0u32.. {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{process}-{attempt}.tmp"));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
        {
            Ok(file) => return Ok((file, Temporary(Some(temporary)))),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Makes the rename durable; only Unix can open a folder for that.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
