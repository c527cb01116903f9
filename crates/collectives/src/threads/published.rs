//! Buffers that ranks work on in place: a rank lends its buffer for the time of a call, and its
//! peers reach it through a pointer.
//!
//! This is the only file of the threads back end with unsafe code. Its interface is safe whatever
//! its callers do, also if they meet at the wrong time, panic, or forget what they were given. The
//! proof:
//!
//! 1. *Lifetime.* A pointer to a buffer is in its owner's slot only while [`RankHandle::lend`] or
//!    [`RankHandle::show`] runs, which hold the borrow of the buffer: it is put there under the
//!    slot's write lock, and a guard on the stack of that call takes it away under the write lock,
//!    also when the call unwinds; no body can publish twice, because it has no handle. Peers follow
//!    the pointer only under the slot's read lock, and nothing that they made from it outlives that
//!    lock, because they see it in a closure. So no peer follows it after the borrow has ended.
//! 2. *Aliasing.* A shown buffer (`&[T]`) is only read. Of a lent buffer (`&mut [T]`), which its
//!    owner does not touch while it lends it, rank r gets part r alone, a function of the buffer's
//!    length, r and the number of ranks. There is one [`RankHandle`] of each rank, it cannot be
//!    cloned, and it is borrowed mutably while a part is out: so no two parts that are out at one
//!    time overlap.
//! 3. *Order.* What the owner wrote before lending, peers see through the write and the read of the
//!    slot's lock; what peers wrote, the owner sees through their unlocking and its taking away.
//! 4. *Type and length* stand beside the pointer and are compared before it is followed. The
//!    elements are plain numbers, for which every bit pattern is a value.
//!
//! *No rank waits for ever.* The owner waits, when it takes its buffer away, for peers inside their
//! closures. These never wait for a rank there: they take the read locks without blocking (all or
//! none), and work; long work looks now and then whether the world has ended.
#![allow(
    unsafe_code,
    reason = "threads reach each other's borrowed buffers through pointers; the proof stands above"
)]

use super::sync::{RwLock, RwLockReadGuard, try_read, write};
use crate::element::Element;
use crate::parts::part;
use std::any::TypeId;
use std::ops::Range;
use std::sync::Arc;

/// A buffer that is not there (any more), or of another type or length than the others: its owner
/// has left the operation, or never came to it.
#[derive(Debug)]
pub(super) struct PeerLeft;

/// The slots of all ranks of a world.
struct PublishSlots(Vec<PublishSlot>);

/// CachePadded by two cache lines, because adjacent lines are fetched in pairs.
#[repr(align(128))]
struct PublishSlot(RwLock<Option<Published>>);

/// A buffer as plain facts.
#[derive(Clone, Copy)]
struct Published {
    start: *mut (),
    len: usize,
    element: TypeId,
    /// True where it was borrowed mutably.
    lent: bool,
}

// SAFETY: the pointer is to elements that are `Send` and `Sync` (supertraits of `Element`, required
// where one is made), and points 1 and 2 above say who follows it when.
unsafe impl Send for Published {}
// SAFETY: as above; a `&Published` gives nothing but copies of its fields.
unsafe impl Sync for Published {}

/// One rank's place among the slots, and its only way to what the others put there.
pub(super) struct RankHandle {
    slots: Arc<PublishSlots>,
    rank: usize,
}

/// One handle for each of `n_ranks` ranks.
pub(super) fn rank_handles(n_ranks: u32) -> Vec<RankHandle> {
    let slot = |_| PublishSlot(RwLock::new(None));
    let slots = Arc::new(PublishSlots((0..n_ranks).map(slot).collect()));
    let handle = |rank| RankHandle {
        slots: Arc::clone(&slots),
        rank,
    };
    (0..n_ranks as usize).map(handle).collect()
}

/// A rank's view of the slots, for as long as its own buffer stands there.
pub(super) struct PeerView<'a> {
    handle: &'a mut RankHandle,
}

/// A buffer that its owner cannot take away yet.
struct ReadGuard<'a> {
    buffer: Published,
    _lock: RwLockReadGuard<'a, Option<Published>>,
}

impl RankHandle {
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    /// View of the buffers in the other slots.
    pub(super) fn view(&mut self) -> PeerView<'_> {
        PeerView { handle: self }
    }

    /// Lets every rank change its part of `data` while `body` runs, and waits at the end for those
    /// that do.
    pub(super) fn lend<T: Element, R>(
        &mut self,
        data: &mut [T],
        body: impl FnOnce(PeerView<'_>) -> R,
    ) -> R {
        self.publish(Published::new(data.as_mut_ptr(), data.len(), true), body)
    }

    /// Lets every rank read `data` while `body` runs, and waits at the end for those that do.
    pub(super) fn show<T: Element, R>(
        &mut self,
        data: &[T],
        body: impl FnOnce(PeerView<'_>) -> R,
    ) -> R {
        let start = data.as_ptr().cast_mut();
        self.publish(Published::new(start, data.len(), false), body)
    }

    /// The callers hold the borrow of the buffer until this returns, and do not use it. The body
    /// cannot publish another one: the view holds the handle.
    fn publish<R>(&mut self, buffer: Published, body: impl FnOnce(PeerView<'_>) -> R) -> R {
        let slots = Arc::clone(&self.slots);
        let slot = &slots.0[self.rank];
        let _unpublish = UnpublishGuard(slot);
        *write(&slot.0) = Some(buffer);
        body(self.view())
    }
}

/// Takes the buffer out of the slot, at the end of the call that put it there.
struct UnpublishGuard<'a>(&'a PublishSlot);

impl Drop for UnpublishGuard<'_> {
    fn drop(&mut self) {
        *write(&self.0.0) = None;
    }
}

impl Published {
    fn new<T: Element>(start: *mut T, len: usize, lent: bool) -> Published {
        Published {
            start: start.cast(),
            len,
            element: TypeId::of::<T>(),
            lent,
        }
    }

    fn holds<T: Element>(&self, lent: bool) -> bool {
        self.element == TypeId::of::<T>() && self.lent == lent
    }
}

impl PeerView<'_> {
    /// Gives `work` the buffers that `ranks` show, in rank order.
    pub(super) fn read<T: Element, R>(
        &self,
        ranks: Range<usize>,
        work: impl FnOnce(&[&[T]]) -> R,
    ) -> Result<R, PeerLeft> {
        let held = self.hold::<T>(ranks, false)?;
        let slice = |held: &ReadGuard<'_>| {
            let (start, len) = (held.buffer.start.cast::<T>(), held.buffer.len);
            // SAFETY: `show` was given `len` elements of type `T` at `start` (compared in `hold`)
            // and has not returned, because the read lock is held; while it runs they are borrowed
            // and no rank changes them (not lent).
            unsafe { std::slice::from_raw_parts(start.cast_const(), len) }
        };
        let slices: Vec<&[T]> = held.iter().map(slice).collect();
        Ok(work(&slices))
    }

    /// Gives `work` this rank's part of each rank's lent buffer, in rank order; all of one length.
    pub(super) fn change<T: Element, R>(
        &mut self,
        work: impl FnOnce(&mut [&mut [T]]) -> R,
    ) -> Result<R, PeerLeft> {
        let n_ranks = self.handle.slots.0.len();
        let held = self.hold::<T>(0..n_ranks, true)?;
        let len = held.first().map_or(0, |held| held.buffer.len);
        if held.iter().any(|held| held.buffer.len != len) {
            return Err(PeerLeft);
        }
        let own = part(len, self.handle.rank, n_ranks);
        let slice = |held: &ReadGuard<'_>| {
            let start = held.buffer.start.cast::<T>();
            // SAFETY: `lend` was given `len` elements of type `T` at `start` (compared in `hold`)
            // and has not returned, because the read lock is held; while it runs its owner does not
            // touch them. Parts of different ranks are disjoint, this rank has one handle, and that
            // is mutably borrowed here. Buffers of different ranks do not overlap: each was `&mut`.
            unsafe { std::slice::from_raw_parts_mut(start.add(own.start), own.len()) }
        };
        let mut slices: Vec<&mut [T]> = held.iter().map(slice).collect();
        Ok(work(&mut slices))
    }

    /// The buffers of `ranks` under their read locks; all of them or none.
    fn hold<T: Element>(
        &self,
        ranks: Range<usize>,
        lent: bool,
    ) -> Result<Vec<ReadGuard<'_>>, PeerLeft> {
        let slots = &self.handle.slots.0[ranks];
        let mut all = Vec::with_capacity(slots.len());
        for slot in slots {
            // A writer that waits is an owner about to leave.
            let lock = try_read(&slot.0).ok_or(PeerLeft)?;
            let buffer = lock
                .filter(|buffer| buffer.holds::<T>(lent))
                .ok_or(PeerLeft)?;
            all.push(ReadGuard {
                buffer,
                _lock: lock,
            });
        }
        Ok(all)
    }
}
