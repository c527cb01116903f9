//! Visits: the order in which groups of parts are in memory together, and the swaps between them.
//!
//! Order 2 has vertex groups and context groups: some context groups stay pinned while the vertex
//! groups stream by, there and back. Order 1 has one table: the order of swaps is BETA's. Both need
//! far fewer loads than row by row. A passing group meets all pinned ones in one visit, so that
//! threads have work while the next group comes. The first and the last one meet them one by one,
//! because the pinned groups come and go one by one then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use shardgraph_error::words;

use crate::Error;

/// Groups that are in memory together, and whose parts meet.
///
/// A vertex group and context groups, or a group and others of the same table (or itself alone).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) group: u32,
    pub(crate) others: Vec<u32>,
}

impl Visit {
    /// With one other group.
    pub(crate) fn pair(group: u32, other: u32) -> Visit {
        let others = vec![other];
        Visit { group, others }
    }

    /// The groups that an order needs for it.
    pub(crate) fn keys(&self, order: u32) -> Vec<GroupKey> {
        let table = order - 1;
        let first = GroupKey {
            table: 0,
            group: self.group,
        };
        let others = self.others.iter().map(|&group| GroupKey { table, group });
        let others = others.filter(|&key| key != first);
        std::iter::once(first).chain(others).collect()
    }

    /// A visit with all of these groups, or one with each.
    fn of(group: u32, others: &[u32], is_one_by_one: bool) -> Vec<Visit> {
        match is_one_by_one {
            true => others.iter().map(|&o| Visit::pair(group, o)).collect(),
            false => vec![Visit {
                group,
                others: others.to_vec(),
            }],
        }
    }
}

/// The order of visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Pinned context groups and a snake of vertex groups for order 2, BETA for order 1.
    Auto,
    /// Row by row, for comparison.
    RowMajor,
}

words!(Schedule, Error, Error::setting, "schedule"; "auto" => Auto, "row-major" => RowMajor);

impl Schedule {
    /// The visits of a pass of an order, with `capacity` groups in memory at a time: at least 2.
    pub(crate) fn visits(self, order: u32, n_groups: u32, capacity: u32) -> Vec<Visit> {
        match (self, order) {
            (Schedule::Auto, 1) => beta(n_groups, capacity.max(2)),
            (Schedule::Auto, _) => pinned_snake(n_groups, capacity.max(2)),
            (Schedule::RowMajor, 1) => {
                let row = |i| (i..n_groups).map(move |j| Visit::pair(i, j));
                (0..n_groups).flat_map(row).collect()
            }
            (Schedule::RowMajor, _) => {
                let row = |i| (0..n_groups).map(move |j| Visit::pair(i, j));
                (0..n_groups).flat_map(row).collect()
            }
        }
    }
}

/// At most `capacity - 1` context groups stay while all vertex groups pass, up and down in turn.
///
/// Each turn pins about as many: the other places keep vertex groups from one turn to the next.
fn pinned_snake(n_groups: u32, capacity: u32) -> Vec<Visit> {
    let n_turns = n_groups.div_ceil(capacity - 1);
    let mut visits = Vec::new();
    for turn in 0..n_turns {
        let pinned = turn * n_groups / n_turns..(turn + 1) * n_groups / n_turns;
        let pinned: Vec<u32> = pinned.collect();
        for step in 0..n_groups {
            let vertex = if turn % 2 == 0 {
                step
            } else {
                n_groups - 1 - step
            };
            let is_at_an_end = step == 0 || step == n_groups - 1;
            visits.extend(Visit::of(vertex, &pinned, is_at_an_end));
        }
    }
    visits
}

/// `capacity - 1` groups stay while all others that are left pass; then they have met all others.
///
/// # Source
/// The BETA ordering of Mohoney et al., "Marius" (OSDI 2021), section 4.2.
fn beta(n_groups: u32, capacity: u32) -> Vec<Visit> {
    let mut left: Vec<u32> = (0..n_groups).collect();
    let mut visits = Vec::new();
    while !left.is_empty() {
        let n_fixed = left.len().min(capacity as usize - 1);
        let fixed: Vec<u32> = left.drain(..n_fixed).collect();
        for (at, &group) in fixed.iter().enumerate() {
            visits.push(Visit::pair(group, group));
            if at > 0 {
                visits.extend(Visit::of(group, &fixed[..at], false));
            }
        }
        for (number, &passing) in (1..).zip(&left) {
            visits.extend(Visit::of(passing, &fixed, number == left.len()));
        }
        // The last to pass is in memory: it is the first of the next to stay.
        if !left.is_empty() {
            left.rotate_right(1);
        }
    }
    visits
}

/// A group of a table's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    /// 0 is the vertex table, 1 the context table; order 1 has the first alone.
    pub(crate) table: u32,
    pub(crate) group: u32,
}

/// Groups that leave memory and groups that enter it before a visit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swap {
    pub(crate) evict: Vec<GroupKey>,
    pub(crate) load: Vec<GroupKey>,
}

impl Swap {
    /// True if nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.evict.is_empty() && self.load.is_empty()
    }
}

/// Swaps before each visit: the group that is wanted last goes first.
///
/// Of several that no visit wants any more, the one that was idle longest: it can go while earlier
/// visits are at work.
///
/// # Complexity
/// O(visits log groups) time, and capacity for each swap.
///
/// # Source
/// Belady, "A study of replacement algorithms for a virtual-storage computer" (1966): no other
/// choice loads less.
pub(crate) fn swaps(
    visits: &[Vec<GroupKey>],
    capacity: usize,
    resident: &mut Vec<GroupKey>,
) -> Vec<Swap> {
    let mut uses = Uses::of(visits);
    let mut last_use: BTreeMap<GroupKey, usize> = BTreeMap::new();
    let mut swaps = Vec::new();
    for (at, wanted) in visits.iter().enumerate() {
        let mut swap = Swap::default();
        let missing = wanted.iter().filter(|key| !resident.contains(key));
        swap.load.extend(missing);
        while !swap.load.is_empty() && resident.len() + swap.load.len() > capacity {
            let next = resident.iter().enumerate();
            let idle_since = |key| Reverse(last_use.get(key).map_or(0, |use_at| use_at + 1));
            let next = next.map(|(i, key)| (uses.next(*key, at), idle_since(key), *key, i));
            match next.max().filter(|&(next, ..)| next > at) {
                Some((.., last)) => swap.evict.push(resident.swap_remove(last)),
                None => break, // all are wanted by this visit
            }
        }
        resident.extend(&swap.load);
        last_use.extend(wanted.iter().map(|&key| (key, at)));
        swaps.push(swap);
    }
    swaps
}

/// Visits that want each group, in order.
struct Uses(BTreeMap<GroupKey, VecDeque<usize>>);

impl Uses {
    fn of(visits: &[Vec<GroupKey>]) -> Uses {
        let mut uses: BTreeMap<GroupKey, VecDeque<usize>> = BTreeMap::new();
        for (at, wanted) in visits.iter().enumerate() {
            for &key in wanted {
                uses.entry(key).or_default().push_back(at);
            }
        }
        Uses(uses)
    }

    /// The first visit from `at` on that wants a group; `at` never falls.
    fn next(&mut self, key: GroupKey, at: usize) -> usize {
        let Some(uses) = self.0.get_mut(&key) else {
            return usize::MAX;
        };
        while uses.front().is_some_and(|&visit| visit < at) {
            uses.pop_front();
        }
        uses.front().copied().unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn loads(schedule: Schedule, order: u32, n_groups: u32, capacity: u32) -> usize {
        let visits = schedule.visits(order, n_groups, capacity);
        let expected = if order == 1 {
            n_groups * (n_groups + 1) / 2
        } else {
            n_groups * n_groups
        };
        let pairs = visits
            .iter()
            .flat_map(|v| v.others.iter().map(|&o| (v.group, o)));
        let pairs = pairs.map(|(a, b)| match order {
            1 => (a.min(b), a.max(b)),
            _ => (a, b),
        });
        let (n_pairs, distinct) = (pairs.clone().count(), pairs.collect::<BTreeSet<_>>());
        assert_eq!(
            (n_pairs, distinct.len()),
            (expected as usize, expected as usize)
        );
        let wanted: Vec<Vec<GroupKey>> = visits.iter().map(|visit| visit.keys(order)).collect();
        assert!(
            wanted
                .iter()
                .all(|keys| keys.len() <= capacity.max(2) as usize)
        );
        let mut resident = Vec::new();
        let swaps = swaps(&wanted, capacity as usize, &mut resident);
        assert!(resident.len() <= capacity as usize);
        swaps.iter().map(|swap| swap.load.len()).sum()
    }

    /// Against counts of an independent simulation, with the same replacement.
    #[test]
    fn loads_are_not_above_those_of_the_published_orders() {
        for (n_groups, capacity, row, pinned) in [
            (8, 4, 56, 30),
            (16, 8, 176, 60),
            (32, 8, 864, 188),
            (32, 16, 608, 118),
        ] {
            assert_eq!(loads(Schedule::RowMajor, 2, n_groups, capacity), row);
            let found = loads(Schedule::Auto, 2, n_groups, capacity);
            assert!(found <= pinned, "p = {n_groups}, c = {capacity}: {found}");
        }
        for (n_groups, capacity, beta) in [(8, 4, 13), (16, 4, 46), (16, 8, 25), (32, 8, 86)] {
            let found = loads(Schedule::Auto, 1, n_groups, capacity);
            assert_eq!(found, beta, "p = {n_groups}, c = {capacity}");
        }
    }

    /// The groups that the plans of docs/method/line.md for 1.8 G edges load in the first pass, and in the
    /// second, which goes back.
    #[test]
    fn the_plans_of_the_page_load_what_it_says() {
        for (n_groups, capacity, expected) in [(64, 11, [501, 490]), (8, 10, [16, 6])] {
            let mut visits = Schedule::Auto.visits(2, n_groups, capacity);
            let mut resident = Vec::new();
            for expected in expected {
                let wanted: Vec<Vec<GroupKey>> = visits.iter().map(|visit| visit.keys(2)).collect();
                let swaps = swaps(&wanted, capacity as usize, &mut resident);
                let n_loads: usize = swaps.iter().map(|swap| swap.load.len()).sum();
                assert_eq!(n_loads, expected, "{n_groups} groups");
                visits.reverse();
            }
        }
    }

    /// Threads meet between visits: a group that passes by meets all that are pinned in one, but at
    /// the ends, where those come and go.
    #[test]
    fn who_passes_by_meets_all_that_are_pinned_at_once() {
        let n_others = |order, capacity| -> Vec<usize> {
            let visits = Schedule::Auto.visits(order, 5, capacity);
            visits.iter().map(|visit| visit.others.len()).collect()
        };
        // Two turns: two pinned, then three; the first and the last of five meet them one by one.
        let two_turns = [1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 3, 3, 3, 1, 1, 1];
        assert_eq!(n_others(2, 4), two_turns);
        // Three stay, each with itself and those before it; the fourth passes by, and the fifth one
        // by one. Then these two.
        assert_eq!(n_others(1, 4), [1, 1, 1, 1, 2, 3, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn all_is_loaded_once_where_all_fits() {
        assert_eq!(loads(Schedule::Auto, 1, 4, 4), 4);
        assert_eq!(loads(Schedule::Auto, 2, 4, 8), 8);
        assert_eq!(loads(Schedule::Auto, 2, 1, 2), 2);
        assert_eq!(loads(Schedule::Auto, 1, 1, 2), 1);
    }
}
