//! The data connections of one rank, and the step that every operation is made of: each rank sends
//! something to each other and receives something from each other, at the same time.
//!
//! In the first step of an operation the call goes before the data. Nothing of what has come is
//! looked at before the calls of all ranks are there and agree. Sockets do not block; where there
//! is nothing to do the rank sleeps in the kernel until the rank that it waits for sends, or for a
//! few milliseconds, and looks at the control connections in between.

use super::world::World;
use crate::codec::{self, CALL_LEN};
use crate::error::CommErrorKind;
use crate::op::{Call, OpKind};
use crate::operations::{AllCounts, Context, compare_counts};
use crate::rank_end::{Cause, RankEnd};
use crate::timeout::{Expiry, Timeout};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The longest sleep before the control connections are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The first sleep where a rank waits for room to send.
const FIRST_NAP: Duration = Duration::from_micros(20);
/// Time for which a rank that has timed out waits for answers to the question which ranks the
/// others wait for.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// Time for which a rank waits after a failure for what explains it better: the calls of a
/// mismatch, the word of a rank whose data connection closed.
const GRACE: Duration = Duration::from_secs(1);

/// The data connections of one rank.
pub(super) struct Links {
    pub(super) world: Arc<World>,
    lanes: Vec<Option<Lane>>,
}

struct Lane {
    stream: TcpStream,
    is_broken: bool,
}

/// Bytes that one step moves, by rank.
pub(super) struct Step<'a> {
    pub(super) context: Context<'a>,
    /// The own call with its counts; empty in steps after the first.
    pub(super) header: &'a [u8],
    pub(super) out: &'a [u8],
    pub(super) outs: &'a [Range<usize>],
    pub(super) inbox: &'a mut [u8],
    pub(super) ins: &'a [Range<usize>],
}

/// Progress of a step.
struct Progress {
    n_sent: Vec<usize>,
    n_got: Vec<usize>,
    /// The headers of all ranks.
    heard: Vec<u8>,
    has_agreed: bool,
}

impl Links {
    pub(super) fn new(world: Arc<World>, streams: Vec<Option<TcpStream>>) -> io::Result<Links> {
        let lane = |stream: TcpStream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK_EVERY))?;
            stream.set_nonblocking(true)?;
            Ok(Lane {
                stream,
                is_broken: false,
            })
        };
        let lanes = streams.into_iter().map(|stream| stream.map(lane));
        let lanes = lanes.map(Option::transpose).collect::<io::Result<_>>()?;
        Ok(Links { world, lanes })
    }

    /// Runs one step. Errors: a mismatch, a timeout, or the end of a rank.
    pub(super) fn run(&mut self, step: &mut Step<'_>) -> Result<(), CommErrorKind> {
        let mut progress = Progress::new(step, self.world.rank as usize);
        let mut wait = Wait::default();
        // What the others gave up is not completed here, even if all that they sent has come.
        if !step.header.is_empty()
            && let Some(kind) = self.failure(step, &progress, &mut wait)
        {
            return Err(kind);
        }
        loop {
            let moved = self.move_bytes(step, &mut progress);
            if let Err(mismatch) = progress.agree(step) {
                self.finish_header(step, &mut progress);
                return Err(mismatch);
            }
            if progress.is_done(step) {
                return Ok(());
            }
            if moved {
                wait = Wait::default();
                continue;
            }
            if let Some(kind) = self.failure(step, &progress, &mut wait) {
                return Err(kind);
            }
            self.world.answer(|| progress.missing(step));
            let timeout = step.context.timeout;
            let expiry = *wait.expiry.get_or_insert_with(|| Expiry::of(timeout));
            match expiry.left() {
                Some(left) => self.sleep(step, &progress, &mut wait, left),
                None if self.has_asked_who_waits(&mut wait) => {
                    return Err(self.timeout(step, &progress));
                }
                None => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// After the timeout: asks the others once, and says when there has been time for their
    /// answers.
    fn has_asked_who_waits(&self, wait: &mut Wait) -> bool {
        let expiry = wait.answers.get_or_insert_with(|| {
            self.world.ask_who_waits();
            Expiry::of(Timeout::after(ANSWER_TIMEOUT))
        });
        expiry.left().is_none()
    }

    fn timeout(&self, step: &Step<'_>, progress: &Progress) -> CommErrorKind {
        let missing = self.world.find_blocked(progress.missing(step));
        step.context.timeout(missing)
    }

    /// Sends and receives what goes without waiting. Whether anything went.
    fn move_bytes(&mut self, step: &mut Step<'_>, progress: &mut Progress) -> bool {
        let mut moved = false;
        for (rank, lane) in self.lanes.iter_mut().enumerate() {
            let Some(lane) = lane.as_mut().filter(|lane| !lane.is_broken) else {
                continue;
            };
            let result = progress.send_to(rank, lane, step);
            let sent = lane.note(result);
            let result = match lane.is_broken {
                // What it sent before it closed still counts.
                _ if progress.n_got[rank] < step.n_in(rank) => {
                    progress.receive_from(rank, lane, step)
                }
                _ => Ok(0),
            };
            moved |= (sent + lane.note(result)) > 0;
        }
        moved
    }

    /// After a mismatch was found here: the others can only find it if they get this rank's call.
    fn finish_header(&mut self, step: &mut Step<'_>, progress: &mut Progress) {
        let expiry = Expiry::of(Timeout::after(GRACE));
        let header = step.header;
        let only_header = Step {
            outs: &vec![0..0; step.outs.len()],
            inbox: &mut [],
            ins: &vec![0..0; step.ins.len()],
            header,
            ..*step
        };
        while expiry.left().is_some() {
            let mut is_missing = false;
            for (rank, lane) in self.lanes.iter_mut().enumerate() {
                if let Some(lane) = lane.as_mut().filter(|lane| !lane.is_broken)
                    && progress.n_sent[rank] < header.len()
                {
                    let result = progress.send_to(rank, lane, &only_header);
                    lane.note(result);
                    is_missing |= progress.n_sent[rank] < header.len();
                }
            }
            if !is_missing {
                return;
            }
            thread::sleep(FIRST_NAP);
        }
    }

    /// The error of a step that cannot complete because a rank has ended.
    fn failure(
        &self,
        step: &Step<'_>,
        progress: &Progress,
        wait: &mut Wait,
    ) -> Option<CommErrorKind> {
        let grace = |expiry: &mut Option<Expiry>| {
            let expiry = expiry.get_or_insert_with(|| Expiry::of(Timeout::after(GRACE)));
            expiry.left().is_some()
        };
        if let Some(end) = self.world.end_of(step.context.call) {
            let is_mismatch = end.cause == Cause::Aborted && end.seq == Some(step.context.call.seq);
            if is_mismatch && !progress.has_agreed && grace(&mut wait.mismatch_grace) {
                return None;
            }
            self.world.tell(&end);
            return Some(end.error(step.context.call));
        }
        let is_cut = |rank: &u32| {
            let rank = *rank as usize;
            let broken = self.lanes[rank].as_ref().is_some_and(|lane| lane.is_broken);
            broken && progress.is_open(rank, step)
        };
        let cut = (0..self.lanes.len() as u32).find(is_cut)?;
        if grace(&mut wait.word_grace) {
            return None;
        }
        let end = RankEnd::new(Cause::Lost, Some(cut), "its data connection broke");
        self.world.tell(&end);
        Some(end.error(step.context.call))
    }

    /// Sleeps until the first rank that this one waits for has sent something, or for a moment.
    fn sleep(&self, step: &Step<'_>, progress: &Progress, wait: &mut Wait, left: Duration) {
        let open = |rank: &usize| self.lanes[*rank].as_ref().is_some_and(|l| !l.is_broken);
        let mut ranks = (0..self.lanes.len()).filter(open);
        let sends = ranks
            .clone()
            .any(|rank| progress.n_sent[rank] < step.n_out(rank));
        let from = ranks.find(|&rank| progress.n_got[rank] < step.n_in(rank));
        match from.and_then(|rank| self.lanes[rank].as_ref()) {
            Some(lane) if !sends && left >= LOOK_EVERY => lane.wait_for_data(),
            _ => {
                let nap = wait.nap.min(left);
                thread::sleep(nap);
                wait.nap = (2 * wait.nap).min(LOOK_EVERY);
            }
        }
    }
}

impl Drop for Links {
    /// A connection that is closed with something unread in it is reset, and what this rank sent
    /// last may be lost with it.
    fn drop(&mut self) {
        for lane in self.lanes.iter_mut().flatten() {
            let _ = lane.stream.shutdown(std::net::Shutdown::Write);
            let mut rest = [0; 4096];
            for _ in 0..1024 {
                match lane.stream.read(&mut rest) {
                    Ok(1..) => {}
                    _ => break,
                }
            }
        }
    }
}

/// Times of a step in which nothing moves.
struct Wait {
    expiry: Option<Expiry>,
    nap: Duration,
    mismatch_grace: Option<Expiry>,
    word_grace: Option<Expiry>,
    answers: Option<Expiry>,
}

impl Default for Wait {
    fn default() -> Wait {
        Wait {
            expiry: None,
            nap: FIRST_NAP,
            mismatch_grace: None,
            word_grace: None,
            answers: None,
        }
    }
}

impl Lane {
    /// The number of bytes that moved; the lane is broken after anything but a shortage of room or
    /// data.
    fn note(&mut self, result: io::Result<usize>) -> usize {
        match result {
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(_) => {
                self.is_broken = true;
                0
            }
        }
    }

    /// Blocks for [`LOOK_EVERY`] at most.
    fn wait_for_data(&self) {
        let woken = self
            .stream
            .set_nonblocking(false)
            .and_then(|()| self.stream.peek(&mut [0]));
        // What went wrong shows when the lane is read.
        let _ = self.stream.set_nonblocking(true);
        if woken.is_err_and(|error| !is_pause(&error)) {
            thread::sleep(FIRST_NAP);
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Step<'_> {
    fn n_out(&self, rank: usize) -> usize {
        self.header.len() + self.outs[rank].len()
    }

    fn n_in(&self, rank: usize) -> usize {
        self.header.len() + self.ins[rank].len()
    }
}

impl Progress {
    fn new(step: &Step<'_>, own: usize) -> Progress {
        let n_ranks = step.outs.len();
        let header_len = step.header.len();
        let mut progress = Progress {
            n_sent: vec![0; n_ranks],
            n_got: vec![0; n_ranks],
            heard: vec![0; n_ranks * header_len],
            has_agreed: header_len == 0,
        };
        progress.heard[own * header_len..][..header_len].copy_from_slice(step.header);
        progress.n_sent[own] = step.n_out(own);
        progress.n_got[own] = step.n_in(own);
        progress
    }

    fn send_to(&mut self, rank: usize, lane: &mut Lane, step: &Step<'_>) -> io::Result<usize> {
        let n_sent = self.n_sent[rank];
        if n_sent == step.n_out(rank) {
            return Ok(0);
        }
        let data = &step.out[step.outs[rank].clone()];
        let header = step.header.get(n_sent..).unwrap_or_default();
        let data = &data[n_sent.saturating_sub(step.header.len())..];
        let n = match header.is_empty() {
            true => lane.stream.write(data)?,
            false => lane
                .stream
                .write_vectored(&[IoSlice::new(header), IoSlice::new(data)])?,
        };
        self.n_sent[rank] += n;
        Ok(n)
    }

    fn receive_from(
        &mut self,
        rank: usize,
        lane: &mut Lane,
        step: &mut Step<'_>,
    ) -> io::Result<usize> {
        let n_got = self.n_got[rank];
        let header_len = step.header.len();
        let data = &mut step.inbox[step.ins[rank].clone()];
        let data = &mut data[n_got.saturating_sub(header_len)..];
        let header = &mut self.heard[rank * header_len..][..header_len];
        let n = match header.get_mut(n_got..) {
            None | Some([]) => lane.stream.read(data)?,
            Some(header) => lane
                .stream
                .read_vectored(&mut [IoSliceMut::new(header), IoSliceMut::new(data)])?,
        };
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.n_got[rank] += n;
        Ok(n)
    }

    fn is_open(&self, rank: usize, step: &Step<'_>) -> bool {
        self.n_sent[rank] < step.n_out(rank) || self.n_got[rank] < step.n_in(rank)
    }

    fn is_done(&self, step: &Step<'_>) -> bool {
        self.has_agreed && (0..self.n_sent.len()).all(|rank| !self.is_open(rank, step))
    }

    fn header_of(&self, rank: usize) -> &[u8] {
        let len = self.heard.len() / self.n_got.len();
        &self.heard[rank * len..][..len]
    }

    /// One of the counts behind a rank's call.
    fn count(&self, rank: usize, position: usize) -> usize {
        let bytes = self.header_of(rank).get(CALL_LEN + 8 * position..);
        let count = bytes.and_then(|bytes| bytes.first_chunk::<8>());
        count.map_or(0, |count| u64::from_le_bytes(*count) as usize)
    }

    /// Compares the calls, once all are there.
    fn agree(&mut self, step: &Step<'_>) -> Result<(), CommErrorKind> {
        let has_come = |n: usize| self.n_got.iter().all(|&n_got| n_got >= n);
        if self.has_agreed || !has_come(CALL_LEN) {
            return Ok(());
        }
        let headers = self.heard.chunks_exact(step.header.len());
        for header in headers {
            let theirs = codec::call(&header[..CALL_LEN]).ok_or_else(garbled)?;
            if !step.context.call.agrees_with(&theirs) {
                return Err(CommErrorKind::Mismatch {
                    seq: step.context.call.seq,
                    mine: *step.context.call,
                    theirs,
                });
            }
        }
        if has_come(step.header.len()) {
            if step.context.call.op == OpKind::AllToAllV {
                compare_counts(self, self.n_got.len(), step.context.call)?;
            }
            self.has_agreed = true;
        }
        Ok(())
    }

    /// Without all calls the ranks that have not said theirs are missing, else those that do not
    /// send or take their data.
    fn missing(&self, step: &Step<'_>) -> Vec<u32> {
        let is_silent =
            |rank: usize| !step.header.is_empty() && self.n_got[rank] < step.header.len();
        let ranks = 0..self.n_got.len();
        let anyone_silent = ranks.clone().any(is_silent);
        let is_missing = |rank: &usize| match anyone_silent {
            true => is_silent(*rank),
            false => self.is_open(*rank, step),
        };
        ranks.filter(is_missing).map(|rank| rank as u32).collect()
    }
}

impl AllCounts for Progress {
    fn sent(&self, from: usize, to: usize) -> usize {
        self.count(from, to)
    }

    fn expected(&self, to: usize, from: usize) -> usize {
        self.count(to, self.n_got.len() + from)
    }

    fn call_of(&self, rank: usize) -> Result<Call, CommErrorKind> {
        codec::call(self.header_of(rank)).ok_or_else(garbled)
    }
}

fn garbled() -> CommErrorKind {
    CommErrorKind::Backend {
        code: 0,
        text: "a rank sent something that is no call: do all run the same program?".to_string(),
    }
}

#[cfg(test)]
mod tests;
