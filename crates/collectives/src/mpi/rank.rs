//! One rank's side of every operation between processes.

mod operations;

use super::ffi::{Api, Group, Pending, Wire, refusal};
use super::header::{self, HEADER_BYTES};
use super::message::{Kind, Message};
use super::session::{Hub, Pause, Session, WORLD};
use crate::algorithm::{Algorithm, MPI};
use crate::backend::{Backend, Shared};
use crate::deadline::{Deadline, Expiry};
use crate::element::Payload;
use crate::error::CommErrorKind;
use crate::op::{Call, DataType, Op, OpKind, typed};
use crate::solo::Solo;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a rank whose deadline has passed asks who else is there.
const ROLL_CALL: Duration = Duration::from_millis(250);

type Done = Result<(), CommErrorKind>;

pub(super) struct Rank {
    session: Arc<Session>,
    group: Group,
    /// Each member's rank in the world.
    members: Vec<u32>,
    /// The number of this communicator, then those that it was made from.
    lineage: Vec<u64>,
    /// Collective operations of MPI that this rank has completed here.
    round: u64,
    deadline: Deadline,
    /// What keeps this communicator from going on: the last word, sent or still to be sent.
    end: Option<Message>,
    has_said_end: bool,
    /// The last round has been started, or an operation given up, so that there is none.
    has_closed: bool,
    /// In place of what the table says.
    algorithm: Option<Algorithm>,
    send: Payload,
    recv: Payload,
    /// What all ranks asked for last.
    headers: Vec<u8>,
}

/// What all steps of one operation need.
#[derive(Clone, Copy)]
struct Context<'a> {
    call: &'a Call,
    deadline: Deadline,
}

impl Backend for Rank {
    fn rank(&self) -> u32 {
        self.group.rank
    }

    fn size(&self) -> u32 {
        self.group.size
    }

    fn run(&mut self, op: Op<'_>, call: &Call, deadline: Deadline) -> Done {
        if self.group.size == 1 {
            return Solo.run(op, call, deadline);
        }
        self.deadline = deadline;
        self.session.set_deadline(deadline);
        let call = &Call {
            algorithm: self.algorithm_for(&op, call),
            ..*call
        };
        let context = Context { call, deadline };
        self.agree(context)?;
        self.perform(op, context)
    }

    fn shares_memory(&self) -> bool {
        self.group.size == 1
    }

    fn exchange(
        &mut self,
        item: Shared,
        _call: &Call,
        _deadline: Deadline,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        Ok(vec![item])
    }

    fn subgroup(&mut self, group: &[u32], call: &Call) -> Result<Box<dyn Backend>, CommErrorKind> {
        if self.group.size == 1 {
            return Ok(Box::new(Solo));
        }
        let position = group.iter().position(|&member| member == self.group.rank);
        let (parent, key) = (self.group, position.unwrap_or_default() as u32);
        let color = group.first().copied().filter(|_| group.len() > 1);
        let members: Vec<u32> = group
            .iter()
            .map(|&rank| self.members[rank as usize])
            .collect();
        let mut lineage = vec![child(self.lineage[0], call.seq, group[0])];
        lineage.extend(&self.lineage);
        let comm = lineage[0];
        let made = self.session.wait_for(self.deadline, move |hub| {
            let made = hub.api.split(parent, color, key)?;
            if let Some(made) = made {
                hub.expect(comm, made.size);
            }
            Ok(made)
        });
        let Some(made) = made else {
            return Err(CommErrorKind::Timeout {
                op: call.op,
                seq: call.seq,
                after: self.deadline.duration(),
                missing: Vec::new(),
            });
        };
        Ok(match made? {
            None => Box::new(Solo),
            Some(group) => {
                let session = Arc::clone(&self.session);
                let mut rank = Rank::new(session, group, members, lineage);
                rank.deadline = self.deadline;
                rank.algorithm = self.algorithm;
                Box::new(rank)
            }
        })
    }

    fn use_algorithm(&mut self, algorithm: Option<Algorithm>) {
        self.algorithm = algorithm;
    }

    fn abort(&mut self, _by: Option<u32>, why: &str) {
        let end = self.message(Kind::Aborted, why);
        self.say_end(end);
    }
}

/// The number of a communicator: the same for all of its members, another one for every other.
fn child(parent: u64, seq: u64, first: u32) -> u64 {
    // FNV-1a over the words, with the parent as the start.
    let prime = 0x0000_0100_0000_01b3;
    [0xcbf2_9ce4_8422_2325, seq, u64::from(first)]
        .into_iter()
        .fold(parent, |hash, word| {
            (hash ^ word).wrapping_mul(prime).rotate_left(23)
        })
}

impl Rank {
    /// The communicator of all ranks.
    pub(super) fn world(session: Arc<Session>, group: Group) -> Rank {
        let members = (0..group.size).collect();
        Rank::new(session, group, members, vec![WORLD])
    }

    fn new(session: Arc<Session>, group: Group, members: Vec<u32>, lineage: Vec<u64>) -> Rank {
        Rank {
            session,
            group,
            members,
            lineage,
            round: 0,
            deadline: Deadline::default(),
            end: None,
            has_said_end: false,
            has_closed: false,
            algorithm: None,
            send: Payload::default(),
            recv: Payload::default(),
            headers: Vec::new(),
        }
    }

    /// How to do an all-reduce that this rank does itself.
    fn algorithm_for(&self, op: &Op<'_>, call: &Call) -> Option<Algorithm> {
        let is_own = matches!(op, Op::AllReduce { .. }) && call.data_type == Some(DataType::F32);
        let chosen = || MPI.choose(OpKind::AllReduce, call.n_bytes(), self.group.size);
        is_own.then(|| self.algorithm.unwrap_or_else(chosen))
    }

    /// Does an operation on which all ranks agree.
    fn perform(&mut self, op: Op<'_>, context: Context<'_>) -> Done {
        match op {
            Op::AllReduce { buf, reduction } => {
                typed!(buf, |b| self.all_reduce(b, reduction, context))
            }
            Op::AllGather { send, recv } => {
                typed!(send, recv, |s, r| self.gather(s, r, None, context))
            }
            Op::AllGatherV { send, recv, counts } => {
                typed!(send, recv, |s, r| self.gather(s, r, Some(counts), context))
            }
            Op::ReduceScatter {
                send,
                recv,
                reduction,
            } => {
                let counts = vec![recv.len(); self.n_ranks()];
                typed!(send, recv, |s, r| self
                    .reduce_scatter(s, r, &counts, reduction, context))
            }
            Op::ReduceScatterV {
                send,
                recv,
                counts,
                reduction,
            } => typed!(send, recv, |s, r| self
                .reduce_scatter(s, r, counts, reduction, context)),
            Op::Broadcast { buf, root } => typed!(buf, |b| self.broadcast(b, root, context)),
            Op::AllToAllV {
                send,
                send_counts,
                recv,
                recv_counts,
            } => {
                let counts = (send_counts, recv_counts);
                typed!(send, recv, |s, r| self.all_to_all(s, r, counts, context))
            }
            Op::Barrier => Ok(()),
        }
    }

    fn n_ranks(&self) -> usize {
        self.group.size as usize
    }

    fn own(&self) -> usize {
        self.group.rank as usize
    }

    fn message(&self, kind: Kind, why: &str) -> Message {
        let own = self.session.own();
        Message {
            kind,
            comm: self.lineage[0],
            round: self.round,
            from: own,
            origin: own,
            why: why.to_string(),
        }
    }

    /// Tells the other members why nothing more will come from here; once.
    fn say_end(&mut self, end: Message) {
        if self.has_said_end {
            return;
        }
        self.has_said_end = true;
        // A waiting call may have MPI for itself. Then the others learn of this by their deadline.
        let expiry = Expiry::of(Deadline::after(ROLL_CALL));
        if let Some(mut hub) = self.session.hub_by(expiry) {
            // An error here would hide the one that is being reported.
            let _ = hub.tell(&self.members, &end);
            if !self.has_closed
                && let Ok(last) = hub
                    .api
                    .all_gather(self.group, header::farewell(), Vec::new())
            {
                hub.close(last);
            }
            let _ = hub.progress();
        }
        self.end = Some(end);
    }

    /// Starts an operation of MPI and waits for its end; the buffers come back then.
    fn complete<T: Wire>(
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

    fn begin<T: Wire>(
        &mut self,
        context: Context<'_>,
        start: impl FnOnce(&mut Api, Group) -> Result<Pending<T>, CommErrorKind>,
    ) -> Result<Pending<T>, CommErrorKind> {
        let session = Arc::clone(&self.session);
        let Some(mut hub) = session.hub_by(Expiry::of(context.deadline)) else {
            return Err(self.timeout(context, Vec::new()));
        };
        hub.progress()?;
        if let Some(end) = hub.end_of(&self.lineage, self.round) {
            let end = end.clone();
            return Err(self.ended(end, context));
        }
        hub.enter(self.lineage[0], self.round);
        start(&mut hub.api, self.group)
    }

    /// Does something with the hub, unless a waiting call has it for itself.
    fn with_hub<R>(&self, f: impl FnOnce(&mut Hub) -> R) -> Option<R> {
        let hub = self.session.hub_by(Expiry::of(Deadline::after(ROLL_CALL)));
        hub.map(|mut hub| f(&mut hub))
    }

    fn wait<T: Wire>(&mut self, pending: &mut Pending<T>, context: Context<'_>) -> Done {
        let expiry = Expiry::of(context.deadline);
        let session = Arc::clone(&self.session);
        let mut pause = Pause::default();
        loop {
            if let Some(mut hub) = session.try_hub() {
                if hub.api.test(pending)? {
                    return Ok(());
                }
                hub.progress()?;
                if let Some(end) = hub.end_of(&self.lineage, self.round) {
                    let end = end.clone();
                    return Err(self.ended(end, context));
                }
            }
            if expiry.left().is_none() {
                return self.call_the_roll(pending, context);
            }
            pause.wait();
        }
    }

    /// After the deadline: asks who has come, so that the error can name who has not.
    fn call_the_roll<T: Wire>(&mut self, pending: &mut Pending<T>, context: Context<'_>) -> Done {
        let session = Arc::clone(&self.session);
        let expiry = Expiry::of(Deadline::after(ROLL_CALL));
        let question = self.message(Kind::RollCall, "");
        let (comm, round) = (question.comm, self.round);
        let mut missing = self.members.clone();
        missing.retain(|&member| member != session.own());
        let mut question = Some(question);
        let mut pause = Pause::default();
        while expiry.left().is_some() && !missing.is_empty() {
            if let Some(mut hub) = session.try_hub() {
                if let Some(question) = question.take() {
                    hub.tell(&self.members, &question)?;
                }
                if hub.api.test(pending)? {
                    return Ok(());
                }
                hub.progress()?;
                let present = hub.present(comm, round);
                missing.retain(|member| !present.contains(member));
            }
            pause.wait();
        }
        let numbers = missing.iter().filter_map(|&member| self.number_of(member));
        let missing = numbers.collect();
        Err(self.timeout(context, missing))
    }

    fn timeout(&self, context: Context<'_>, missing: Vec<u32>) -> CommErrorKind {
        CommErrorKind::Timeout {
            op: context.call.op,
            seq: context.call.seq,
            after: context.deadline.duration(),
            missing,
        }
    }

    /// The number here of a rank of the world.
    fn number_of(&self, member: u32) -> Option<u32> {
        let position = self.members.iter().position(|&other| other == member);
        position.map(|position| position as u32)
    }

    /// What an operation gets that can no longer complete; this rank will hand on the cause when it leaves.
    fn ended(&mut self, end: Message, context: Context<'_>) -> CommErrorKind {
        let (rank, why) = (self.number_of(end.origin), end.why.clone());
        self.end = Some(Message {
            comm: self.lineage[0],
            round: self.round,
            from: self.session.own(),
            ..end.clone()
        });
        match end.kind {
            Kind::Aborted => CommErrorKind::Aborted { by: rank, why },
            _ => CommErrorKind::PeerLost {
                rank,
                op: context.call.op,
                seq: context.call.seq,
                why,
            },
        }
    }

    /// Compares what the ranks ask for. Returns when all of them have come.
    ///
    /// A rank that has done with the communicator, in order or not, takes part in one more such round with a farewell. So nothing stays
    /// under way between ranks that still answer, and MPI can be ended in order.
    fn agree(&mut self, context: Context<'_>) -> Done {
        let own = header::encode(context.call);
        let headers = std::mem::take(&mut self.headers);
        let mut pending = self.begin(context, |api, group| api.all_gather(group, own, headers))?;
        if let Err(kind) = self.wait(&mut pending, context) {
            self.with_hub(|hub| hub.close(pending));
            self.has_closed = true;
            return Err(kind);
        }
        self.round += 1;
        self.headers = pending.finish().ok_or_else(unfinished)?.1;
        let mut headers = self.headers.chunks_exact(HEADER_BYTES);
        if let Some(rank) = headers.position(header::is_farewell) {
            self.has_closed = true;
            return Err(self.farewell_of(rank, context));
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

    /// Why `rank` has done with the communicator: it has sent a message to say so.
    fn farewell_of(&mut self, rank: usize, context: Context<'_>) -> CommErrorKind {
        let expiry = Expiry::of(Deadline::after(ROLL_CALL));
        let mut pause = Pause::default();
        while expiry.left().is_some() {
            let end = self.with_hub(|hub| {
                hub.progress()?;
                Ok(hub.end_of(&self.lineage, self.round).cloned())
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

    /// What `rank` asked for last.
    fn call_of(&self, rank: usize) -> Result<Call, CommErrorKind> {
        let call = header::decode(&self.headers[rank * HEADER_BYTES..][..HEADER_BYTES]);
        call.ok_or_else(|| refusal(format!("rank {rank} is not of this program or release")))
    }
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
            None if thread::panicking() => self.message(Kind::Panicked, "its thread panicked"),
            None => self.message(Kind::Left, "it dropped its communicator"),
        };
        let is_sound = end.kind == Kind::Left;
        self.say_end(end);
        let (group, comm) = (self.group, self.lineage[0]);
        // MPI frees the communicators of a process without waiting for others, but does not promise to.
        if is_sound && comm != WORLD {
            self.session
                .wait_for(self.deadline, move |hub| hub.api.free(group));
        }
        self.with_hub(|hub| hub.forget(comm));
    }
}
