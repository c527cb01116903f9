//! The end of a world, seen without an operation: by ranks that wait for something else.

use crate::faults::Gate;
use crate::world::patient;
use shardgraph_collectives::{
    Comm, CommError, CommErrorKind, Op, Reduction, Timeout, Watch, tcp, threads,
};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::thread;
use std::time::Duration;

type Run = fn(u32, &(dyn Fn(Comm) -> String + Sync)) -> Vec<Result<String, CommError>>;

const WORLDS: [Run; 2] = [|n, f| threads::run(n, f), |n, f| tcp::run(n, f)];

/// Looks until there is something to see; gives up long before anybody's patience ends.
fn first_sight(watch: &Watch) -> String {
    for _ in 0..10_000 {
        if let Some(failure) = watch.failure() {
            assert!(matches!(failure.kind(), CommErrorKind::Aborted { .. }));
            return failure.to_string();
        }
        thread::sleep(Duration::from_millis(1));
    }
    "nothing".to_string()
}

fn meet(comm: &mut Comm) {
    comm.run(Op::Barrier, patient()).expect("all ranks come");
}

/// A panic's message comes later than the end of its communicator.
struct SlowToUnwind;

impl Drop for SlowToUnwind {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_gave_up_or_was_lost_is_seen_by_all() {
    for run in WORLDS {
        for (panics, want) in [
            (false, "aborted by rank 1: disk full"),
            (true, "rank 1 was lost (rank 1 panicked: disk full)"),
        ] {
            // A rank may be out of the barrier before another one is.
            let gate = Gate::default();
            let seen = run(3, &|comm| {
                let _slow = SlowToUnwind;
                let mut comm = comm; // dropped before the thread has unwound
                let watch = comm.watch();
                assert!(watch.failure().is_none() && comm.failure().is_none());
                meet(&mut comm);
                gate.count();
                if comm.rank() == 1 {
                    gate.wait_for(3);
                    match panics {
                        true => panic_any("disk full"),
                        false => comm.abort("disk full"),
                    }
                }
                let text = first_sight(&watch);
                assert!(comm.failure().is_some());
                text
            });
            for rank in [0, 2] {
                let text = seen[rank].as_ref().unwrap();
                assert!(text.contains(want), "rank {rank}: {text}");
            }
        }
    }
}

/// A rank that has done its part and leaves is no failure, and a watch outlives its communicator.
#[test]
fn a_rank_that_leaves_in_order_is_no_failure() {
    for run in WORLDS {
        let gate = Gate::default();
        let seen = run(2, &|mut comm| {
            let watch = comm.watch();
            meet(&mut comm);
            if comm.rank() == 1 {
                drop(comm);
                gate.count();
                gate.wait_for(2);
            } else {
                gate.wait_for(1);
                thread::sleep(Duration::from_millis(20)); // for the news, if it were any
                let failure = comm.failure();
                gate.count();
                assert!(failure.is_none(), "{failure:?}");
            }
            format!("{:?}", watch.failure())
        });
        for text in seen {
            assert_eq!(text.unwrap(), "None");
        }
    }
}

#[test]
fn an_error_of_this_rank_is_its_failure_and_alone_there_is_none() {
    let mut comm = Comm::solo();
    assert!(comm.failure().is_none() && comm.watch().failure().is_none());
    let mut byte = [0u8; 1];
    let op = Op::Broadcast {
        buf: (&mut byte).into(),
        root: 7,
    };
    let error = comm.run(op, patient()).unwrap_err();
    let failure = comm.failure().unwrap().to_string();
    let what = error.kind().to_string();
    assert!(failure.contains(&what), "{failure}");
}

/// Ranks of threads that catch a panic themselves, and have dropped their communicator by it, are
/// not waited for.
#[test]
fn a_panic_that_is_caught_on_the_way_is_told_at_once() {
    let n_out = Gate::default();
    let results = threads::run(3, |mut comm| {
        let is_it = comm.rank() == 1;
        let ended = catch_unwind(AssertUnwindSafe(move || {
            assert!(!is_it, "caught on the way");
            let mut buf = [1u32; 3];
            let op = Op::AllReduce {
                buf: (&mut buf).into(),
                reduction: Reduction::Sum,
            };
            comm.run(op, Timeout::after(Duration::from_secs(20)))
        }));
        n_out.count();
        n_out.wait_for(3); // so rank 1 does not return before the others have heard of it
        ended.map_err(|_| "panicked")
    });
    assert_eq!(results[1].as_ref().unwrap(), &Err("panicked"));
    for rank in [0, 2] {
        let error = results[rank].as_ref().unwrap().as_ref().unwrap();
        let error = error.as_ref().unwrap_err();
        let is_told = matches!(error.kind(), CommErrorKind::PeerLost { rank: Some(1), why, .. } if why == "its thread panicked");
        assert!(is_told, "{error}");
    }
}
