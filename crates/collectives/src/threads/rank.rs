//! One rank's side of every operation between threads.
//!
//! A rank copies what it sends into its own slot, meets the others, and reads theirs: one meeting, and a rank may leave at any moment
//! with an error. What is long is not copied but worked on where it lies, see `in_place`.

use super::in_place::{COPY_FROM_BYTES, REDUCE_FROM_BYTES, SCATTER_FROM_BYTES};
use super::meeting::{Cause, End, Wait};
use super::patience::Patience;
use super::published::Desk;
use super::world::World;
use crate::backend::{Backend, Shared};
use crate::deadline::Deadline;
use crate::element::Element;
use crate::error::CommErrorKind;
use crate::op::{Call, Op, Reduction, typed};
use crate::solo::Solo;
use crate::watch::Look;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Bytes that are reduced at a time: the tile of the result stays in the first-level cache while the ranks' parts are added to it.
const TILE_BYTES: usize = 16 << 10;

pub(super) type Done = Result<(), CommErrorKind>;

pub(super) struct Rank {
    pub(super) world: Arc<World>,
    pub(super) desk: Desk,
    /// Rounds that this rank has left.
    pub(super) round: u64,
    pub(super) patience: Patience,
    /// The thread whose panics are caught and reported with their message by `threads::run`.
    supervised: Option<ThreadId>,
}

/// What all steps of one operation need.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) call: &'a Call,
    deadline: Deadline,
}

impl<'a> Context<'a> {
    pub(super) fn wait(self, round: u64, patience: &'a Patience) -> Wait<'a> {
        Wait {
            patience,
            round,
            call: self.call,
            deadline: self.deadline,
        }
    }
}

/// The length of each rank's part.
#[derive(Clone, Copy)]
pub(super) enum Counts<'a> {
    Equal(usize),
    Each(&'a [usize]),
}

impl Counts<'_> {
    pub(super) fn of(self, rank: usize) -> usize {
        match self {
            Counts::Equal(count) => count,
            Counts::Each(counts) => counts[rank],
        }
    }

    /// Where the part of `rank` lies when the parts are put one after the other.
    fn range(self, rank: usize) -> Range<usize> {
        let start = match self {
            Counts::Equal(count) => count * rank,
            Counts::Each(counts) => counts[..rank].iter().sum(),
        };
        start..start + self.of(rank)
    }
}

impl Backend for Rank {
    fn rank(&self) -> u32 {
        self.desk.rank() as u32
    }

    fn size(&self) -> u32 {
        self.world.size()
    }

    fn run(&mut self, op: Op<'_>, call: &Call, deadline: Deadline) -> Done {
        let context = Context { call, deadline };
        match op {
            Op::AllReduce { buf, reduction } => {
                typed!(buf, |b| self.all_reduce(b, reduction, context))
            }
            Op::AllGather { send, recv } => {
                let counts = Counts::Equal(send.len());
                typed!(send, recv, |s, r| self.gather(s, r, counts, context))
            }
            Op::AllGatherV { send, recv, counts } => {
                let counts = Counts::Each(counts);
                typed!(send, recv, |s, r| self.gather(s, r, counts, context))
            }
            Op::ReduceScatter {
                send,
                recv,
                reduction,
            } => {
                let part = Counts::Equal(recv.len()).range(self.own());
                typed!(send, recv, |s, r| self
                    .reduce_part(s, r, part, reduction, context))
            }
            Op::ReduceScatterV {
                send,
                recv,
                counts,
                reduction,
            } => {
                let part = Counts::Each(counts).range(self.own());
                typed!(send, recv, |s, r| self
                    .reduce_part(s, r, part, reduction, context))
            }
            Op::Broadcast { buf, root } => {
                typed!(buf, |b| self.broadcast(b, root as usize, context))
            }
            Op::AllToAllV {
                send,
                send_counts,
                recv,
                recv_counts,
            } => {
                let counts = (send_counts, recv_counts);
                typed!(send, recv, |s, r| self.all_to_all(s, r, counts, context))
            }
            Op::Barrier => self.meet(context).map(drop),
        }
    }

    fn shares_memory(&self) -> bool {
        true
    }

    /// Two rounds: after the second everybody has read, and each rank takes its item back out of its slot.
    fn exchange(
        &mut self,
        item: Shared,
        call: &Call,
        deadline: Deadline,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        let context = Context { call, deadline };
        let own_round = self.round;
        self.world.write(self.own(), own_round).item = Some(item);
        let round = self.meet(context)?;
        let ranks = 0..self.size() as usize;
        let items = ranks.filter_map(|rank| self.world.read(rank, round).item.clone());
        let items: Vec<Shared> = items.collect();
        self.meet(context)?;
        self.world.write(self.own(), own_round).item = None;
        debug_assert_eq!(items.len(), self.size() as usize);
        Ok(items)
    }

    fn subgroup(&mut self, group: &[u32], call: &Call) -> Result<Box<dyn Backend>, CommErrorKind> {
        if group.len() == 1 {
            return Ok(Box::new(Solo));
        }
        let position = group.iter().position(|&member| member == self.rank());
        let place = position.and_then(|position| self.world.group(group, position, call.seq));
        let Some((world, desk)) = place else {
            let text = format!("rank {} has no place in the group {group:?}", self.rank());
            return Err(CommErrorKind::Backend { code: 0, text });
        };
        Ok(Box::new(Rank::new(world, desk, self.supervised)))
    }

    fn watch(&self) -> Option<Look> {
        let world = Arc::downgrade(&self.world);
        Some(Arc::new(move || world.upgrade()?.failure()))
    }

    fn abort(&mut self, by: Option<u32>, why: &str) {
        self.world.end(&End {
            cause: Cause::Aborted,
            rank: by,
            why: why.to_string(),
        });
    }
}

impl Rank {
    pub(super) fn new(world: Arc<World>, desk: Desk, supervised: Option<ThreadId>) -> Rank {
        Rank {
            world,
            desk,
            round: 0,
            patience: Patience::default(),
            supervised,
        }
    }

    pub(super) fn own(&self) -> usize {
        self.desk.rank()
    }

    /// Ends the open round and returns its number.
    fn meet(&mut self, context: Context<'_>) -> Result<u64, CommErrorKind> {
        self.world.meet(context.wait(self.round, &self.patience))?;
        self.round += 1;
        Ok(self.round - 1)
    }

    /// Copies `data` into the own slot for the open round.
    fn publish<T: Element>(&self, data: &[T]) {
        let mut slot = self.world.write(self.own(), self.round);
        let published = T::of_mut(&mut slot.payload);
        published.clear();
        published.extend_from_slice(data);
    }

    /// Combines the elements `range` of all ranks' slots, in rank order, into `out`.
    fn reduce_slots<T: Element>(
        &self,
        round: u64,
        range: Range<usize>,
        reduction: Reduction,
        out: &mut [T],
    ) {
        let tile_len = TILE_BYTES / size_of::<T>();
        let starts = range.step_by(tile_len);
        for (tile, start) in out.chunks_mut(tile_len).zip(starts) {
            for rank in 0..self.size() as usize {
                let slot = self.world.read(rank, round);
                let part = &T::of(&slot.payload)[start..start + tile.len()];
                match rank {
                    0 => tile.copy_from_slice(part),
                    _ => T::reduce(reduction, tile, part),
                }
            }
        }
    }

    fn all_reduce<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        if buf.is_empty() {
            return self.meet(context).map(drop);
        }
        if size_of_val(buf) >= REDUCE_FROM_BYTES {
            return self.all_reduce_in_place(buf, reduction, context);
        }
        self.publish(buf);
        let round = self.meet(context)?;
        self.reduce_slots(round, 0..buf.len(), reduction, buf);
        Ok(())
    }

    fn reduce_part<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        part: Range<usize>,
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        if size_of_val(send) >= SCATTER_FROM_BYTES {
            return self.reduce_part_in_place(send, recv, part, reduction, context);
        }
        self.publish(send);
        let round = self.meet(context)?;
        self.reduce_slots(round, part, reduction, recv);
        Ok(())
    }

    fn gather<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        context: Context<'_>,
    ) -> Done {
        if size_of_val(recv) / self.size() as usize >= COPY_FROM_BYTES {
            return self.gather_in_place(send, recv, counts, context);
        }
        self.publish(send);
        let round = self.meet(context)?;
        let mut rest = recv;
        for rank in 0..self.size() as usize {
            let part;
            (part, rest) = rest.split_at_mut(counts.of(rank));
            let slot = self.world.read(rank, round);
            part.copy_from_slice(T::of(&slot.payload));
        }
        Ok(())
    }

    fn broadcast<T: Element>(&mut self, buf: &mut [T], root: usize, context: Context<'_>) -> Done {
        if size_of_val(buf) >= COPY_FROM_BYTES {
            return self.broadcast_in_place(buf, root, context);
        }
        if self.own() == root {
            self.publish(buf);
        }
        let round = self.meet(context)?;
        if self.own() != root {
            let slot = self.world.read(root, round);
            buf.copy_from_slice(T::of(&slot.payload));
        }
        Ok(())
    }

    fn all_to_all<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        (send_counts, recv_counts): (&[usize], &[usize]),
        context: Context<'_>,
    ) -> Done {
        self.publish(send);
        let mut slot = self.world.write(self.own(), self.round);
        slot.send_counts.clear();
        slot.send_counts.extend_from_slice(send_counts);
        slot.recv_counts.clear();
        slot.recv_counts.extend_from_slice(recv_counts);
        drop(slot);
        let round = self.meet(context)?;
        self.check_counts(round, context.call)?;
        let mut rest = recv;
        for (rank, &count) in recv_counts.iter().enumerate() {
            let part;
            (part, rest) = rest.split_at_mut(count);
            let slot = self.world.read(rank, round);
            let sent = Counts::Each(&slot.send_counts).range(self.own());
            part.copy_from_slice(&T::of(&slot.payload)[sent]);
        }
        Ok(())
    }

    /// Compares every rank's `send_counts` with every other's `recv_counts`, so that all ranks come to the same verdict.
    fn check_counts(&self, round: u64, call: &Call) -> Done {
        for from in 0..self.size() as usize {
            let sender = self.world.read(from, round);
            for to in (0..self.size() as usize).filter(|&to| to != from) {
                let expected = self.world.read(to, round).recv_counts[from];
                if sender.send_counts[to] != expected {
                    return Err(self.part_mismatch(
                        (from, sender.send_counts[to]),
                        (to, expected),
                        call,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Each side is (rank, the length it gave for the part).
    fn part_mismatch(
        &self,
        from: (usize, usize),
        to: (usize, usize),
        call: &Call,
    ) -> CommErrorKind {
        let side = |(rank, len): (usize, usize), peer: usize| Call {
            len,
            peer: Some(peer as u32),
            ..self.world.meeting.call_of(rank)
        };
        let (sender, receiver) = (side(from, to.0), side(to, from.0));
        let (mine, theirs) = if to.0 == self.own() {
            (receiver, sender)
        } else {
            (sender, receiver)
        };
        CommErrorKind::Mismatch {
            seq: call.seq,
            mine,
            theirs,
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let (cause, why) = match thread::panicking() {
            // `threads::run` is about to say the same with the panic's message, unless somebody catches it before.
            true if self.supervised == Some(thread::current().id()) => {
                (Cause::Panicking, "its thread panicked")
            }
            true => (Cause::Panicked, "its thread panicked"),
            false => (Cause::Left, "it dropped its communicator"),
        };
        self.world.end(&End {
            cause,
            rank: Some(self.rank()),
            why: why.to_string(),
        });
    }
}
