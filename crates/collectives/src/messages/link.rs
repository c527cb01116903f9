//! The connection to one other rank: a queue of frames with a thread that writes them, and a thread that reads.

use super::frame::{self, Frame};
use super::inbox::{Inbox, Put};
use super::{Limits, Refusal};
use crate::deadline::Expiry;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One of the two ends of a connection.
pub(super) struct Link {
    pub(super) rank: u32,
    pub(super) generation: u64,
    stream: TcpStream,
    limits: Limits,
    queue: Mutex<Queue>,
    /// A frame has come, or the end.
    work: Condvar,
    /// A frame has gone, or the end has come.
    room: Condvar,
}

struct Queue {
    frames: VecDeque<Vec<u8>>,
    /// The bytes of the frames, and of the one that is being written; what is thrown away at the end stays counted.
    n_bytes: usize,
    end: End,
}

#[derive(PartialEq, Eq)]
enum End {
    No,
    /// What is queued still goes out, with these words at last.
    Farewell(&'static str),
    /// Nothing goes out any more.
    Broken(String),
}

impl Link {
    /// Takes over a connection whose ends have introduced themselves.
    pub(super) fn new(
        (rank, generation): (u32, u64),
        stream: TcpStream,
        limits: Limits,
    ) -> io::Result<Link> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(None)?;
        stream.set_read_timeout(Some(limits.silence))?;
        Ok(Link {
            rank,
            generation,
            stream,
            limits,
            queue: Mutex::new(Queue {
                frames: VecDeque::new(),
                n_bytes: 0,
                end: End::No,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
        })
    }

    /// Queues a frame once there is room for it.
    pub(super) fn send(&self, frame: Vec<u8>, expiry: Expiry) -> Result<(), Refusal> {
        let mut queue = self.lock();
        loop {
            match &queue.end {
                End::No => {}
                End::Farewell(why) => return Err(Refusal::Lost((*why).to_string())),
                End::Broken(why) => return Err(Refusal::Lost(why.clone())),
            }
            if queue.n_bytes == 0 || queue.n_bytes + frame.len() <= self.limits.queue_bytes {
                queue.n_bytes += frame.len();
                queue.frames.push_back(frame);
                drop(queue);
                self.work.notify_all();
                return Ok(());
            }
            let Some(left) = expiry.left() else {
                return Err(Refusal::NoRoom(format!(
                    "{} bytes wait to be sent there (it is stopped, or slower than its senders)",
                    queue.n_bytes
                )));
            };
            let waited = self.room.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The body of the writing thread.
    pub(super) fn write(&self) {
        while let Some(frame) = self.next_frame() {
            if let Err(error) = (&self.stream).write_all(&frame) {
                // The reading thread finds out, after what has come before that.
                self.mark_broken(&format!("its connection broke: {error}"));
                break;
            }
            let mut queue = self.lock();
            queue.n_bytes -= frame.len();
            drop(queue);
            self.room.notify_all();
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// What to write next: a greeting where there is nothing else for a while, the farewell as the last.
    fn next_frame(&self) -> Option<Vec<u8>> {
        let pause = self.limits.silence / 4;
        let mut queue = self.lock();
        loop {
            if let End::Broken(_) = queue.end {
                return None;
            }
            if let Some(frame) = queue.frames.pop_front() {
                return Some(frame);
            }
            if let End::Farewell(why) = queue.end {
                queue.end = End::Broken(why.to_string());
                return Some(queue.counted(frame::farewell(why)));
            }
            let (next, waited) = self
                .work
                .wait_timeout(queue, pause)
                .unwrap_or_else(PoisonError::into_inner);
            queue = next;
            if waited.timed_out() && queue.frames.is_empty() && queue.end == End::No {
                return Some(queue.counted(frame::greeting()));
            }
        }
    }

    /// The body of the reading thread: delivers until the end, and says what the end was.
    pub(super) fn read(&self, inbox: &Inbox) -> String {
        loop {
            let frame = match frame::read(&self.stream, self.limits.max_message_bytes) {
                Ok(frame) => frame,
                Err(error) => return self.reason(&error),
            };
            match frame {
                Frame::Greeting => {}
                Frame::Farewell(why) => return why,
                Frame::Message { tag, bytes } => {
                    let from = (self.rank, self.generation);
                    if inbox.put(from, tag, bytes, None) == Put::Gone {
                        self.drain();
                        return "nobody receives here any more".to_string();
                    }
                }
            }
        }
    }

    /// Reads on to the end without a use for it: a connection that is closed with something unread is reset, and what was sent last on it
    /// may be lost.
    fn drain(&self) {
        let _ = io::copy(&mut &self.stream, &mut io::sink());
    }

    fn reason(&self, error: &io::Error) -> String {
        match error.kind() {
            ErrorKind::UnexpectedEof => "its process ended".to_string(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("nothing was heard of it for {:?}", self.limits.silence)
            }
            ErrorKind::InvalidData => error.to_string(),
            _ => format!("its connection broke: {error}"),
        }
    }

    /// Lets the queue run out, and says farewell.
    pub(super) fn leave(&self, why: &'static str) {
        let mut queue = self.lock();
        if queue.end == End::No {
            queue.end = End::Farewell(why);
        }
        drop(queue);
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Ends both threads and whoever waits to send.
    pub(super) fn cut(&self, why: &str) {
        self.mark_broken(why);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// As `cut`, with a word to the other side where the connection has room for it.
    pub(super) fn dismiss(&self, why: &'static str) {
        /// The word is short and the connection usually empty.
        const PATIENCE: Duration = Duration::from_millis(10);
        let queue = self.lock();
        if queue.n_bytes == 0 && self.stream.set_write_timeout(Some(PATIENCE)).is_ok() {
            let _ = (&self.stream).write_all(&frame::farewell(why));
        }
        drop(queue);
        self.cut(why);
    }

    fn mark_broken(&self, why: &str) {
        let mut queue = self.lock();
        if !matches!(queue.end, End::Broken(_)) {
            queue.end = End::Broken(why.to_string());
        }
        queue.frames = VecDeque::new();
        drop(queue);
        self.work.notify_all();
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// A frame that goes out without having been queued.
    fn counted(&mut self, frame: Vec<u8>) -> Vec<u8> {
        self.n_bytes += frame.len();
        frame
    }
}

/// The threads of a link share it.
pub(super) type Shared = Arc<Link>;
