//! Swaps that begin ahead of time, and groups that stay.

use std::time::Duration;

use shardgraph_device::Device;

use super::*;
use crate::Order;
use crate::schedule::{Layout, Swap};
use crate::train::checkpoint::TableCheckpoint;
use crate::train::disk_backing::PlannedVisit;
use crate::train::tests::{context, small, two_communities};

/// A swap of one visit to come, and where its groups are.
struct Case<'c> {
    evict: &'c [GroupKey],
    load: &'c [GroupKey],
    /// Groups that were written.
    on_disk: &'c [GroupKey],
    /// A group that is on its way in.
    loading: Option<GroupKey>,
}

/// Moves during a visit of the groups `current`.
fn moves(current: &[GroupKey], case: Case<'_>) -> Vec<Move> {
    let folder = tempfile::tempdir().unwrap();
    let store = two_communities(64, 8);
    let (config, device) = (small(Order::Second), Device::host());
    let run = RunContext {
        layout: Layout {
            n_groups: 4,
            capacity: 4,
            ..Layout::WHOLE
        },
        ..context(&store, &config, &device)
    };
    let (mut checkpoint, _recorder) = TableCheckpoint::open(folder.path(), None, &run).unwrap();
    for &GroupKey { table, group } in case.on_disk {
        checkpoint.new_file(TableKey {
            order: 2,
            table,
            group,
        });
    }
    let disk = DiskBacking::<f32>::start(&run, checkpoint, Duration::from_secs(60));
    let mut disk = disk.unwrap();
    disk.begin_order(2);
    disk.current = current.to_vec();
    disk.loading.extend(case.loading);
    let swap = Swap {
        evict: case.evict.to_vec(),
        load: case.load.to_vec(),
    };
    let wanted = vec![key(0, 3), key(1, 3)];
    disk.visits = [PlannedVisit { wanted, swap }].into();
    std::iter::from_fn(|| disk.next_move()).collect()
}

fn case<'c>(
    evict: &'c [GroupKey],
    load: &'c [GroupKey],
    on_disk: &'c [GroupKey],
    loading: Option<GroupKey>,
) -> Case<'c> {
    Case {
        evict,
        load,
        on_disk,
        loading,
    }
}

fn key(table: u32, group: u32) -> GroupKey {
    GroupKey { table, group }
}

#[test]
fn swaps_begin_while_the_groups_before_are_at_work() {
    let (idle, wanted, next) = (key(0, 1), key(0, 0), key(0, 3));
    let current = [wanted, key(1, 0)];
    // What nobody wants goes at once, and what comes is asked for behind it.
    let all = moves(&current, case(&[idle], &[next], &[next], None));
    assert_eq!(all, [Move::Evict(idle), Move::Load(next)]);
    // What is at work stays; the next has a place before.
    let all = moves(&current, case(&[wanted], &[next], &[next], None));
    assert_eq!(all, [Move::Load(next)]);
    // One place, not two.
    let more = [next, key(1, 3)];
    let all = moves(&current, case(&[wanted, key(1, 0)], &more, &more, None));
    assert_eq!(all, [Move::Load(next)]);
    // What is on its way in cannot go.
    let all = moves(&current, case(&[idle], &[next], &[next], Some(idle)));
    assert_eq!(all, [Move::Load(next)]);
    // Free places are filled.
    let all = moves(&current, case(&[], &more, &more, None));
    assert_eq!(all, more.map(Move::Load));
    // What was never written is made when it is wanted.
    assert_eq!(moves(&current, case(&[], &[next], &[], None)), []);
}
