//! Layout: the groups of parts with which a run keeps to its memory.

use serde::{Deserialize, Serialize};

use super::visits::{GroupKey, Schedule, Visit, swaps};
use crate::Config;

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

    /// Bytes of groups of `group` bytes that a pass of all orders loads, from an empty memory.
    pub(crate) fn moved_bytes(self, config: &Config, group: u64) -> u64 {
        let loads = config.order.each().iter().map(|&order| {
            let visits = self.visits(order).into_iter();
            let wanted: Vec<Vec<GroupKey>> = visits.map(|visit| visit.keys(order)).collect();
            let swaps = swaps(&wanted, self.capacity as usize, &mut Vec::new());
            swaps.iter().map(|swap| swap.load.len() as u64).sum::<u64>()
        });
        loads.sum::<u64>() * group
    }

    /// The visits of a pass of an order.
    pub(crate) fn visits(self, order: u32) -> Vec<Visit> {
        (self.schedule).visits(order, self.n_groups, self.capacity)
    }
}
