//! Where the tables of a large run are, and how much of them is in memory at a time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::direct::Bounce;
use crate::schedule::{Key, Schedule, swaps};
use crate::{Config, Error, ErrorKind, Store};

/// How a run with its tables on disk goes.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskOptions {
    /// What the process may hold in memory, in bytes.
    pub memory: u64,
    /// What of it the process holds besides the run: its code, its stacks, what its allocator keeps.
    pub program_bytes: u64,
    /// In which order groups of parts are visited.
    pub schedule: Schedule,
    /// Seconds between two states that a killed run can go on from, and at least ten times what the last one took; 0: after every step.
    pub checkpoint_s: f64,
    /// The longest wait for the disk.
    pub deadline: Duration,
}

impl Default for DiskOptions {
    /// 4 GiB and nothing besides the run, the schedules with few loads, a state a minute, ten minutes.
    fn default() -> DiskOptions {
        DiskOptions {
            memory: 4 << 30,
            program_bytes: 0,
            schedule: Schedule::Auto,
            checkpoint_s: 60.0,
            deadline: Duration::from_secs(600),
        }
    }
}

impl DiskOptions {
    /// Refuses what is out of range.
    ///
    /// # Errors
    /// [`ErrorKind::Config`], which names the setting.
    pub fn check(&self) -> Result<(), Error> {
        if self.checkpoint_s.is_nan() || self.checkpoint_s < 0.0 {
            let expected = "a number of 0 or more";
            let found = self.checkpoint_s;
            return Err(Error::config("checkpoint_seconds", found, expected));
        }
        match self.deadline.is_zero() {
            true => Err(Error::config("deadline", 0, "a time above 0")),
            false => Ok(()),
        }
    }
}

impl DiskOptions {
    /// Seconds until the next state, where the last one took so many: a run is not to spend more than a tenth of its time on them.
    pub(super) fn pause_after(&self, took_s: f64) -> f64 {
        match self.checkpoint_s > 0.0 {
            true => self.checkpoint_s.max(10.0 * took_s),
            false => 0.0,
        }
    }
}

/// How tables are cut for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    pub(crate) schedule: Schedule,
    /// Groups of each table.
    pub(crate) n_groups: u32,
    /// Groups in memory that are worked on or wait for it; one more is on its way in or out.
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
                "memory = {}: this graph in {} parts takes {least} bytes: raise the limit, or import it in more parts",
                options.memory,
                store.n_parts()
            );
            Error::new(ErrorKind::Memory, message)
        })
    }

    /// Bytes of groups that a pass of all orders loads, from an empty memory.
    fn moved_bytes(self, config: &Config, table: u64) -> u64 {
        let group = table.div_ceil(u64::from(self.n_groups));
        let loads = config.order.each().iter().map(|&order| {
            let visits = self.schedule.visits(order, self.n_groups, self.capacity);
            let wanted: Vec<Vec<Key>> = visits.iter().map(|visit| visit.keys(order)).collect();
            let swaps = swaps(&wanted, self.capacity as usize, &mut Vec::new());
            swaps.iter().map(|swap| swap.load.len() as u64).sum::<u64>()
        });
        loads.sum::<u64>() * group
    }
}

/// Layouts that are compared: beyond, groups are so many that finding out would take longer than it saves.
const CHOICES: usize = 4;

/// Parts of a group at least, where there are so many: threads take the pairs of a step's parts in turn, and one pair would leave all of
/// them but one without work. A constant, since the result must not depend on threads.
const JOBS: u32 = 4;

/// What a run holds besides rows: the store's head, the tables of negatives, what the disk's thread transfers through, and a bucket for
/// each job of a step in the three forms that it goes through. (For each job and not for each thread: the layout, and with it the result,
/// must not depend on threads.)
pub(super) fn fixed_bytes(store: &Store, n_groups: u32) -> u64 {
    let largest = store.head.counts.iter().max().copied().unwrap_or(0);
    let bytes_per_edge = if store.is_weighted() { 48 } else { 24 };
    let negatives = 8 * u64::from(store.n_nodes());
    let n_jobs = u64::from(store.n_parts().div_ceil(n_groups));
    store.head.held_bytes() + negatives + Bounce::LEN as u64 + n_jobs * largest * bytes_per_edge
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_take_a_tenth_of_the_time_at_most() {
        let options = |checkpoint_s| DiskOptions {
            checkpoint_s,
            ..DiskOptions::default()
        };
        for (asked, took, pause) in [
            (60.0, 0.5, 60.0),
            (60.0, 6.0, 60.0),
            (60.0, 90.0, 900.0),
            (0.5, 1.0, 10.0),
            (0.0, 90.0, 0.0), // after every step, whatever it costs
        ] {
            let found = options(asked).pause_after(took);
            assert!((found - pause).abs() < 1e-9, "{asked} {took}: {found}");
        }
    }
}
