//! Buckets of edges that stay in a device's memory from pass to pass, as far as there is room.

use std::collections::BTreeMap;
use std::sync::Mutex;

use shardgraph_device::Device;

use super::worker_pool::locked;
use crate::device_memory::edge_bytes;
use crate::kernels::sgns::EdgeList;
use crate::schedule::Pair;
use crate::{Config, DeviceMemory, Error, Mode, Store};

/// Buckets of all orders of a run; orders have the same edges.
#[derive(Debug, Default)]
pub(super) struct ResidentEdges(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes for buckets that are not here yet.
    room: u64,
    /// Buckets that stay; `None` while a stream has one.
    buckets: BTreeMap<Pair, Option<EdgeList>>,
}

impl ResidentEdges {
    /// With the room that a device has beside the tables; `held_rows` are the bytes of rows in memory,
    /// where not all of them are. None on the host, and in the deterministic mode, whose order of edges
    /// is the host's.
    ///
    /// # Errors
    /// [`Error::Memory`] where the tables do not fit; the device's.
    pub(super) fn new(
        store: &Store,
        config: &Config,
        device: &Device,
        held_rows: Option<u64>,
    ) -> Result<ResidentEdges, Error> {
        if config.mode_on(device.kind()) == Mode::Deterministic {
            return Ok(ResidentEdges::default());
        }
        let memory = DeviceMemory::of(device, config)?;
        let room = memory.map(|memory| memory.room_for_edges(store, held_rows));
        let state = State {
            room: room.transpose()?.unwrap_or(0),
            ..State::default()
        };
        Ok(ResidentEdges(Mutex::new(state)))
    }

    /// True for a bucket that is in the device's memory.
    pub(super) fn has(&self, bucket: Pair) -> bool {
        locked(&self.0).buckets.contains_key(&bucket)
    }

    /// A bucket that is in the device's memory, for a stream; it goes back by [`ResidentEdges::keep`].
    pub(super) fn take(&self, bucket: Pair) -> Option<EdgeList> {
        locked(&self.0).buckets.get_mut(&bucket)?.take()
    }

    /// Keeps a bucket for the next pass, if there is room or it has been here.
    pub(super) fn keep(&self, bucket: Pair, edges: EdgeList) {
        let bytes = edges.len() as u64 * edge_bytes(edges.is_weighted());
        let mut state = locked(&self.0);
        if let Some(place) = state.buckets.get_mut(&bucket) {
            *place = Some(edges);
        } else if bytes <= state.room {
            state.room -= bytes;
            state.buckets.insert(bucket, Some(edges));
        }
    }
}
