//! Files of rows: a group's parts one after the other, and their fingerprint behind them.

use std::io;
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

use shardgraph_storage::Hasher;
use shardgraph_storage::direct::{BounceBuffer, Reader, Writer};

use crate::Error;

/// A group of a table of an order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(deny_unknown_fields)]
pub(super) struct TableKey {
    pub(super) order: u32,
    pub(super) table: u32,
    pub(super) group: u32,
}

/// A file of rows, and the group that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowsFile {
    pub(super) path: PathBuf,
    pub(super) key: TableKey,
    /// Each write of the run has a number of its own.
    pub(super) generation: u64,
}

impl RowsFile {
    /// Begun with the group, so that another group's file is not taken for it.
    fn fingerprint(&self) -> Hasher {
        let mut fingerprint = Hasher::new();
        let TableKey {
            order,
            table,
            group,
        } = self.key;
        for word in [order, table, group, self.generation as u32] {
            fingerprint.update(&word.to_le_bytes());
        }
        fingerprint
    }
}

/// Writer of a file of rows.
pub(super) struct RowWriter<'f> {
    path: &'f Path,
    file: Writer<'f>,
    fingerprint: Hasher,
    quota: DiskQuota,
}

impl<'f> RowWriter<'f> {
    /// Creates the file, or writes over it; `len` is the number of bytes of its rows.
    pub(super) fn create(
        file: &'f RowsFile,
        len: u64,
        bounce: &'f mut BounceBuffer,
        quota: &DiskQuota,
    ) -> Result<RowWriter<'f>, Error> {
        let path = file.path.as_path();
        let created = Writer::create(path, len + 8, bounce);
        Ok(RowWriter {
            path,
            file: created.map_err(|e| Error::io("write", path, e))?,
            fingerprint: file.fingerprint(),
            quota: quota.clone(),
        })
    }

    /// Longest run of bytes that should be written at a time.
    pub(super) fn piece(&self) -> usize {
        self.file.piece()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.fingerprint.update(bytes);
        let written = self.quota.take(bytes.len());
        let written = written.and_then(|()| self.file.write(bytes));
        written.map_err(|e| Error::io("write", self.path, e))
    }

    /// Writes the fingerprint.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let fingerprint = self.fingerprint.finish().to_le_bytes();
        self.write(&fingerprint)?;
        let path = self.path;
        self.file.finish().map_err(|e| Error::io("write", path, e))
    }
}

/// Reader of a file of rows.
pub(super) struct RowReader<'f> {
    path: &'f Path,
    file: Reader<'f>,
    fingerprint: Hasher,
}

impl<'f> RowReader<'f> {
    pub(super) fn open(
        file: &'f RowsFile,
        bounce: &'f mut BounceBuffer,
    ) -> Result<RowReader<'f>, Error> {
        let path = file.path.as_path();
        let opened = Reader::open(path, bounce);
        Ok(RowReader {
            path,
            file: opened.map_err(|e| Error::io("read", path, e))?,
            fingerprint: file.fingerprint(),
        })
    }

    /// Longest run of bytes that should be read at a time.
    pub(super) fn piece(&self) -> usize {
        self.file.piece()
    }

    pub(super) fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let read = self.file.read(bytes);
        read.map_err(|e| Error::io("read", self.path, e))?;
        self.fingerprint.update(bytes);
        Ok(())
    }

    /// Compares the fingerprint; only now it is known whether the rows are damaged.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let (found, mut stored) = (self.fingerprint.finish(), [0; 8]);
        self.read(&mut stored)?;
        match u64::from_le_bytes(stored) == found {
            true => Ok(()),
            false => {
                let problem = "damaged: start the run again in an empty folder";
                Err(Error::file(self.path, problem))
            }
        }
    }
}

/// Bytes that the disk takes, for tests of a run whose disk is full.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskQuota {
    #[cfg(test)]
    left: Option<Arc<AtomicU64>>,
}

#[cfg(test)]
thread_local! {
    /// Bytes that the I/O threads of this thread can write; `None`: as many as there are.
    pub(super) static QUOTA: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

impl DiskQuota {
    /// Quota of the present thread.
    pub(super) fn current() -> DiskQuota {
        DiskQuota {
            #[cfg(test)]
            left: QUOTA.get().map(|left| Arc::new(AtomicU64::new(left))),
        }
    }

    fn take(&self, _n_bytes: usize) -> io::Result<()> {
        #[cfg(test)]
        if let Some(left) = &self.left {
            let enough = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(_n_bytes as u64)
            });
            return enough
                .map(drop)
                .map_err(|_| io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}
