//! The connection to one other rank: a queue of frames with a thread that writes them, and a thread
//! that reads.

use super::event::{Limits, Member, Refusal};
use super::frame::{self, Frame};
use super::inbox::{Inbox, Put};
use crate::timeout::{Expiry, Timeout};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One of the two ends of a connection.
pub(super) struct Link {
    pub(super) peer: Member,
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
    /// The bytes of the frames, and of the one that is being written; what is thrown away at the
    /// end stays counted.
    n_bytes: usize,
    end: End,
}

#[derive(PartialEq, Eq)]
enum End {
    No,
    /// The queue still goes out, with this goodbye at last.
    Goodbye(&'static str),
    /// Nothing goes out any more.
    Broken(String),
}

impl Link {
    /// Takes over a connection whose ends have introduced themselves.
    pub(super) fn new(peer: Member, stream: TcpStream, limits: Limits) -> io::Result<Link> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(limits.silence))?;
        stream.set_read_timeout(Some(limits.silence))?;
        Ok(Link {
            peer,
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
                End::Goodbye(why) => return Err(Refusal::Lost((*why).to_string())),
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
            if let Err(error) = self.write_all(&frame) {
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

    /// Writes all of a frame. A slow receiver holds up this thread; every [`Limits::silence`] it
    /// looks for the end of the link.
    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && self.why_broken().is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next frame to write: a sign of life where there is nothing else for a while, the goodbye
    /// as the last.
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
            if let End::Goodbye(why) = queue.end {
                queue.end = End::Broken(why.to_string());
                return Some(queue.counted(frame::goodbye(why)));
            }
            let (next, waited) = self
                .work
                .wait_timeout(queue, pause)
                .unwrap_or_else(PoisonError::into_inner);
            queue = next;
            if waited.timed_out() && queue.frames.is_empty() && queue.end == End::No {
                return Some(queue.counted(frame::keep_alive()));
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
                Frame::KeepAlive => {}
                Frame::Goodbye(why) => return why,
                Frame::Message { tag, bytes } => {
                    if let Err(why) = self.deliver(inbox, tag, bytes) {
                        return why;
                    }
                }
            }
        }
    }

    /// Puts a message into the inbox. A slow owner holds up this thread; every [`Limits::silence`]
    /// it looks for the end of the link.
    fn deliver(&self, inbox: &Inbox, tag: u32, mut bytes: Vec<u8>) -> Result<(), String> {
        loop {
            let expiry = Expiry::of(Timeout::after(self.limits.silence));
            match inbox.put(self.peer, tag, bytes, expiry) {
                Put::Done => return Ok(()),
                Put::Gone => {
                    self.drain();
                    return Err("its messages are not received here any more".to_string());
                }
                Put::Full { bytes: back, .. } => {
                    if let Some(why) = self.why_broken() {
                        return Err(why);
                    }
                    bytes = back;
                }
            }
        }
    }

    /// Cause of the break, if the link is broken.
    fn why_broken(&self) -> Option<String> {
        match &self.lock().end {
            End::Broken(why) => Some(why.clone()),
            End::No | End::Goodbye(_) => None,
        }
    }

    /// Reads on to the end without a use for it: a connection that is closed with something unread
    /// is reset, and what was sent last on it may be lost.
    fn drain(&self) {
        let _ = io::copy(&mut &self.stream, &mut io::sink());
    }

    fn reason(&self, error: &io::Error) -> String {
        match error.kind() {
            ErrorKind::UnexpectedEof => "its process ended".to_string(),
            _ if is_timeout(error) => {
                format!("nothing was heard of it for {:?}", self.limits.silence)
            }
            ErrorKind::InvalidData => error.to_string(),
            _ => format!("its connection broke: {error}"),
        }
    }

    /// Lets the queue run out, and says goodbye.
    pub(super) fn leave(&self, why: &'static str) {
        let mut queue = self.lock();
        if queue.end == End::No {
            queue.end = End::Goodbye(why);
        }
        drop(queue);
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Ends both threads and the waits of senders.
    pub(super) fn cut(&self, why: &str) {
        self.mark_broken(why);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// As `cut`, with a word to the other side where the connection has room for it.
    pub(super) fn evict(&self, why: &'static str) {
        /// The word is short and the connection usually empty.
        const PATIENCE: Duration = Duration::from_millis(10);
        let queue = self.lock();
        if queue.n_bytes == 0 && self.stream.set_write_timeout(Some(PATIENCE)).is_ok() {
            let _ = (&self.stream).write_all(&frame::goodbye(why));
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

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
