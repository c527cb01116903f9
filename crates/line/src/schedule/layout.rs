//! Layout: the groups of parts with which a run keeps to its memory.

use serde::{Deserialize, Serialize};
use shardgraph_storage::direct::BounceBuffer;

use super::visits::{GroupKey, Schedule, swaps};
use crate::kernels::sgns::AliasTable;
use crate::{Config, DiskOptions, Error, Store};

/// Groups of the tables' parts, and how many of them are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    pub(crate) schedule: Schedule,
    /// Groups of each table.
    pub(crate) n_groups: u32,
    /// Groups in memory that are in use or wait for it; one more is on its way in or out.
    pub(crate) capacity: u32,
}

impl Layout {
    /// Everything in memory.
    pub(crate) const WHOLE: Layout = Layout {
        schedule: Schedule::Auto,
        n_groups: 1,
        capacity: 2,
    };

    /// The groups with which a run keeps to its memory and moves the fewest bytes.
    pub(crate) fn new(
        store: &Store,
        config: &Config,
        options: &DiskOptions,
    ) -> Result<Layout, Error> {
        let table = u64::from(store.n_nodes()) * config.row_bytes();
        let fixed = |n_groups: u32| options.program_bytes + fixed_bytes(store, n_groups);
        let room = |n_groups| options.memory.saturating_sub(fixed(n_groups));
        let schedule = options.schedule;
        let most_tables = config.order.each().iter().max().copied().unwrap_or(1);
        if u64::from(most_tables) * table <= room(1) {
            return Ok(Layout {
                schedule,
                ..Layout::WHOLE
            });
        }
        let choices = (1..=store.n_parts().ilog2()).map(|log| 1 << log);
        let feasible = choices.filter_map(|n_groups| {
            let group = table.div_ceil(u64::from(n_groups)).max(1);
            let n_places = room(n_groups) / group;
            let capacity = n_places.saturating_sub(1).min(2 * u64::from(n_groups)) as u32;
            (n_places >= 3).then_some(Layout {
                schedule,
                n_groups,
                capacity,
            })
        });
        let feasible: Vec<Layout> = feasible.collect();
        // As many jobs go on at a time as a group has parts.
        let has_jobs = |layout: &&Layout| layout.n_groups * JOBS <= store.n_parts();
        let with_jobs = feasible.iter().filter(has_jobs).take(CHOICES);
        let best = with_jobs.min_by_key(|layout| layout.moved_bytes(config, table));
        // Else the fewest groups, for the most jobs.
        best.or(feasible.first()).copied().ok_or_else(|| {
            let part = table.div_ceil(u64::from(store.n_parts()));
            let least = fixed(store.n_parts()) + 3 * part;
            let message = format!(
                "memory = {}: this graph in {} parts takes {least} bytes: raise the limit, \
                 or import it in more parts",
                options.memory,
                store.n_parts()
            );
            Error::memory(message)
        })
    }

    /// Bytes of groups that a pass of all orders loads, from an empty memory.
    fn moved_bytes(self, config: &Config, table: u64) -> u64 {
        let group = table.div_ceil(u64::from(self.n_groups));
        let loads = config.order.each().iter().map(|&order| {
            let visits = self.schedule.visits(order, self.n_groups, self.capacity);
            let wanted: Vec<Vec<GroupKey>> = visits.iter().map(|visit| visit.keys(order)).collect();
            let swaps = swaps(&wanted, self.capacity as usize, &mut Vec::new());
            swaps.iter().map(|swap| swap.load.len() as u64).sum::<u64>()
        });
        loads.sum::<u64>() * group
    }
}

/// Layouts that are compared: beyond, the comparison would take longer than it saves.
const CHOICES: usize = 4;

/// Least parts of a group, where there are enough: threads take the pairs of a step's parts in
/// turn, and one pair would leave all threads but one idle. A constant, since the result must not
/// depend on threads.
const JOBS: u32 = 4;

/// Bytes of a run besides rows.
///
/// The store's head, the tables of negatives, the I/O thread's bounce buffer, and a bucket for each
/// job of a step in the three forms that it goes through. (For each job and not for each thread:
/// the layout, and with it the result, must not depend on threads.)
pub(crate) fn fixed_bytes(store: &Store, n_groups: u32) -> u64 {
    let largest = store.head.counts.iter().max().copied().unwrap_or(0);
    let bytes_per_edge = if store.is_weighted() { 48 } else { 24 };
    let negatives = AliasTable::bytes_of(store.n_nodes().into());
    let n_jobs = u64::from(store.n_parts().div_ceil(n_groups));
    store.head.held_bytes()
        + negatives
        + BounceBuffer::LEN as u64
        + n_jobs * largest * bytes_per_edge
}
