//! All or nothing: a file appears under its name complete and on disk, or not at all.

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
/// use shardgraph_graph::write_atomic;
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
    let path = match fs::metadata(path) {
        Ok(target) if target.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(target) if !target.is_file() => return write_directly(path, write),
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => path.to_owned(),
    };
    let (mut file, temporary) = create_beside(&path)?;
    if let Ok(replaced) = fs::metadata(&path) {
        file.set_permissions(replaced.permissions())?;
    }
    write(&mut file)?;
    file.sync_all()?;
    drop(file);
    temporary.rename(&path)?;
    sync_folder(&path)
}

fn write_directly(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut device = OpenOptions::new().write(true).open(path)?;
    write(&mut device)?;
    device.flush()
}

/// A file that goes away with this value, unless it was renamed.
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
