//! One rank's side of every operation between threads.
//!
//! A rank copies what it sends into its own slot, meets the others, and reads theirs: one barrier,
//! and a rank may leave at any moment with an error. What is long is not copied but worked on where
//! it lies, see `in_place`.

use super::backoff::Backoff;
use super::barrier::Wait;
use super::in_place::{COPY_FROM_BYTES, REDUCE_FROM_BYTES, SCATTER_FROM_BYTES};
use super::published::RankHandle;
use super::world::World;
use crate::backend::{Backend, Shared};
use crate::element::Element;
use crate::error::CommErrorKind;
use crate::op::{Call, Op, Reduction};
use crate::operations::{
    AllCounts, Context, Counts, Done, ExchangeCounts, Operations, compare_counts, dispatch,
};
use crate::rank_end::{Cause, RankEnd};
use crate::timeout::Timeout;
use crate::watch::Look;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Bytes that are reduced at a time: the tile of the result stays in the first-level cache while
/// the ranks' parts are added to it.
const TILE_BYTES: usize = 16 << 10;

pub(super) struct Rank {
    pub(super) world: Arc<World>,
    pub(super) handle: RankHandle,
    /// Rounds that this rank has left.
    pub(super) round: u64,
    pub(super) backoff: Backoff,
    /// The thread whose panics are caught and reported with their message by `threads::run`.
    supervised: Option<ThreadId>,
}

impl Backend for Rank {
    fn rank(&self) -> u32 {
        self.handle.rank() as u32
    }

    fn size(&self) -> u32 {
        self.world.size()
    }

    fn run(&mut self, op: Op<'_>, call: &Call, timeout: Timeout) -> Done {
        dispatch(self, op, Context { call, timeout })
    }

    fn shares_memory(&self) -> bool {
        true
    }

    /// Two rounds: after the second everybody has read, and each rank takes its item back out of
    /// its slot.
    fn exchange(
        &mut self,
        item: Shared,
        call: &Call,
        timeout: Timeout,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        let context = Context { call, timeout };
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

    fn watch(&self) -> Option<Look> {
        let world = Arc::downgrade(&self.world);
        Some(Arc::new(move || world.upgrade()?.barrier.failure()))
    }

    fn abort(&mut self, end: &RankEnd) {
        self.world.barrier.end(end.clone());
    }
}

impl Rank {
    pub(super) fn new(world: Arc<World>, handle: RankHandle, supervised: Option<ThreadId>) -> Rank {
        Rank {
            world,
            handle,
            round: 0,
            backoff: Backoff::default(),
            supervised,
        }
    }

    pub(super) fn own(&self) -> usize {
        self.handle.rank()
    }

    fn wait<'a>(&'a self, context: Context<'a>) -> Wait<'a> {
        Wait::new(self.round, context, &self.backoff)
    }

    /// Ends the open round and returns its number.
    fn meet(&mut self, context: Context<'_>) -> Result<u64, CommErrorKind> {
        self.world.barrier.meet(self.wait(context))?;
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
}

impl Operations for Rank {
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

    fn reduce_scatter<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let part = counts.range(self.own());
        if size_of_val(send) >= SCATTER_FROM_BYTES {
            return self.reduce_part_in_place(send, recv, part, reduction, context);
        }
        self.publish(send);
        let round = self.meet(context)?;
        self.reduce_slots(round, part, reduction, recv);
        Ok(())
    }

    fn all_gather<T: Element>(
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

    fn broadcast<T: Element>(&mut self, buf: &mut [T], root: u32, context: Context<'_>) -> Done {
        let root = root as usize;
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
        counts: ExchangeCounts<'_>,
        context: Context<'_>,
    ) -> Done {
        self.publish(send);
        let mut slot = self.world.write(self.own(), self.round);
        slot.send_counts.clear();
        slot.send_counts.extend_from_slice(counts.send);
        slot.recv_counts.clear();
        slot.recv_counts.extend_from_slice(counts.recv);
        drop(slot);
        let round = self.meet(context)?;
        let counts_of_all = RoundCounts {
            world: &self.world,
            round,
        };
        compare_counts(&counts_of_all, self.size() as usize, context.call)?;
        let mut rest = recv;
        for (rank, &count) in counts.recv.iter().enumerate() {
            let part;
            (part, rest) = rest.split_at_mut(count);
            let slot = self.world.read(rank, round);
            let sent = Counts::Each(&slot.send_counts).range(self.own());
            part.copy_from_slice(&T::of(&slot.payload)[sent]);
        }
        Ok(())
    }

    fn barrier(&mut self, context: Context<'_>) -> Done {
        self.meet(context).map(drop)
    }
}

/// The counts in the slots of a round.
struct RoundCounts<'a> {
    world: &'a World,
    round: u64,
}

impl AllCounts for RoundCounts<'_> {
    fn sent(&self, from: usize, to: usize) -> usize {
        self.world.read(from, self.round).send_counts[to]
    }

    fn expected(&self, to: usize, from: usize) -> usize {
        self.world.read(to, self.round).recv_counts[from]
    }

    fn call_of(&self, rank: usize) -> Result<Call, CommErrorKind> {
        Ok(self.world.barrier.call_of(rank))
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let mut end = RankEnd::dropped(self.rank(), thread::panicking());
        // `threads::run` is about to say the same with the panic's message, unless it is caught
        // before.
        if end.cause == Cause::Panicked && self.supervised == Some(thread::current().id()) {
            end.cause = Cause::Panicking;
        }
        self.world.barrier.end(end);
    }
}
