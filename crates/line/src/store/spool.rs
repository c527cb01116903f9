//! Bytes that are written once and then read in order: in memory while they are few, in a scratch file beyond that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Fingerprint;

/// Appends, then reads.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    /// Bytes that are kept in memory, also while there is a file.
    room: usize,
    pending: Vec<u8>,
    file: Option<(File, Scratch)>,
    n_filed: u64,
    /// Of what is in the file, where all of it was written in multiples of 4 bytes.
    fingerprint: Fingerprint,
}

impl Spool {
    /// Nothing yet; `path` is where a file goes if one is needed, and goes away with this value.
    pub(crate) fn new(path: PathBuf, room: usize) -> Spool {
        Spool {
            path,
            room,
            pending: Vec::new(),
            file: None,
            n_filed: 0,
            fingerprint: Fingerprint::new(),
        }
    }

    /// What [`Spool::keep`] left in a file, as long as it was then.
    pub(crate) fn kept(path: PathBuf, room: usize, len: u64) -> io::Result<Spool> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if file.metadata()?.len() != len {
            return Err(io::Error::other("not as long as it was when it was kept"));
        }
        let scratch = Scratch(Some(path.clone()));
        Ok(Spool {
            n_filed: len,
            file: Some((file, scratch)),
            ..Spool::new(path, room)
        })
    }

    /// Whether it has outgrown memory.
    pub(crate) fn is_filed(&self) -> bool {
        self.file.is_some()
    }

    /// Files all of it, so that it outlasts the process and a power cut; gives its fingerprint.
    pub(crate) fn keep(&mut self) -> io::Result<u64> {
        self.file_pending()?;
        if let Some((file, _)) = &self.file {
            file.sync_all()?;
        }
        Ok(self.fingerprint.finish())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All that was written.
    pub(crate) fn bytes(&self) -> u64 {
        self.n_filed + self.pending.len() as u64
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
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
            self.file = Some((file, Scratch(Some(self.path.clone()))));
        }
        if let Some((file, _)) = &self.file {
            file.write_all_at(&self.pending, self.n_filed)?;
        }
        self.fingerprint.update(&self.pending);
        self.n_filed += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// From the start: what is in the file, then what is not yet.
    pub(crate) fn read(&self) -> impl Read + '_ {
        let filed = Filed {
            file: self.file.as_ref().map(|(file, _)| file),
            at: 0,
            end: self.n_filed,
        };
        let room = if self.file.is_some() { self.room } else { 0 };
        BufReader::with_capacity(room, filed).chain(self.pending.as_slice())
    }
}

/// The bytes of a range of a file, from where it is.
pub(crate) struct Filed<'f> {
    pub(crate) file: Option<&'f File>,
    pub(crate) at: u64,
    pub(crate) end: u64,
}

impl Read for Filed<'_> {
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

/// A file that goes away with this value, unless it is renamed.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) Option<PathBuf>);

impl Scratch {
    /// Gives the file its name, for good.
    pub(crate) fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(from) = &self.0 {
            fs::rename(from, to)?;
            self.0 = None;
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
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
            let mut spool = Spool::new(folder.path().join("spool"), room);
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
            prop_assert!(Spool::kept(copy.clone(), room, spool.bytes() + 1).is_err());
            let kept = Spool::kept(copy, room, spool.bytes()).unwrap();
            let mut read = Vec::new();
            kept.read().read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, pieces.concat());
            drop((spool, kept));
            prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
