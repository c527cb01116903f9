//! The operations on long buffers: nothing is copied on the way, ranks work on each other's buffers
//! between two rounds.
//!
//! At the first barrier all buffers are published and agree; at the second all work is done, so
//! each rank takes its buffer away and returns. A rank that fails in between takes its buffer away
//! as well, and waits for those that work on it: they look for the end of the world after each
//! tile, so that takes microseconds.

use super::backoff::Backoff;
use super::barrier::Wait;
use super::published::{PeerLeft, PeerView, RankHandle};
use super::rank::Rank;
use super::world::World;
use crate::element::Element;
use crate::error::CommErrorKind;
use crate::op::Reduction;
use crate::operations::{Context, Counts, Done};
use std::ops::Range;

/// From this length on an all-reduce works in place, which costs a second barrier and saves copies
/// and the work that every rank would do for itself. 2 ranks on 2 cores, best of 25: 16 KiB took
/// 3.3 us in place and 2.6 us through slots, 32 KiB 3.8 and 4.1, 128 KiB 6.1 and 11.6; 6 ranks 10,
/// 20 and 43 us in place, 18, 33 and 132 us through slots.
pub(super) const REDUCE_FROM_BYTES: usize = 32 << 10;

/// The same for the sent buffers of a reduce-scatter: 16 KiB took 3.4 and 2.3 us, 64 KiB 1.8 and
/// 4.7; with 6 ranks 11 and 6, 17 and 22.
pub(super) const SCATTER_FROM_BYTES: usize = 64 << 10;

/// The same for a broadcast, and for the mean part of a gather: a broadcast of 64 KiB took 3.3 us
/// in place and 2.6 us through slots, of 256 KiB 5.0 and 7.5; 256 KiB gathered by 2 ranks took 7
/// and 14 us, by 4 ranks 34 and 27 us, 2 MiB by 4 ranks 174 and 188 us.
pub(super) const COPY_FROM_BYTES: usize = 128 << 10;

/// Bytes of each buffer that are worked on at a time: those of all ranks stay in the first-level
/// cache until the result is in each. 6 ranks on 2 cores, best of 15: an all-reduce of 2 MiB took
/// 293 us with tiles of 4 KiB, 386 with 2 KiB, 442 with 8 KiB, 522 with 16 KiB; with 2 ranks all
/// took 64 us.
const TILE_BYTES: usize = 4 << 10;

/// Bytes that are copied between two looks for the end of the world.
const CHUNK_BYTES: usize = 256 << 10;

impl Rank {
    /// The rank's handle, and the two rounds around what it does there.
    fn rounds<'a>(&'a mut self, context: Context<'a>) -> (&'a mut RankHandle, BarrierPair<'a>) {
        let Rank {
            world,
            handle,
            round,
            backoff,
            ..
        } = self;
        let rounds = BarrierPair {
            world,
            round,
            backoff,
            context,
        };
        (handle, rounds)
    }

    /// Every rank reduces its part of all buffers, in rank order, and writes it to all of them.
    pub(super) fn all_reduce_in_place<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let (handle, rounds) = self.rounds(context);
        let world = rounds.world;
        handle.lend(buf, |view| {
            rounds.around(view, |view| {
                view.change(|parts| {
                    reduce_everywhere::<T>(parts, reduction, &|| world.barrier.has_ended());
                })
            })
        })
    }

    pub(super) fn reduce_part_in_place<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        part: Range<usize>,
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let (handle, rounds) = self.rounds(context);
        let world = rounds.world;
        let n_ranks = world.size() as usize;
        handle.show(send, |view| {
            rounds.around(view, |view| {
                view.read::<T, _>(0..n_ranks, |all| {
                    if all.iter().any(|sent| sent.len() != send.len()) {
                        return Err(PeerLeft);
                    }
                    let ended = || world.barrier.has_ended();
                    reduce_into(recv, all, part.start, reduction, &ended);
                    Ok(())
                })?
            })
        })
    }

    pub(super) fn gather_in_place<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        context: Context<'_>,
    ) -> Done {
        let (handle, rounds) = self.rounds(context);
        let world = rounds.world;
        let n_ranks = world.size() as usize;
        handle.show(send, |view| {
            rounds.around(view, |view| {
                view.read::<T, _>(0..n_ranks, |all| {
                    let mut rest = recv;
                    for (rank, sent) in all.iter().enumerate() {
                        let part;
                        (part, rest) = rest.split_at_mut(counts.of(rank));
                        copy(part, sent, &|| world.barrier.has_ended())?;
                    }
                    Ok(())
                })?
            })
        })
    }

    pub(super) fn broadcast_in_place<T: Element>(
        &mut self,
        buf: &mut [T],
        root: usize,
        context: Context<'_>,
    ) -> Done {
        let (handle, rounds) = self.rounds(context);
        let world = rounds.world;
        if handle.rank() == root {
            return handle.show(buf, |view| rounds.around(view, |_| Ok(())));
        }
        rounds.around(handle.view(), |view| {
            view.read::<T, _>(root..root + 1, |all| {
                copy(buf, all[0], &|| world.barrier.has_ended())
            })?
        })
    }
}

/// State of the two rounds of one operation.
struct BarrierPair<'a> {
    world: &'a World,
    round: &'a mut u64,
    backoff: &'a Backoff,
    context: Context<'a>,
}

impl BarrierPair<'_> {
    /// Meets the others, works, and meets them again.
    fn around(
        self,
        mut view: PeerView<'_>,
        work: impl FnOnce(&mut PeerView<'_>) -> Result<(), PeerLeft>,
    ) -> Done {
        let wait = |round| Wait::new(round, self.context, self.backoff);
        self.world.barrier.meet(wait(*self.round))?;
        *self.round += 1;
        let worked = work(&mut view);
        // A buffer is gone only if its owner failed: then this does not succeed, and says why.
        self.world.barrier.meet_again(wait(*self.round))?;
        *self.round += 1;
        worked.map_err(|PeerLeft| CommErrorKind::Backend {
            code: 0,
            text:
                "a peer's buffer was not there: please report this as a bug of the threads back end"
                    .to_string(),
        })
    }
}

/// Reduces the parts of all ranks into each of them; a tile at a time, which stays in the
/// first-level cache meanwhile.
fn reduce_everywhere<T: Element>(
    parts: &mut [&mut [T]],
    reduction: Reduction,
    ended: &dyn Fn() -> bool,
) {
    let Some((first, others)) = parts.split_first_mut() else {
        return;
    };
    let Some((last, middle)) = others.split_last_mut() else {
        return;
    };
    let tile_len = TILE_BYTES / size_of::<T>();
    for start in (0..first.len()).step_by(tile_len) {
        if ended() {
            return;
        }
        let tile = start..first.len().min(start + tile_len);
        let reduced = &mut first[tile.clone()];
        for part in middle.iter() {
            T::reduce(reduction, reduced, &part[tile.clone()]);
        }
        T::reduce_both(reduction, reduced, &mut last[tile.clone()]);
        for part in middle.iter_mut() {
            part[tile.clone()].copy_from_slice(reduced);
        }
    }
}

/// Reduces what all ranks sent, from `start` on, into `out`.
fn reduce_into<T: Element>(
    out: &mut [T],
    sent: &[&[T]],
    start: usize,
    reduction: Reduction,
    ended: &dyn Fn() -> bool,
) {
    let tile_len = TILE_BYTES / size_of::<T>();
    let starts = (start..).step_by(tile_len);
    for (tile, start) in out.chunks_mut(tile_len).zip(starts) {
        if ended() {
            return;
        }
        for (rank, sent) in sent.iter().enumerate() {
            let part = &sent[start..start + tile.len()];
            match rank {
                0 => tile.copy_from_slice(part),
                _ => T::reduce(reduction, tile, part),
            }
        }
    }
}

fn copy<T: Element>(recv: &mut [T], sent: &[T], ended: &dyn Fn() -> bool) -> Result<(), PeerLeft> {
    if recv.len() != sent.len() {
        return Err(PeerLeft);
    }
    let chunk_len = CHUNK_BYTES / size_of::<T>();
    for (recv, sent) in recv.chunks_mut(chunk_len).zip(sent.chunks(chunk_len)) {
        if ended() {
            return Ok(());
        }
        recv.copy_from_slice(sent);
    }
    Ok(())
}
