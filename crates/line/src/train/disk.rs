//! One thread that writes and reads groups of rows, in the order in which it is asked: a read sees the write before it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shardgraph_device::{Device, Timer};

use super::cell::Cell;
use super::journal::RowsFile;
use super::rows::{Rows, Shape};
use crate::direct::{Bounce, Reader, Writer};
use crate::schedule::Key;
use crate::store::RowsFingerprint;
use crate::{Error, ErrorKind};

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Request<T: Cell> {
    /// Writes the rows of a group's parts to a file: a new one, or what was one that nobody needs any more. Gives the rows back if they
    /// stay in memory; their memory is for the next read if not.
    Write {
        key: Key,
        file: RowsFile,
        instead_of: Option<PathBuf>,
        parts: Vec<Rows<T>>,
        stays: bool,
    },
    /// Reads a group's parts of these shapes.
    Read {
        key: Key,
        file: RowsFile,
        shapes: Vec<Shape>,
    },
    /// Lets go of the memory that is for the next read.
    Forget,
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
    Forgotten,
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
            let mut desk = Desk {
                device,
                bounce: Bounce::default(),
                room,
                spare: Vec::new(),
            };
            for request in asked {
                let timer = Timer::wall();
                let reply = desk.serve(request);
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

    /// The next answer, if it is there.
    pub(crate) fn poll(&self) -> Result<Option<Reply<T>>, Error> {
        match self.replies.try_recv() {
            Ok(Reply::Failed(error)) => Err(error),
            Ok(reply) => Ok(Some(reply)),
            // Where the thread is gone, the next wait says so.
            Err(_) => Ok(None),
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

/// What the thread works with.
struct Desk<T: Cell> {
    device: Device,
    bounce: Bounce,
    room: Room,
    /// Rows of the group that was put away last: memory for the next that is read.
    spare: Vec<Rows<T>>,
}

impl<T: Cell> Desk<T> {
    fn serve(&mut self, request: Request<T>) -> Option<Reply<T>> {
        let done = match request {
            Request::Write {
                key,
                file,
                instead_of,
                parts,
                stays,
            } => self.write(&file, instead_of, &parts).map(|()| {
                let parts = match stays {
                    true => Some(parts),
                    false => {
                        self.spare = parts;
                        None
                    }
                };
                Some(Reply::Written(key, parts))
            }),
            Request::Read { key, file, shapes } => self
                .read(&file, &shapes)
                .map(|parts| Some(Reply::Read(key, parts))),
            Request::Forget => {
                self.spare.clear();
                Ok(Some(Reply::Forgotten))
            }
            Request::Sync(path) => File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|e| Error::io("sync", &path, &e))
                .map(|()| Some(Reply::Synced)),
            Request::Settle => Ok(Some(Reply::Settled)),
        };
        done.unwrap_or_else(|error| Some(Reply::Failed(error)))
    }

    /// Writes parts one after the other, and their fingerprint behind them.
    fn write(
        &mut self,
        file: &RowsFile,
        instead_of: Option<PathBuf>,
        parts: &[Rows<T>],
    ) -> Result<(), Error> {
        let path = file.path.as_path();
        let at = |e: io::Error| Error::io("write", path, &e);
        if let Some(old) = instead_of {
            fs::rename(&old, path).map_err(at)?;
        }
        let len = parts.iter().map(Rows::bytes).sum::<u64>() + 8;
        let mut out = Output {
            path,
            file: Writer::create(path, len, &mut self.bounce).map_err(at)?,
            fingerprint: fingerprint_of(file),
            room: self.room.clone(),
        };
        for part in parts {
            part.write(&self.device, &mut out)?;
        }
        let seal = out.fingerprint.finish().to_le_bytes();
        out.write(&seal)?;
        out.file.finish().map_err(at)
    }

    /// Reads what [`Desk::write`] wrote.
    fn read(&mut self, file: &RowsFile, shapes: &[Shape]) -> Result<Vec<Rows<T>>, Error> {
        // What fits none of the parts goes before there are others.
        let mut spare: Vec<Option<Rows<T>>> = shapes
            .iter()
            .map(|&shape| {
                let at = self.spare.iter().position(|rows| rows.shape_is(shape));
                at.map(|at| self.spare.swap_remove(at))
            })
            .rev()
            .collect();
        self.spare.clear();
        let mut parts = Vec::new();
        let mut next = |_| spare.pop().flatten();
        each_part(
            (&self.device, &mut self.bounce),
            file,
            shapes,
            (&mut next, &mut |rows| {
                parts.push(rows);
                Ok(())
            }),
        )?;
        Ok(parts)
    }
}

/// Takes the rows of a part.
pub(crate) type TakePart<'t, T> = dyn FnMut(Rows<T>) -> Result<(), Error> + 't;

/// Gives rows whose memory is free.
pub(crate) type GiveSpare<'g, T> = dyn FnMut(Shape) -> Option<Rows<T>> + 'g;

/// Reads the file of a group, a part after the other; only at the end it is known whether the file is damaged.
pub(crate) fn each_part<T: Cell>(
    (device, bounce): (&Device, &mut Bounce),
    file: &RowsFile,
    shapes: &[Shape],
    (spare, take): (&mut GiveSpare<'_, T>, &mut TakePart<'_, T>),
) -> Result<(), Error> {
    let path = file.path.as_path();
    let mut input = Input {
        path,
        file: Reader::open(path, bounce).map_err(|e| Error::io("read", path, &e))?,
        fingerprint: fingerprint_of(file),
    };
    for &shape in shapes {
        take(Rows::read(device, shape, &mut input, spare(shape))?)?;
    }
    let (found, mut stored) = (input.fingerprint.finish(), [0; 8]);
    input.read(&mut stored)?;
    match u64::from_le_bytes(stored) == found {
        true => Ok(()),
        false => Err(Error::file(
            path,
            "damaged: start the run again in an empty folder",
        )),
    }
}

/// A file of rows that is written.
pub(crate) struct Output<'f> {
    path: &'f Path,
    file: Writer<'f>,
    fingerprint: RowsFingerprint,
    room: Room,
}

impl Output<'_> {
    pub(crate) fn piece(&self) -> usize {
        self.file.piece()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.fingerprint.update(bytes);
        let written = self
            .room
            .take(bytes.len())
            .and_then(|()| self.file.write(bytes));
        written.map_err(|e| Error::io("write", self.path, &e))
    }
}

/// A file of rows that is read.
pub(crate) struct Input<'f> {
    path: &'f Path,
    file: Reader<'f>,
    fingerprint: RowsFingerprint,
}

impl Input<'_> {
    pub(crate) fn piece(&self) -> usize {
        self.file.piece()
    }

    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let read = self.file.read(bytes);
        read.map_err(|e| Error::io("read", self.path, &e))?;
        self.fingerprint.update(bytes);
        Ok(())
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

    /// Takes so many bytes of it.
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
