//! One thread that writes and reads groups of rows, in the order in which it is asked: a read sees the write before it.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shardgraph_device::{Buffer, Device};

use super::cell::Cell;
use crate::schedule::Key;
use crate::store::Fingerprint;
use crate::{Error, ErrorKind};

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Request<T: Cell> {
    /// Writes parts to a new file and drops them.
    Write {
        path: PathBuf,
        parts: Vec<Buffer<T>>,
    },
    /// Reads a file of parts with so many cells each.
    Read {
        key: Key,
        path: PathBuf,
        n_cells: Vec<usize>,
    },
    /// Removes a file that nothing needs any more.
    Remove(PathBuf),
    /// Answers when all before it is done.
    Settle,
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum Reply<T: Cell> {
    Read(Key, Vec<Buffer<T>>),
    Settled,
    Failed(Error),
}

/// The thread, as its user sees it.
#[derive(Debug)]
pub(crate) struct Disk<T: Cell> {
    requests: Option<Sender<Request<T>>>,
    replies: Receiver<Reply<T>>,
    thread: Option<JoinHandle<()>>,
    deadline: Duration,
}

impl<T: Cell> Disk<T> {
    pub(crate) fn start(device: &Device, deadline: Duration) -> Result<Disk<T>, Error> {
        let ((requests, asked), (answer, replies)) = (channel(), channel());
        let device = device.clone();
        let work = move || {
            for request in asked {
                if let Some(reply) = serve(&device, request)
                    && answer.send(reply).is_err()
                {
                    return; // nobody waits any more
                }
            }
        };
        let thread = thread::Builder::new()
            .name("line disk".to_owned())
            .spawn(work);
        let thread = thread.map_err(|e| {
            Error::new(
                ErrorKind::Device,
                format!("cannot start the disk thread: {e}"),
            )
        })?;
        Ok(Disk {
            requests: Some(requests),
            replies,
            thread: Some(thread),
            deadline,
        })
    }

    /// Asks, without waiting.
    pub(crate) fn ask(&self, request: Request<T>) {
        if let Some(requests) = &self.requests {
            // Where the thread is gone, the next wait says so.
            let _ = requests.send(request);
        }
    }

    /// The next answer.
    pub(crate) fn wait(&self) -> Result<Reply<T>, Error> {
        match self.replies.recv_timeout(self.deadline) {
            Ok(Reply::Failed(error)) => Err(error),
            Ok(reply) => Ok(reply),
            Err(RecvTimeoutError::Timeout) => Err(Error::new(
                ErrorKind::Deadline,
                format!(
                    "the disk did not answer within {} s",
                    self.deadline.as_secs_f64()
                ),
            )),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::new(ErrorKind::Device, "the disk thread has ended"))
            }
        }
    }
}

impl<T: Cell> Drop for Disk<T> {
    /// Lets the thread finish what it was asked for; a disk that hangs is left behind with its thread.
    fn drop(&mut self) {
        self.requests = None;
        while self.replies.recv_timeout(self.deadline).is_ok() {}
        let last = self.replies.recv_timeout(Duration::ZERO);
        let is_over = matches!(last, Err(RecvTimeoutError::Disconnected));
        if let Some(thread) = self.thread.take().filter(|_| is_over) {
            let _ = thread.join();
        }
    }
}

fn serve<T: Cell>(device: &Device, request: Request<T>) -> Option<Reply<T>> {
    let done = match request {
        Request::Write { path, parts } => write_rows(device, &path, &parts).map(|()| None),
        Request::Read { key, path, n_cells } => {
            read_rows(device, &path, &n_cells).map(|parts| Some(Reply::Read(key, parts)))
        }
        Request::Remove(path) => fs::remove_file(&path)
            .map_err(|e| Error::io("remove", &path, &e))
            .map(|()| None),
        Request::Settle => Ok(Some(Reply::Settled)),
    };
    done.unwrap_or_else(|error| Some(Reply::Failed(error)))
}

/// Writes parts one after the other, and their fingerprint behind them.
pub(crate) fn write_rows<T: Cell>(
    device: &Device,
    path: &Path,
    parts: &[Buffer<T>],
) -> Result<(), Error> {
    let at = |e: std::io::Error| Error::io("write", path, &e);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(at)?);
    let mut fingerprint = Fingerprint::new();
    for part in parts {
        let copy; // where the rows are not in host memory
        let cells = match part.as_host() {
            Some(cells) => cells,
            None => {
                copy = device.download(part)?;
                &copy
            }
        };
        let mut bytes = Vec::new();
        for cells in cells.chunks(1 << 16) {
            bytes.clear();
            cells.iter().for_each(|cell| cell.put(&mut bytes));
            fingerprint.update(&bytes);
            out.write_all(&bytes).map_err(at)?;
        }
    }
    out.write_all(&fingerprint.finish().to_le_bytes())
        .map_err(at)?;
    out.flush().map_err(at)
}

/// Reads what [`write_rows`] wrote.
pub(crate) fn read_rows<T: Cell>(
    device: &Device,
    path: &Path,
    n_cells: &[usize],
) -> Result<Vec<Buffer<T>>, Error> {
    let at = |e: std::io::Error| Error::io("read", path, &e);
    let mut input = BufReader::with_capacity(1 << 20, File::open(path).map_err(at)?);
    let mut fingerprint = Fingerprint::new();
    let mut parts = Vec::new();
    for &n_cells in n_cells {
        let mut cells: Vec<T> = Vec::with_capacity(n_cells);
        while cells.len() < n_cells {
            let mut bytes = vec![0; (n_cells - cells.len()).min(1 << 16) * size_of::<T>()];
            input.read_exact(&mut bytes).map_err(at)?;
            fingerprint.update(&bytes);
            cells.extend(bytes.chunks_exact(size_of::<T>()).map(T::take));
        }
        parts.push(match device.kind() {
            shardgraph_device::DeviceKind::Host => Buffer::from(cells),
            _ => device.upload(&cells)?,
        });
    }
    let mut stored = [0; 8];
    input.read_exact(&mut stored).map_err(at)?;
    match u64::from_le_bytes(stored) == fingerprint.finish() {
        true => Ok(parts),
        false => Err(Error::file(
            path,
            "damaged: start the run again in an empty folder",
        )),
    }
}
