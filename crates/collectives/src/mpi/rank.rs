//! One rank's side of every operation between processes.

mod operations;

use super::ffi::{Api, Group, Pending, refusal};
use super::message::{Body, Message};
use super::session::{Hub, Pause, Session};
use crate::algorithm::Algorithm;
use crate::backend::{Backend, Shared};
use crate::codec::{self, CALL_LEN, put_call};
use crate::element::{Element, Payload};
use crate::error::CommErrorKind;
use crate::op::{Call, DataType, Op, OpKind};
use crate::operations::{Context, Done, dispatch};
use crate::rank_end::RankEnd;
use crate::solo::Solo;
use crate::timeout::{Expiry, Timeout};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time for which a rank that has timed out asks which others have come.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);

pub(super) struct Rank {
    session: Arc<Session>,
    group: Group,
    /// Collective operations of MPI that this rank has completed.
    round: u64,
    /// The end of this communicator, sent or still to be sent.
    end: Option<RankEnd>,
    has_said_end: bool,
    /// The last round has been started, or an operation given up, so that there is none.
    has_closed: bool,
    /// Replaces the choice by size, in tests.
    algorithm: Option<Algorithm>,
    send: Payload,
    recv: Payload,
    /// The last calls of all ranks.
    headers: Vec<u8>,
}

impl Backend for Rank {
    fn rank(&self) -> u32 {
        self.group.rank
    }

    fn size(&self) -> u32 {
        self.group.size
    }

    fn run(&mut self, op: Op<'_>, call: &Call, timeout: Timeout) -> Done {
        if self.group.size == 1 {
            return Solo.run(op, call, timeout);
        }
        self.session.set_timeout(timeout);
        let call = &Call {
            algorithm: self.algorithm_for(&op, call),
            ..*call
        };
        let context = Context { call, timeout };
        self.agree(context)?;
        dispatch(self, op, context)
    }

    fn shares_memory(&self) -> bool {
        self.group.size == 1
    }

    fn exchange(
        &mut self,
        item: Shared,
        _call: &Call,
        _timeout: Timeout,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        Ok(vec![item])
    }

    fn use_algorithm(&mut self, algorithm: Option<Algorithm>) {
        self.algorithm = algorithm;
    }

    fn abort(&mut self, end: &RankEnd) {
        let rank = Some(self.group.rank);
        self.say_end(RankEnd {
            rank,
            ..end.clone()
        });
    }
}

impl Rank {
    /// The communicator of all ranks.
    pub(super) fn new(session: Arc<Session>, group: Group) -> Rank {
        Rank {
            session,
            group,
            round: 0,
            end: None,
            has_said_end: false,
            has_closed: false,
            algorithm: None,
            send: Payload::default(),
            recv: Payload::default(),
            headers: Vec::new(),
        }
    }

    /// The algorithm of an all-reduce that this rank does itself.
    fn algorithm_for(&self, op: &Op<'_>, call: &Call) -> Option<Algorithm> {
        let is_own = matches!(op, Op::AllReduce { .. }) && call.data_type == Some(DataType::F32);
        let chosen = || Algorithm::choose(OpKind::AllReduce, call.n_bytes(), self.group.size);
        is_own.then(|| self.algorithm.unwrap_or_else(chosen))
    }

    fn n_ranks(&self) -> usize {
        self.group.size as usize
    }

    fn own(&self) -> usize {
        self.group.rank as usize
    }

    fn message(&self, body: Body) -> Message {
        Message {
            round: self.round,
            from: self.group.rank,
            body,
        }
    }

    /// Tells the others why nothing more will come from here; once.
    fn say_end(&mut self, end: RankEnd) {
        if self.has_said_end {
            return;
        }
        self.has_said_end = true;
        // A waiting call may have MPI for itself. Then the others learn of this by their timeout.
        let expiry = Expiry::of(Timeout::after(ANSWER_TIMEOUT));
        if let Some(mut hub) = self.session.hub_by(expiry) {
            // An error here would hide the one that is being reported.
            let message = self.message(Body::Ended(end.clone()));
            let _ = hub.tell_all(&message);
            if !self.has_closed
                && let Ok(last) = hub.api.all_gather(self.group, goodbye(), Vec::new())
            {
                hub.close(last);
            }
            let _ = hub.progress();
        }
        self.end = Some(end);
    }

    /// Starts an operation of MPI and waits for its end; the buffers come back then.
    fn complete<T: Element>(
        &mut self,
        context: Context<'_>,
        start: impl FnOnce(&mut Api, Group) -> Result<Pending<T>, CommErrorKind>,
    ) -> Result<(Vec<T>, Vec<T>), CommErrorKind> {
        let mut pending = self.begin(context, start)?;
        if let Err(kind) = self.wait(&mut pending, context) {
            self.with_hub(|hub| hub.is_spoilt = true);
            self.has_closed = true;
            return Err(kind);
        }
        self.round += 1;
        pending.finish().ok_or_else(unfinished)
    }

    fn begin<T: Element>(
        &mut self,
        context: Context<'_>,
        start: impl FnOnce(&mut Api, Group) -> Result<Pending<T>, CommErrorKind>,
    ) -> Result<Pending<T>, CommErrorKind> {
        let session = Arc::clone(&self.session);
        let Some(mut hub) = session.hub_by(Expiry::of(context.timeout)) else {
            return Err(context.timeout(Vec::new()));
        };
        hub.progress()?;
        if let Some(end) = hub.end_of(self.round) {
            let end = end.clone();
            return Err(self.ended(end, context));
        }
        hub.entered = Some(self.round);
        start(&mut hub.api, self.group)
    }

    /// Does something with the hub, unless a waiting call has it for itself.
    fn with_hub<R>(&self, f: impl FnOnce(&mut Hub) -> R) -> Option<R> {
        let hub = self
            .session
            .hub_by(Expiry::of(Timeout::after(ANSWER_TIMEOUT)));
        hub.map(|mut hub| f(&mut hub))
    }

    fn wait<T: Element>(&mut self, pending: &mut Pending<T>, context: Context<'_>) -> Done {
        let expiry = Expiry::of(context.timeout);
        let session = Arc::clone(&self.session);
        let mut pause = Pause::default();
        loop {
            if let Some(mut hub) = session.try_hub() {
                if hub.api.test(pending)? {
                    return Ok(());
                }
                hub.progress()?;
                if let Some(end) = hub.end_of(self.round) {
                    let end = end.clone();
                    return Err(self.ended(end, context));
                }
            }
            if expiry.left().is_none() {
                return self.ask_who_came(pending, context);
            }
            pause.wait();
        }
    }

    /// After the timeout: asks who has come, so that the error can name who has not.
    fn ask_who_came<T: Element>(&mut self, pending: &mut Pending<T>, context: Context<'_>) -> Done {
        let session = Arc::clone(&self.session);
        let expiry = Expiry::of(Timeout::after(ANSWER_TIMEOUT));
        let round = self.round;
        let mut missing: Vec<u32> = (0..self.group.size).collect();
        missing.retain(|&rank| rank != self.group.rank);
        let mut question = Some(self.message(Body::Question));
        let mut pause = Pause::default();
        while expiry.left().is_some() && !missing.is_empty() {
            if let Some(mut hub) = session.try_hub() {
                if let Some(question) = question.take() {
                    hub.tell_all(&question)?;
                }
                if hub.api.test(pending)? {
                    return Ok(());
                }
                hub.progress()?;
                let present = hub.present(round);
                missing.retain(|rank| !present.contains(rank));
            }
            pause.wait();
        }
        Err(context.timeout(missing))
    }

    /// Error of an operation that can no longer complete; this rank will hand on the cause when it
    /// leaves.
    fn ended(&mut self, end: RankEnd, context: Context<'_>) -> CommErrorKind {
        let error = end.error(context.call);
        self.end = Some(end);
        error
    }

    /// Compares what the ranks ask for. Returns when all of them have come.
    ///
    /// A rank that has done with the communicator, in order or not, takes part in one more such
    /// round with a goodbye. So nothing stays under way between ranks that still answer, and MPI
    /// can be ended in order.
    fn agree(&mut self, context: Context<'_>) -> Done {
        let mut own = Vec::with_capacity(CALL_LEN);
        put_call(context.call, &mut own);
        let headers = std::mem::take(&mut self.headers);
        let mut pending = self.begin(context, |api, group| api.all_gather(group, own, headers))?;
        if let Err(kind) = self.wait(&mut pending, context) {
            self.with_hub(|hub| hub.close(pending));
            self.has_closed = true;
            return Err(kind);
        }
        self.round += 1;
        self.headers = pending.finish().ok_or_else(unfinished)?.1;
        let mut headers = self.headers.chunks_exact(CALL_LEN);
        if let Some(rank) = headers.position(is_goodbye) {
            self.has_closed = true;
            return Err(self.goodbye_of(rank, context));
        }
        for rank in 0..self.n_ranks() {
            let theirs = self.call_of(rank)?;
            if !context.call.agrees_with(&theirs) {
                return Err(CommErrorKind::Mismatch {
                    seq: context.call.seq,
                    mine: *context.call,
                    theirs,
                });
            }
        }
        Ok(())
    }

    /// Error after the goodbye of `rank`, which has sent a message with the cause.
    fn goodbye_of(&mut self, rank: usize, context: Context<'_>) -> CommErrorKind {
        let expiry = Expiry::of(Timeout::after(ANSWER_TIMEOUT));
        let mut pause = Pause::default();
        while expiry.left().is_some() {
            let end = self.with_hub(|hub| {
                hub.progress()?;
                Ok(hub.end_of(self.round).cloned())
            });
            match end {
                Some(Ok(Some(end))) => return self.ended(end, context),
                Some(Err(kind)) => return kind,
                Some(Ok(None)) | None => pause.wait(),
            }
        }
        CommErrorKind::PeerLost {
            rank: Some(rank as u32),
            op: context.call.op,
            seq: context.call.seq,
            why: "it ended without a reason".to_string(),
        }
    }

    /// The last call of `rank`.
    fn call_of(&self, rank: usize) -> Result<Call, CommErrorKind> {
        let call = codec::call(&self.headers[rank * CALL_LEN..][..CALL_LEN]);
        call.ok_or_else(|| refusal(format!("rank {rank} is not of this program or release")))
    }
}

/// Bytes in place of a call from a rank that has done with the communicator.
fn goodbye() -> Vec<u8> {
    vec![0; CALL_LEN]
}

fn is_goodbye(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn unfinished() -> CommErrorKind {
    refusal("MPI took back that an operation was over".to_string())
}

impl Drop for Rank {
    fn drop(&mut self) {
        if self.group.size == 1 {
            return;
        }
        let end = match self.end.take() {
            Some(end) => end,
            None => RankEnd::dropped(self.group.rank, thread::panicking()),
        };
        self.say_end(end);
    }
}
