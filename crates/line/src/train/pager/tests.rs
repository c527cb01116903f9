//! What a pager moves ahead of time, and what it leaves where it is.

use super::*;
use crate::Order;
use crate::train::tests::{small, two_communities};

/// What the moves are in a stay with `current`, with the swap of one visit to come: rows of these groups are on disk, this one on its way in.
fn moves(
    current: &[Key],
    (put_away, load): (&[Key], &[Key]),
    (on_disk, expected): (&[Key], Option<Key>),
) -> Vec<Move> {
    let folder = tempfile::tempdir().unwrap();
    let store = two_communities(64, 8);
    let (config, device) = (small(Order::Second), Device::host());
    let layout = Layout {
        n_groups: 4,
        capacity: 4,
        ..Layout::WHOLE
    };
    let mut journal = Journal::open(folder.path(), &store, &config, layout).unwrap();
    for key in on_disk {
        journal.new_file((2, key.0, key.1));
    }
    let mut used = DiskUse::default();
    let job = (&store, &device, &config);
    let state = (&mut journal, &mut used);
    let deadline = Duration::from_secs(60);
    let mut pager = Pager::<f32>::on_disk(job, 2, layout, state, deadline).unwrap();
    let paging = pager.paging.as_mut().unwrap();
    paging.current = current.to_vec();
    paging.expected.extend(expected);
    let swap = Swap {
        put_away: put_away.to_vec(),
        load: load.to_vec(),
    };
    let wanted = vec![(0, 3), (1, 3)];
    paging.visits = [Planned { wanted, swap }].into();
    std::iter::from_fn(|| paging.next_move(2)).collect()
}

#[test]
fn swaps_begin_while_the_groups_before_are_at_work() {
    let (idle, wanted, next) = ((0, 1), (0, 0), (0, 3));
    let current = [wanted, (1, 0)];
    // What nobody wants goes at once, and what comes is asked for behind it.
    let all = moves(&current, (&[idle], &[next]), (&[next], None));
    assert_eq!(all, [Move::PutAway(idle), Move::Load(next)]);
    // What is at work stays; the next has a place before.
    let all = moves(&current, (&[wanted], &[next]), (&[next], None));
    assert_eq!(all, [Move::Load(next)]);
    // One place, not two.
    let more = [next, (1, 3)];
    let all = moves(&current, (&[wanted, (1, 0)], &more), (&more, None));
    assert_eq!(all, [Move::Load(next)]);
    // What is on its way in cannot go.
    let all = moves(&current, (&[idle], &[next]), (&[next], Some(idle)));
    assert_eq!(all, [Move::Load(next)]);
    // Free places are filled.
    let all = moves(&current, (&[], &more), (&more, None));
    assert_eq!(all, more.map(Move::Load));
    // What was never written is made when it is wanted.
    assert_eq!(moves(&current, (&[], &[next]), (&[], None)), []);
}
