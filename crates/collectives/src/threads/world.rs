//! Shared state of the ranks of one world: the barrier, the slots they publish in, and the worlds
//! split from it.

use super::barrier::{Barrier, CachePadded, Wait};
use super::published::{RankHandle, rank_handles};
use super::sync::lock;
use crate::backend::Shared;
use crate::element::Payload;
use crate::end::{Cause, End};
use crate::error::CommErrorKind;
use crate::op::Call;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

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

/// A group that not all of its members have taken yet.
struct Forming {
    group: Arc<World>,
    /// The rank_handles of those that have not come yet, by position.
    rank_handles: Vec<Option<RankHandle>>,
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
    /// Groups under construction, by sequence number of the split and first member.
    forming: Mutex<BTreeMap<(u64, u32), Forming>>,
    /// The groups made from this world and their members.
    groups: Mutex<Vec<(Weak<World>, Vec<u32>)>>,
    /// The world that this one was made from, and the members there.
    parent: Option<(Arc<World>, Vec<u32>)>,
}

impl World {
    /// A world and its ranks' rank_handles.
    pub(super) fn new(n_ranks: u32) -> (Arc<World>, Vec<RankHandle>) {
        (World::within(None, n_ranks), rank_handles(n_ranks))
    }

    fn within(parent: Option<(Arc<World>, Vec<u32>)>, n_ranks: u32) -> Arc<World> {
        Arc::new(World {
            barrier: Barrier::new(n_ranks),
            slots: (0..n_ranks).map(|_| Default::default()).collect(),
            forming: Mutex::default(),
            groups: Mutex::default(),
            parent,
        })
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

    /// Ends this world; unless a rank merely left it, also those split from it.
    pub(super) fn end(&self, end: &End) {
        self.barrier.end(end.clone());
        if end.cause == Cause::Left {
            return;
        }
        for (group, members) in lock(&self.groups).iter() {
            if let Some(group) = group.upgrade() {
                group.end(&end.within(members));
            }
        }
    }

    /// The world of `members`, the same one for each of them, and the handle of the member at
    /// `position`; `None` if that one has taken its handle.
    pub(super) fn group(
        self: &Arc<World>,
        members: &[u32],
        position: usize,
        seq: u64,
    ) -> Option<(Arc<World>, RankHandle)> {
        let key = (seq, members[0]);
        let mut forming = lock(&self.forming);
        let entry = forming.entry(key).or_insert_with(|| {
            let n_ranks = members.len() as u32;
            let parent = (Arc::clone(self), members.to_vec());
            let group = World::within(Some(parent), n_ranks);
            self.adopt(&group, members);
            Forming {
                group,
                rank_handles: rank_handles(n_ranks).into_iter().map(Some).collect(),
            }
        });
        let handle = entry.rank_handles[position].take()?;
        let group = Arc::clone(&entry.group);
        if entry.rank_handles.iter().all(Option::is_none) {
            forming.remove(&key);
        }
        Some((group, handle))
    }

    /// Makes the ends of this world reach a group, also one that came just before.
    fn adopt(&self, group: &Arc<World>, members: &[u32]) {
        let mut groups = lock(&self.groups);
        groups.retain(|(group, _)| group.strong_count() > 0);
        groups.push((Arc::downgrade(group), members.to_vec()));
        drop(groups);
        if let Some(end) = self.inherited_end() {
            group.end(&end.within(members));
        }
    }

    /// The panic or abort that ended this world or one above it, with the rank's number here.
    fn inherited_end(&self) -> Option<End> {
        self.barrier.inherited_end().or_else(|| self.end_above())
    }

    /// The same as an error beside the operations.
    pub(super) fn failure(&self) -> Option<CommErrorKind> {
        self.inherited_end().map(|end| end.failure())
    }

    fn end_above(&self) -> Option<End> {
        let (parent, members) = self.parent.as_ref()?;
        Some(parent.inherited_end()?.within(members))
    }

    /// Ends round `wait.round` with all ranks, after comparing what they ask for.
    pub(super) fn meet(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let met = self.barrier.meet(wait);
        met.map_err(|kind| self.root_cause(kind, wait.call))
    }

    /// The same in a later round of one operation.
    pub(super) fn meet_again(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let met = self.barrier.meet_again(wait);
        met.map_err(|kind| self.root_cause(kind, wait.call))
    }

    /// The cause of a failed barrier. After a panic in a world above, peers that woke up earlier
    /// may have left this one already: then the panic is the cause, not their leaving.
    fn root_cause(&self, kind: CommErrorKind, call: &Call) -> CommErrorKind {
        match (&kind, self.end_above()) {
            (CommErrorKind::PeerLost { .. }, Some(end)) => end.error(call),
            _ => kind,
        }
    }
}
