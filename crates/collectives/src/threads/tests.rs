//! A rank that leaves while a peer is at its buffer: it waits for that peer, whatever the reason
//! for either to stop.

mod model;

use super::published::{RankHandle, rank_handles};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long enough that an owner that did not wait would be gone.
const WORK: Duration = Duration::from_millis(50);

fn pair() -> (RankHandle, RankHandle) {
    let mut rank_handles = rank_handles(2).into_iter();
    let (owner, peer) = (rank_handles.next(), rank_handles.next());
    (owner.expect("rank 0"), peer.expect("rank 1"))
}

/// Rank 1 lends a buffer too, begins to change its parts, and takes its time; then `finish` runs.
fn peer_at_work(mut peer: RankHandle, begun: mpsc::Sender<()>, done: &AtomicBool, finish: fn()) {
    let mut buf = [10u32; 4];
    let _ = catch_unwind(AssertUnwindSafe(|| {
        peer.lend(&mut buf, |mut view| {
            let worked = view.change::<u32, _>(|parts| {
                begun.send(()).expect("the owner waits for it");
                thread::sleep(WORK);
                parts[0].fill(7);
                done.store(true, SeqCst);
                finish();
            });
            worked.expect("both buffers are there");
        });
    }));
}

/// The owner lends a buffer until the peer is at it, and then leaves by `leave`.
fn owner_leaves(leave: fn(), finish: fn()) {
    let (mut owner, peer) = pair();
    let done = AtomicBool::new(false);
    let (begun, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        let mut buf = [1u32; 4];
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            owner.lend(&mut buf, |_| {
                scope.spawn(|| peer_at_work(peer, begun, &done, finish));
                has_begun.recv_timeout(WORK * 100).expect("the peer comes");
                leave();
            });
        }));
        assert!(
            done.load(SeqCst),
            "the owner left before the peer: {outcome:?}"
        );
        assert_eq!(buf, [1, 1, 7, 7]);
    });
}

#[test]
fn an_owner_waits_for_a_peer_at_work() {
    owner_leaves(|| (), || ());
}

#[test]
fn an_owner_that_panics_waits_as_well() {
    owner_leaves(|| panic!("the owner fails"), || ());
}

#[test]
fn a_peer_that_panics_lets_the_owner_go() {
    owner_leaves(|| (), || panic!("the peer fails"));
}

#[test]
fn what_is_not_there_or_not_alike_is_refused() {
    let (mut owner, mut peer) = pair();
    assert!(peer.view().read::<u32, _>(0..1, |_| ()).is_err());
    owner.show(&[1u32, 2], |_| {
        assert_eq!(
            peer.view().read::<u32, _>(0..1, |all| all[0].to_vec()).ok(),
            Some(vec![1, 2])
        );
        assert!(
            peer.view().read::<f32, _>(0..1, |_| ()).is_err(),
            "another type"
        );
        assert!(
            peer.view().read::<u32, _>(0..2, |_| ()).is_err(),
            "one is missing"
        );
        let changed = peer.lend(&mut [0u32; 2], |mut view| {
            view.change::<u32, _>(|_| ()).is_ok()
        });
        assert!(!changed, "the owner only shows its buffer");
    });
    assert!(peer.view().read::<u32, _>(0..1, |_| ()).is_err());
    owner.lend(&mut [0u32; 3], |_| {
        assert!(
            peer.view().read::<u32, _>(0..1, |_| ()).is_err(),
            "nobody may read what others change"
        );
        let longer = peer.lend(&mut [0u32; 4], |mut view| {
            view.change::<u32, _>(|_| ()).is_ok()
        });
        assert!(!longer, "the lengths differ");
    });
}
