//! Spill files: bytes that are written once and then read in order, in memory while they are few, in a scratch file beyond.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Hasher;
use crate::target::rename_over;

/// Bytes in memory up to a limit, and in a file beyond it; the file goes away with the value.
///
/// ```
/// use shardgraph_storage::SpillFile;
/// use std::io::Read;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("edges");
/// let mut edges = SpillFile::new(path.clone(), 8);
/// edges.write(b"12345678")?;
/// assert!(!path.exists());
/// edges.write(b"9")?;
/// assert!(path.exists());
/// let mut all = String::new();
/// edges.read().read_to_string(&mut all)?;
/// assert_eq!(all, "123456789");
/// drop(edges);
/// assert!(!path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SpillFile {
    path: PathBuf,
    /// Bytes that are kept in memory, also while there is a file.
    room: usize,
    pending: Vec<u8>,
    file: Option<(File, ScratchFile)>,
    n_filed: u64,
    /// Of the bytes in the file.
    hasher: Hasher,
}

impl SpillFile {
    /// Spill file without bytes: `path` is where a file goes when more than `room` bytes have to be kept.
    #[must_use]
    pub fn new(path: PathBuf, room: usize) -> SpillFile {
        SpillFile {
            path,
            room,
            pending: Vec::new(),
            file: None,
            n_filed: 0,
            hasher: Hasher::new(),
        }
    }

    /// Opens the file that [`SpillFile::keep`] made and an earlier process left behind.
    ///
    /// # Errors
    /// The system's; a file whose length is not `len`.
    pub fn kept(path: PathBuf, room: usize, len: u64) -> io::Result<SpillFile> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if file.metadata()?.len() != len {
            return Err(io::Error::other("not as long as it was when it was kept"));
        }
        let scratch = ScratchFile::new(path.clone());
        Ok(SpillFile {
            n_filed: len,
            file: Some((file, scratch)),
            ..SpillFile::new(path, room)
        })
    }

    /// True if a file exists.
    pub fn is_filed(&self) -> bool {
        self.file.is_some()
    }

    /// Writes all bytes to the file and syncs it; returns their hash.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(&mut self) -> io::Result<u64> {
        self.file_pending()?;
        if let Some((file, _)) = &self.file {
            file.sync_all()?;
        }
        Ok(self.hasher.finish())
    }

    /// Path of the file, which may not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.n_filed + self.pending.len() as u64
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.pending.len() + bytes.len() > self.room {
            self.file_pending()?;
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn file_pending(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let mut open = OpenOptions::new();
            let file = open.read(true).write(true).create_new(true);
            let file = file.open(&self.path)?;
            self.file = Some((file, ScratchFile::new(self.path.clone())));
        }
        if let Some((file, _)) = &self.file {
            file.write_all_at(&self.pending, self.n_filed)?;
        }
        self.hasher.update(&self.pending);
        self.n_filed += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Reader of all bytes, from the start.
    pub fn read(&self) -> impl Read + '_ {
        let filed = FileRange {
            file: self.file.as_ref().map(|(file, _)| file),
            at: 0,
            end: self.n_filed,
        };
        let room = if self.file.is_some() { self.room } else { 0 };
        BufReader::with_capacity(room, filed).chain(self.pending.as_slice())
    }
}

/// Reader of the bytes `at..end` of a file, which leaves the file's own position alone.
#[derive(Debug)]
pub struct FileRange<'f> {
    /// The file; without one there is nothing to read.
    pub file: Option<&'f File>,
    /// Offset of the next byte.
    pub at: u64,
    /// Offset behind the last byte.
    pub end: u64,
}

impl Read for FileRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (self.end - self.at).min(buffer.len() as u64) as usize;
        let n = match self.file {
            Some(file) if len > 0 => file.read_at(&mut buffer[..len], self.at)?,
            _ => 0,
        };
        self.at += n as u64;
        Ok(n)
    }
}

/// Path of a file that is removed with this value, unless it is renamed.
#[derive(Debug)]
pub struct ScratchFile(Option<PathBuf>);

impl ScratchFile {
    /// Takes charge of a file, which need not exist yet.
    #[must_use]
    pub fn new(path: PathBuf) -> ScratchFile {
        ScratchFile(Some(path))
    }

    /// Renames the file, durably; it stays then. A symbolic link is followed.
    ///
    /// # Errors
    /// The system's, and where `to` is there and no regular file.
    pub fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(from) = &self.0 {
            rename_over(from, to)?;
            self.0 = None;
        }
        Ok(())
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error that led here matters more than one of tidying up.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
            room in 0usize..200,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut spool = SpillFile::new(folder.path().join("spool"), room);
            for piece in &pieces {
                spool.write(piece).unwrap();
            }
            for _ in 0..2 {
                let mut read = Vec::new();
                spool.read().read_to_end(&mut read).unwrap();
                prop_assert_eq!(&read, &pieces.concat());
            }
            prop_assert_eq!(spool.bytes(), pieces.concat().len() as u64);
            prop_assert!(pieces.concat().len() > room || !spool.path().exists());
            spool.keep().unwrap();
            let copy = folder.path().join("copy");
            fs::copy(spool.path(), &copy).unwrap();
            prop_assert!(SpillFile::kept(copy.clone(), room, spool.bytes() + 1).is_err());
            let kept = SpillFile::kept(copy, room, spool.bytes()).unwrap();
            let mut read = Vec::new();
            kept.read().read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, pieces.concat());
            drop((spool, kept));
            prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
