//! Where the tables of a large run are, and how much of them is in memory at a time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;
use crate::{Config, Error, ErrorKind, Precision, Store};

/// How a run with its tables on disk goes.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskOptions {
    /// What the run may hold in memory, in bytes.
    pub memory: u64,
    /// In which order groups of parts are visited.
    pub schedule: Schedule,
    /// Seconds between two states that a killed run can go on from; 0: after every step.
    pub checkpoint_s: f64,
    /// The longest wait for the disk.
    pub deadline: Duration,
}

impl Default for DiskOptions {
    /// 4 GiB, the schedules with few loads, a state a minute, ten minutes.
    fn default() -> DiskOptions {
        DiskOptions {
            memory: 4 << 30,
            schedule: Schedule::Auto,
            checkpoint_s: 60.0,
            deadline: Duration::from_secs(600),
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
    /// Groups in memory that are worked on or wait for it; one more is on its way in, and one on its way out.
    pub(crate) capacity: u32,
}

impl Layout {
    /// Everything in memory.
    pub(crate) const WHOLE: Layout = Layout {
        schedule: Schedule::Auto,
        n_groups: 1,
        capacity: 2,
    };

    /// The fewest groups with which a run keeps to its memory.
    pub(crate) fn new(
        store: &Store,
        config: &Config,
        options: &DiskOptions,
    ) -> Result<Layout, Error> {
        let fixed = fixed_bytes(store);
        let cell = match config.precision {
            Precision::Fp32 => 4,
            Precision::Fp16 => 2,
        };
        let table = u64::from(store.n_nodes()) * config.dim as u64 * cell;
        let left = options.memory.saturating_sub(fixed);
        let schedule = options.schedule;
        if 2 * table <= left {
            return Ok(Layout {
                schedule,
                ..Layout::WHOLE
            });
        }
        let choices = (1..=store.n_parts().ilog2()).map(|log| 1 << log);
        for n_groups in choices {
            let group = table.div_ceil(u64::from(n_groups)).max(1);
            let n_places = left / group;
            if n_places >= 4 {
                let capacity = (n_places - 2).min(2 * u64::from(n_groups)) as u32;
                return Ok(Layout {
                    schedule,
                    n_groups,
                    capacity,
                });
            }
        }
        let least = fixed + 4 * table.div_ceil(u64::from(store.n_parts()));
        let message = format!(
            "memory = {}: this graph in {} parts takes {least} bytes: raise the limit, or import it in more parts",
            options.memory,
            store.n_parts()
        );
        Err(Error::new(ErrorKind::Memory, message))
    }
}

/// What a run holds besides rows: the store's head, the tables of negatives, and a bucket for each part in the three forms that it
/// goes through. (For each part and not for each thread: the layout, and with it the result, must not depend on threads.)
fn fixed_bytes(store: &Store) -> u64 {
    let n_parts = store.n_parts();
    let buckets = (0..n_parts).flat_map(|i| (0..n_parts).map(move |j| (i, j)));
    let largest = buckets
        .map(|(i, j)| store.n_samples(i, j))
        .max()
        .unwrap_or(0);
    let bytes_per_edge = if store.is_weighted() { 48 } else { 24 };
    let negatives = 8 * u64::from(store.n_nodes());
    store.head.held_bytes() + negatives + u64::from(n_parts) * largest * bytes_per_edge
}
