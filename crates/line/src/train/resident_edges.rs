//! Buckets of edges that stay in devices' memory from pass to pass, as far as there is room.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::rank_devices::RankDevices;
use super::worker_pool::locked;
use crate::kernels::sgns::EdgeList;
use crate::schedule::Pair;
use crate::{Config, DeviceMemory, Error, Mode, Store};

/// Buckets of all orders of a run; orders have the same edges.
#[derive(Debug, Default)]
pub(super) struct ResidentEdges(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes on each device for buckets that are not there yet.
    rooms: Vec<u64>,
    /// Buckets that stay; `None` while a stream has one.
    buckets: BTreeMap<RankBucket, Option<EdgeList>>,
}

/// A bucket on the device of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankBucket {
    pub(super) rank: usize,
    pub(super) bucket: Pair,
}

impl ResidentEdges {
    /// With the room that each device has beside the tables; `held_rows` are the bytes of rows in memory,
    /// where not all of them are. None on the host, and in the deterministic mode, whose order of edges
    /// is the host's.
    ///
    /// # Errors
    /// [`Error::Memory`] where the tables do not fit; the device's.
    pub(super) fn new(
        store: &Store,
        config: &Config,
        devices: &RankDevices,
        held_rows: Option<u64>,
    ) -> Result<ResidentEdges, Error> {
        if config.mode_on(devices.first().kind()) == Mode::Deterministic {
            return Ok(ResidentEdges::default());
        }
        let room = |device| {
            let memory = DeviceMemory::of(device, config)?;
            let room = memory.map(|memory| memory.room_for_edges(store, held_rows));
            Ok(room.transpose()?.unwrap_or(0))
        };
        let rooms: Result<Vec<u64>, Error> = devices.each().iter().map(room).collect();
        let state = State {
            rooms: rooms?,
            ..State::default()
        };
        Ok(ResidentEdges(Mutex::new(state)))
    }

    /// True for a bucket that is in the device's memory.
    pub(super) fn has(&self, bucket: RankBucket) -> bool {
        locked(&self.0).buckets.contains_key(&bucket)
    }

    /// A bucket that is in the device's memory, for a stream; it goes back by [`ResidentEdges::keep`].
    pub(super) fn take(&self, bucket: RankBucket) -> Option<EdgeList> {
        locked(&self.0).buckets.get_mut(&bucket)?.take()
    }

    /// Keeps a bucket for the next pass, if there is room or it has been here.
    pub(super) fn keep(&self, bucket: RankBucket, edges: EdgeList) {
        let bytes = EdgeList::bytes_of(edges.len() as u64, edges.is_weighted());
        let mut state = locked(&self.0);
        if let Some(kept) = state.buckets.get_mut(&bucket) {
            *kept = Some(edges);
        } else if let Some(room) = state.rooms.get_mut(bucket.rank)
            && bytes <= *room
        {
            *room -= bytes;
            state.buckets.insert(bucket, Some(edges));
        }
    }
}
