//! Shared state of the ranks of one world: the barrier, and the slots they publish in.

use super::barrier::{Barrier, CachePadded};
use super::published::{RankHandle, rank_handles};
use crate::backend::Shared;
use crate::element::Payload;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Buffers that a rank shows to its peers during one round. Only its owner writes it, and only
/// while no peer can be reading.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) payload: Payload,
    /// The counts of an `AllToAllV`.
    pub(super) send_counts: Vec<usize>,
    pub(super) recv_counts: Vec<usize>,
    /// The item of an exchange; taken out again one round later.
    pub(super) item: Option<Shared>,
}

/// One world.
///
/// Every rank has two slots and uses them in turn, by the parity of the round. A rank that writes
/// its slot for round k has left round k - 1, so all ranks had come to round k - 1, so none reads
/// slots of round k - 2 any more. Hence one barrier per round is enough, and no rank waits for a
/// lock.
pub(super) struct World {
    pub(super) barrier: Barrier,
    /// CachePadded, so that a rank's lock does not slow its neighbour.
    slots: Vec<[CachePadded<RwLock<Slot>>; 2]>,
}

impl World {
    /// A world and the handles of its ranks.
    pub(super) fn new(n_ranks: u32) -> (Arc<World>, Vec<RankHandle>) {
        let world = World {
            barrier: Barrier::new(n_ranks),
            slots: (0..n_ranks).map(|_| Default::default()).collect(),
        };
        (Arc::new(world), rank_handles(n_ranks))
    }

    pub(super) fn size(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(super) fn read(&self, rank: usize, round: u64) -> RwLockReadGuard<'_, Slot> {
        let slot = &self.slots[rank][(round % 2) as usize].0;
        slot.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, rank: usize, round: u64) -> RwLockWriteGuard<'_, Slot> {
        let slot = &self.slots[rank][(round % 2) as usize].0;
        slot.write().unwrap_or_else(PoisonError::into_inner)
    }
}
