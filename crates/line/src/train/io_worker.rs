//! I/O thread: writes and reads groups of rows in the order of the requests.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shardgraph_device::{Device, Timer};
use shardgraph_storage::direct::BounceBuffer;

use super::row_files::{DiskQuota, RowReader, RowWriter, RowsFile};
use super::rows::{PartRows, PartShape, RowPlace};
use super::scalar::Scalar;
use crate::Error;
use crate::memory::{Held, Memory, Purpose};
use crate::schedule::GroupKey;

/// Requests to the thread.
#[derive(Debug)]
pub(super) enum Request<T: Scalar> {
    /// Writes the rows of a group's parts to a file: a new one, or a superseded one.
    ///
    /// Gives the rows back if they stay in memory; else their memory serves the next read.
    Write {
        key: GroupKey,
        file: RowsFile,
        superseded: Option<PathBuf>,
        parts: Vec<PartRows<T>>,
        stays: bool,
    },
    /// Reads a group's parts of these shapes.
    Read {
        key: GroupKey,
        file: RowsFile,
        shapes: Vec<PartShape>,
    },
    /// Frees the memory that is kept for the next read.
    DropSpare,
    /// Makes a file outlast a power cut.
    Sync(PathBuf),
    /// Answers when all requests before it are done.
    Flush,
}

/// Replies of the thread.
#[derive(Debug)]
pub(super) enum Reply<T: Scalar> {
    Read(GroupKey, Vec<PartRows<T>>),
    /// With the rows, if they stay.
    Written(GroupKey, Option<Vec<PartRows<T>>>),
    /// A file; each has a reply, so that a slow disk is not taken for one that hangs.
    Synced,
    SpareDropped,
    Flushed,
    Failed(Error),
}

/// Handle of the I/O thread.
#[derive(Debug)]
pub(super) struct IoWorker<T: Scalar> {
    requests: Option<Sender<Request<T>>>,
    replies: Receiver<Reply<T>>,
    thread: Option<JoinHandle<()>>,
    timeout: Duration,
    busy_ns: Arc<AtomicU64>,
    /// In a dry run, what serves each request at once.
    dry: Option<DryServer<T>>,
}

/// A server without a thread and files, and where its replies go.
#[derive(Debug)]
struct DryServer<T: Scalar> {
    server: IoServer<T>,
    answer: Sender<Reply<T>>,
}

impl<T: Scalar> IoWorker<T> {
    pub(super) fn start(
        device: &Device,
        memory: &Memory,
        timeout: Duration,
    ) -> Result<IoWorker<T>, Error> {
        let ((requests, asked), (answer, replies)) = (channel(), channel());
        let busy_ns = Arc::new(AtomicU64::new(0));
        let busy = Arc::clone(&busy_ns);
        let mut server = IoServer {
            device: device.clone(),
            memory: memory.clone(),
            bounce: BounceBuffer::default(),
            _transfer: memory.hold(Purpose::Transfer, BounceBuffer::LEN as u64),
            quota: DiskQuota::current(),
            spare: Vec::new(),
        };
        if memory.is_dry() {
            return Ok(IoWorker {
                requests: None,
                replies,
                thread: None,
                timeout,
                busy_ns,
                dry: Some(DryServer { server, answer }),
            });
        }
        let work = move || {
            for request in asked {
                let timer = Timer::wall();
                let reply = server.serve(request).unwrap_or_else(Reply::Failed);
                let took = timer.elapsed().as_nanos() as u64;
                busy.fetch_add(took, Ordering::Relaxed);
                if answer.send(reply).is_err() {
                    return; // the handle is gone
                }
            }
        };
        let thread = thread::Builder::new()
            .name("line disk".to_owned())
            .spawn(work);
        let thread =
            thread.map_err(|e| Error::thread(format!("cannot start the disk thread: {e}")))?;
        Ok(IoWorker {
            requests: Some(requests),
            replies,
            thread: Some(thread),
            timeout,
            busy_ns,
            dry: None,
        })
    }

    /// Sends a request, without waiting.
    pub(super) fn send(&mut self, request: Request<T>) {
        if let Some(DryServer { server, answer }) = &mut self.dry {
            let reply = server.serve(request).unwrap_or_else(Reply::Failed);
            let _ = answer.send(reply); // the receiver is here
        } else if let Some(requests) = &self.requests {
            // Where the thread is gone, the next wait fails.
            let _ = requests.send(request);
        }
    }

    /// Seconds that the thread was at work.
    pub(super) fn busy_s(&self) -> f64 {
        self.busy_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// The next reply, if it is there.
    pub(super) fn poll(&self) -> Result<Option<Reply<T>>, Error> {
        match self.replies.try_recv() {
            Ok(Reply::Failed(error)) => Err(error),
            Ok(reply) => Ok(Some(reply)),
            // Where the thread is gone, the next wait fails.
            Err(_) => Ok(None),
        }
    }

    /// The next reply.
    pub(super) fn wait(&self) -> Result<Reply<T>, Error> {
        match self.replies.recv_timeout(self.timeout) {
            Ok(Reply::Failed(error)) => Err(error),
            Ok(reply) => Ok(reply),
            Err(RecvTimeoutError::Timeout) => Err(Error::Timeout(format!(
                "the disk did not answer within {} s",
                self.timeout.as_secs_f64()
            ))),
            Err(RecvTimeoutError::Disconnected) => Err(Error::thread("the disk thread has ended")),
        }
    }
}

impl<T: Scalar> Drop for IoWorker<T> {
    /// Lets the thread finish its requests; a disk that hangs is left behind with its thread.
    fn drop(&mut self) {
        self.requests = None;
        self.dry = None;
        while self.replies.recv_timeout(self.timeout).is_ok() {}
        let last = self.replies.recv_timeout(Duration::ZERO);
        let is_over = matches!(last, Err(RecvTimeoutError::Disconnected));
        if let Some(thread) = self.thread.take().filter(|_| is_over) {
            let _ = thread.join();
        }
    }
}

/// State of the thread.
#[derive(Debug)]
struct IoServer<T: Scalar> {
    device: Device,
    memory: Memory,
    bounce: BounceBuffer,
    _transfer: Held,
    quota: DiskQuota,
    /// Rows of the group that was evicted last: memory for the next that is read.
    spare: Vec<PartRows<T>>,
}

impl<T: Scalar> IoServer<T> {
    fn serve(&mut self, request: Request<T>) -> Result<Reply<T>, Error> {
        match request {
            Request::Write {
                key,
                file,
                superseded,
                parts,
                stays,
            } => {
                self.write(&file, superseded, &parts)?;
                let parts = match stays {
                    true => Some(parts),
                    false => {
                        self.spare = parts;
                        None
                    }
                };
                Ok(Reply::Written(key, parts))
            }
            Request::Read { key, file, shapes } => Ok(Reply::Read(key, self.read(&file, &shapes)?)),
            Request::DropSpare => {
                self.spare.clear();
                Ok(Reply::SpareDropped)
            }
            Request::Sync(path) => {
                let synced = File::open(&path).and_then(|file| file.sync_all());
                synced.map_err(|e| Error::io("sync", &path, e))?;
                Ok(Reply::Synced)
            }
            Request::Flush => Ok(Reply::Flushed),
        }
    }

    /// Writes parts one after the other, and their fingerprint behind them.
    fn write(
        &mut self,
        file: &RowsFile,
        superseded: Option<PathBuf>,
        parts: &[PartRows<T>],
    ) -> Result<(), Error> {
        if self.memory.is_dry() {
            return Ok(());
        }
        if let Some(old) = superseded {
            fs::rename(&old, &file.path).map_err(|e| Error::io("write", &file.path, e))?;
        }
        let len = parts.iter().map(PartRows::bytes).sum::<u64>();
        let mut out = RowWriter::create(file, len, &mut self.bounce, &self.quota)?;
        for part in parts {
            part.write(&mut out)?;
        }
        out.finish()
    }

    /// Reads what [`IoServer::write`] wrote.
    fn read(&mut self, file: &RowsFile, shapes: &[PartShape]) -> Result<Vec<PartRows<T>>, Error> {
        // What fits none of the parts is freed before there are others.
        let take_spare = |&shape: &PartShape| {
            let at = self.spare.iter().position(|rows| rows.has_shape(shape));
            at.map(|at| self.spare.swap_remove(at))
        };
        let spare: Vec<Option<PartRows<T>>> = shapes.iter().map(take_spare).collect();
        self.spare.clear();
        let (device, memory) = (&self.device, &self.memory);
        if memory.is_dry() {
            let dry = |&shape: &PartShape| PartRows::dry(device, shape, memory);
            return shapes.iter().map(dry).collect();
        }
        let place = RowPlace { device, memory };
        let mut input = RowReader::open(file, &mut self.bounce)?;
        let mut parts = Vec::new();
        for (&shape, spare) in shapes.iter().zip(spare) {
            parts.push(PartRows::read(place, shape, &mut input, spare)?);
        }
        input.finish()?;
        Ok(parts)
    }
}
