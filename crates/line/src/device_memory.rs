//! Memory of a device: what tables take, what is left for edges, and the fewest parts for both.

use shardgraph_device::{Device, DeviceKind};

use crate::kernels::sgns::{AliasTable, EdgeList};
use crate::{Config, Error, Order, Store};

/// Share of the free memory that is left to others: kernels, their stacks, the driver.
const RESERVE: u64 = 16;

/// Edges of a bucket, at most: launches of more are no faster, and the host reads a bucket in one piece.
const MAX_BUCKET: u64 = 1 << 24;

/// Most parts that a store has.
const MAX_PARTS: u32 = 1024;

/// Memory of a device that is to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes that a run may take.
    bytes: u64,
    /// Bytes of the rows of a node.
    row_bytes: u64,
    /// Streams of a device that work on buckets side by side.
    n_streams: u64,
    /// Devices that share the tables.
    n_ranks: u64,
    /// Parts that keep all devices busy in most rounds.
    least_parts: u32,
}

impl DeviceMemory {
    /// Memory for a run with these settings; `None` for the host, and where nobody says what is free.
    ///
    /// # Errors
    /// The device's.
    pub fn of(device: &Device, config: &Config) -> Result<Option<DeviceMemory>, Error> {
        if device.kind() == DeviceKind::Host {
            return Ok(None);
        }
        let free = device.free_bytes()?.map(|free| free - free / RESERVE);
        let bytes = match (config.device_memory, free) {
            (Some(limit), Some(free)) => limit.min(free),
            (Some(bytes), None) | (None, Some(bytes)) => bytes,
            (None, None) => return Ok(None),
        };
        Ok(Some(DeviceMemory::new(bytes, config)))
    }

    pub(crate) fn new(bytes: u64, config: &Config) -> DeviceMemory {
        let n_tables = u64::from(config.order.each().iter().max().copied().unwrap_or(1));
        let n_streams = config.queues as u64;
        DeviceMemory {
            bytes,
            row_bytes: n_tables * config.row_bytes(),
            n_streams,
            n_ranks: config.ranks.into(),
            least_parts: match (config.ranks, config.order) {
                (1, _) => 1,
                (n_ranks, Order::Second) => n_ranks.next_power_of_two(),
                // A pair of parts has both ends of an edge.
                (n_ranks, _) => 2 * n_ranks.next_power_of_two(),
            },
        }
    }

    /// The fewest parts, a power of two, with which tables and edges fit; with which a bucket in
    /// flight on each stream fits, where not all edges do; those of the host where tables do not fit.
    ///
    /// A bucket is one launch: the fewer, the more samples are worked on at once.
    #[must_use]
    pub fn fewest_parts(&self, n_nodes: u32, n_edges: u64, is_weighted: bool) -> u32 {
        let room = self.bytes.saturating_sub(self.tables(n_nodes));
        let rows = 1u32 << n_nodes.clamp(1, MAX_PARTS).ilog2();
        let least = self.least_parts.min(rows).ilog2();
        let choices = || (least..=rows.ilog2()).map(|log| 1u32 << log);
        let bucket = |n_parts: u32| n_edges.div_ceil(u64::from(n_parts) * u64::from(n_parts));
        let is_small = |n_parts: &u32| bucket(*n_parts) <= MAX_BUCKET;
        let in_flight = |n_parts: u32| self.in_flight(bucket(n_parts), n_parts, is_weighted);
        let all = self.staying(EdgeList::bytes_of(n_edges, is_weighted));
        let fits = |n_parts: &u32| all.saturating_add(in_flight(*n_parts)) <= room;
        let streams = |n_parts: &u32| in_flight(*n_parts) <= room;
        let all_stay = choices().filter(is_small).find(fits);
        let some_stay = || choices().filter(is_small).find(streams);
        all_stay
            .or_else(some_stay)
            .unwrap_or_else(|| Store::default_parts(n_nodes))
    }

    /// Bytes for edges that stay between passes, beside tables and buckets in flight; `held_rows` are
    /// the bytes of rows in memory, where not all of them are.
    ///
    /// # Errors
    /// [`Error::Memory`] where those alone do not fit.
    pub(crate) fn room_for_edges(
        &self,
        store: &Store,
        held_rows: Option<u64>,
    ) -> Result<u64, Error> {
        let needed = self.needed(store, held_rows);
        self.bytes.checked_sub(needed).ok_or_else(|| {
            let cure = match held_rows {
                None => {
                    "take fewer columns, fp16, more parts, or a folder for the tables (`--work`)"
                }
                Some(_) => "take a smaller --memory-limit, or more parts",
            };
            Error::memory(format!(
                "tables and a bucket of each stream take {needed} bytes of the device's memory, \
                 {} are there: {cure}",
                self.bytes
            ))
        })
    }

    /// Bytes of tables and of buckets in flight.
    pub(crate) fn needed(&self, store: &Store, held_rows: Option<u64>) -> u64 {
        let largest = store.head.counts.iter().max().copied().unwrap_or(0);
        let tables = self.tables(store.n_nodes());
        let tables = held_rows.map_or(tables, |held| held.min(tables));
        tables.saturating_add(self.in_flight(largest, store.n_parts(), store.is_weighted()))
    }

    /// Bytes on a device of the rows of its parts, and of the negatives of all. Where devices share the
    /// tables, as many rows again may be on their way.
    fn tables(&self, n_nodes: u32) -> u64 {
        let rows = u64::from(n_nodes).saturating_mul(self.row_bytes);
        let rows = match self.n_ranks {
            1 => rows,
            n_ranks => rows.min(rows.saturating_mul(2).div_ceil(n_ranks)),
        };
        rows.saturating_add(self.n_streams * AliasTable::bytes_of(n_nodes.into()))
    }

    /// Bytes on a device of edges that stay: a bucket is where its vertex part is, which with the next
    /// pass may be the other one.
    fn staying(&self, edges: u64) -> u64 {
        match self.n_ranks {
            1 => edges,
            n_ranks => edges.min(edges.saturating_mul(2).div_ceil(n_ranks)),
        }
    }

    /// Bytes of buckets of `n_edges` edges in the order of a visit, one on each stream.
    fn in_flight(&self, n_edges: u64, n_parts: u32, is_weighted: bool) -> u64 {
        let n_buckets = u64::from(n_parts).min(self.n_streams);
        // The list as it came, the list in the order of this visit, and the next one, which comes meanwhile.
        let came = EdgeList::bytes_of(n_edges, is_weighted);
        let in_order = EdgeList::bytes_of(n_edges, false);
        n_buckets.saturating_mul(2 * came + in_order)
    }
}

impl Store {
    /// Default number of parts where `memory` is that of the device, if any: the fewest that fit
    /// there, or [`Store::default_parts`] on the host.
    #[must_use]
    pub fn parts_on(memory: Option<&DeviceMemory>, n_nodes: u32, n_edges: u64) -> u32 {
        match memory {
            Some(memory) => memory.fewest_parts(n_nodes, n_edges, false),
            None => Store::default_parts(n_nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 columns of fp32 in two tables and two streams: 48 B a node.
    fn memory(bytes: u64) -> DeviceMemory {
        let config = Config {
            dim: 4,
            ..Config::default()
        };
        DeviceMemory::new(bytes, &config)
    }

    #[test]
    fn parts_are_as_few_as_fit() {
        let (n_nodes, n_edges) = (1000, 10_000);
        let (tables, edges) = (48_000, 80_000);
        let parts = |bytes| memory(bytes).fewest_parts(n_nodes, n_edges, false);
        // One bucket: the list as it came, in its order, and the next, beside what stays.
        assert_eq!(parts(tables + edges + 240_000), 1);
        assert_eq!(parts(tables + edges + 239_999), 2); // 2 streams, 2500 edges each
        assert_eq!(parts(tables + edges + 120_000), 2);
        assert_eq!(parts(tables + edges + 119_999), 4);
        // The edges do not fit: two buckets of each stream do.
        assert_eq!(parts(tables + 79_999), 4);
        assert_eq!(parts(tables + 30_000), 4);
        assert_eq!(parts(tables + 29_999), 8);
        assert_eq!(parts(0), Store::default_parts(1000));
        assert_eq!(memory(u64::MAX).fewest_parts(0, 0, true), 1);
        assert_eq!(memory(u64::MAX).fewest_parts(1000, 1 << 32, false), 16);
        // Weights: 8 B an edge more, also in flight.
        let weighted = |bytes| memory(bytes).fewest_parts(n_nodes, n_edges, true);
        assert_eq!(weighted(tables + 160_000 + 400_000), 1);
        assert_eq!(weighted(tables + 160_000 + 399_999), 2);
    }
}
