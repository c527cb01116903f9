//! One thread that writes and reads groups of rows, in the order in which it is asked: a read sees the write before it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shardgraph_device::{Device, Timer};

use super::cell::Cell;
use super::journal::RowsFile;
use super::rows::{Rows, Shape};
use crate::direct::{Block, Reader, Writer};
use crate::schedule::Key;
use crate::store::RowsFingerprint;
use crate::{Error, ErrorKind};

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Request<T: Cell> {
    /// Writes the rows of a group's parts to a new file; gives them back if they stay in memory, drops them if not.
    Write {
        key: Key,
        file: RowsFile,
        parts: Vec<Rows<T>>,
        stays: bool,
    },
    /// Reads a group's parts of these shapes.
    Read {
        key: Key,
        file: RowsFile,
        shapes: Vec<Shape>,
    },
    /// Removes a file that nothing needs any more.
    Remove(PathBuf),
    /// Makes a file outlast a power cut.
    Sync(PathBuf),
    /// Answers when all before it is done.
    Settle,
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum Reply<T: Cell> {
    Read(Key, Vec<Rows<T>>),
    /// With the rows, if they stay.
    Written(Key, Option<Vec<Rows<T>>>),
    /// A file; each has an answer, so that a slow disk is not taken for one that hangs.
    Synced,
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
    busy_ns: Arc<AtomicU64>,
}

impl<T: Cell> Disk<T> {
    pub(crate) fn start(device: &Device, deadline: Duration) -> Result<Disk<T>, Error> {
        let ((requests, asked), (answer, replies)) = (channel(), channel());
        let busy_ns = Arc::new(AtomicU64::new(0));
        let (device, busy, room) = (device.clone(), Arc::clone(&busy_ns), Room::of_thread());
        let work = move || {
            let mut block = Block::default();
            for request in asked {
                let timer = Timer::wall();
                let reply = serve((&device, &mut block, &room), request);
                let took = timer.elapsed().as_nanos() as u64;
                busy.fetch_add(took, Ordering::Relaxed);
                if let Some(reply) = reply
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
            busy_ns,
        })
    }

    /// Asks, without waiting.
    pub(crate) fn ask(&self, request: Request<T>) {
        if let Some(requests) = &self.requests {
            // Where the thread is gone, the next wait says so.
            let _ = requests.send(request);
        }
    }

    /// Seconds that the thread was at work.
    pub(crate) fn busy_s(&self) -> f64 {
        self.busy_ns.load(Ordering::Relaxed) as f64 / 1e9
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

fn serve<T: Cell>(
    (device, block, room): (&Device, &mut Block, &Room),
    request: Request<T>,
) -> Option<Reply<T>> {
    let done = match request {
        Request::Write {
            key,
            file,
            parts,
            stays,
        } => write_rows((device, block, room), &file, &parts)
            .map(|()| Some(Reply::Written(key, stays.then_some(parts)))),
        Request::Read { key, file, shapes } => {
            read_rows(device, block, &file, &shapes).map(|parts| Some(Reply::Read(key, parts)))
        }
        Request::Remove(path) => fs::remove_file(&path)
            .map_err(|e| Error::io("remove", &path, &e))
            .map(|()| None),
        Request::Sync(path) => File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|e| Error::io("sync", &path, &e))
            .map(|()| Some(Reply::Synced)),
        Request::Settle => Ok(Some(Reply::Settled)),
    };
    done.unwrap_or_else(|error| Some(Reply::Failed(error)))
}

/// Writes parts one after the other, and their fingerprint behind them.
fn write_rows<T: Cell>(
    (device, block, room): (&Device, &mut Block, &Room),
    file: &RowsFile,
    parts: &[Rows<T>],
) -> Result<(), Error> {
    let path = file.path.as_path();
    let at = |e: io::Error| Error::io("write", path, &e);
    let len = parts.iter().map(Rows::bytes).sum::<u64>() + 8;
    let mut out = room.limit(Writer::create(path, len, block).map_err(at)?);
    let mut fingerprint = fingerprint_of(file);
    for part in parts {
        part.write(device, (path, &mut out), &mut fingerprint)?;
    }
    out.write_all(&fingerprint.finish().to_le_bytes())
        .map_err(at)?;
    out.file.finish().map_err(at)
}

/// Reads what [`write_rows`] wrote.
fn read_rows<T: Cell>(
    device: &Device,
    block: &mut Block,
    file: &RowsFile,
    shapes: &[Shape],
) -> Result<Vec<Rows<T>>, Error> {
    let mut parts = Vec::new();
    each_part(device, block, file, shapes, &mut |rows| {
        parts.push(rows);
        Ok(())
    })?;
    Ok(parts)
}

/// Takes the rows of a part.
pub(crate) type TakePart<'t, T> = dyn FnMut(Rows<T>) -> Result<(), Error> + 't;

/// Reads what [`write_rows`] wrote, a part after the other; only at the end it is known whether the file is damaged.
pub(crate) fn each_part<T: Cell>(
    device: &Device,
    block: &mut Block,
    file: &RowsFile,
    shapes: &[Shape],
    take: &mut TakePart<'_, T>,
) -> Result<(), Error> {
    let path = file.path.as_path();
    let at = |e: io::Error| Error::io("read", path, &e);
    let mut input = Reader::open(path, block).map_err(at)?;
    let mut fingerprint = fingerprint_of(file);
    for &shape in shapes {
        take(Rows::read(
            device,
            shape,
            (path, &mut input),
            &mut fingerprint,
        )?)?;
    }
    let mut stored = [0; 8];
    input.read_exact(&mut stored).map_err(at)?;
    match u64::from_le_bytes(stored) == fingerprint.finish() {
        true => Ok(()),
        false => Err(Error::file(
            path,
            "damaged: start the run again in an empty folder",
        )),
    }
}

/// Begun with what the file is for, so that another group's file is not taken for it.
fn fingerprint_of(file: &RowsFile) -> RowsFingerprint {
    let mut fingerprint = RowsFingerprint::new();
    let (order, table, group) = file.place;
    for word in [order, table, group, file.number as u32] {
        fingerprint.update(&word.to_le_bytes());
    }
    fingerprint
}

/// How much the disk takes, for tests of what a run does when it is full.
#[derive(Clone, Debug, Default)]
struct Room {
    #[cfg(test)]
    left: Option<Arc<AtomicU64>>,
}

#[cfg(test)]
thread_local! {
    /// Bytes that the disk threads which this thread starts can write; nothing: as many as there are.
    pub(super) static ROOM: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

impl Room {
    fn of_thread() -> Room {
        Room {
            #[cfg(test)]
            left: ROOM.get().map(|left| Arc::new(AtomicU64::new(left))),
        }
    }

    fn limit<'b>(&self, file: Writer<'b>) -> Limited<'b> {
        Limited {
            file,
            #[cfg(test)]
            room: self.clone(),
        }
    }
}

/// A file on a disk that may be full.
struct Limited<'b> {
    file: Writer<'b>,
    #[cfg(test)]
    room: Room,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(left) = &self.room.left {
            let taken = left.load(Ordering::Relaxed).min(bytes.len() as u64);
            if taken == 0 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            left.fetch_sub(taken, Ordering::Relaxed);
            return self.file.write(&bytes[..taken as usize]);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
