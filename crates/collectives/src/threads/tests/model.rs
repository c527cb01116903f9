//! The barrier and the slots under every schedule of two and three ranks with few preemptions, in
//! one round or two.
//!
//! This module compiles `barrier.rs` and `published.rs` once more, on primitives (`sync`) that hand
//! the processor from thread to thread as `explore` says. That runs a scenario again and again
//! until every choice of "who runs next" has been tried, up to a number of preemptions; a deadlock
//! is a lost wake-up. What it does not see is the reordering of relaxed accesses: all are
//! sequentially consistent here.

mod explore;
mod sync;

#[allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "the same source on other primitives; the scenarios use a part of it"
)]
#[path = "../barrier.rs"]
mod barrier;
#[allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "the same source on other primitives; the scenarios use a part of it"
)]
#[path = "../published.rs"]
mod published;

use super::super::backoff::{self, Backoff};
use crate::error::CommErrorKind;
use crate::op::{Call, OpKind, Reduction};
use crate::rank_end::{Cause, RankEnd};
use crate::timeout::Timeout;
use barrier::{Barrier, Wait};
use explore::{Body, explore, point};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

type Outcome = Result<(), CommErrorKind>;

/// What each rank got in each of its rounds, in order.
type Outcomes = Arc<Mutex<Vec<(u32, u64, Outcome)>>>;

fn patient() -> Timeout {
    Timeout::default()
}

/// Expires at any moment.
fn hasty() -> Timeout {
    Timeout::after(Duration::from_nanos(1))
}

fn call(rank: u32, seq: u64) -> Call {
    Call::new(rank, seq, OpKind::Barrier)
}

fn wait<'a>(call: &'a Call, timeout: Timeout, backoff: &'a Backoff) -> Wait<'a> {
    Wait {
        backoff,
        round: call.seq,
        call,
        timeout,
    }
}

fn record(outcomes: &Outcomes, rank: u32, round: u64, outcome: &Outcome) {
    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    outcomes.push((rank, round, outcome.clone()));
}

/// A rank that meets the others until it fails.
fn rank(
    barrier: &Arc<Barrier>,
    outcomes: &Outcomes,
    rank: u32,
    n_rounds: u64,
    timeout: Timeout,
) -> Body {
    let (barrier, outcomes) = (Arc::clone(barrier), Arc::clone(outcomes));
    Box::new(move || {
        let backoff = Backoff::default();
        for round in 0..n_rounds {
            let call = call(rank, round);
            let outcome = barrier.meet(wait(&call, timeout, &backoff));
            record(&outcomes, rank, round, &outcome);
            if outcome.is_err() {
                return;
            }
        }
    })
}

fn taken(outcomes: &Outcomes) -> Vec<(u32, u64, Outcome)> {
    std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A round is over for all ranks or for none.
fn check_agreement(outcomes: &[(u32, u64, Outcome)], n_ranks: usize) {
    for round in 0..8 {
        let of_round = outcomes.iter().filter(|(_, at, _)| *at == round);
        let n_done = of_round.filter(|(_, _, outcome)| outcome.is_ok()).count();
        assert!(
            n_done == 0 || n_done == n_ranks,
            "round {round}: {outcomes:?}"
        );
    }
}

/// No wake-up is lost, and no header is compared with one of another round.
#[test]
fn ranks_meet_under_every_schedule() {
    for (n_ranks, n_rounds, preemptions) in [(2u32, 2, 3), (3, 1, 2)] {
        let n_runs = explore(preemptions, || {
            let (barrier, outcomes) = (Arc::new(Barrier::new(n_ranks)), Outcomes::default());
            let ranks = (0..n_ranks).map(|r| rank(&barrier, &outcomes, r, n_rounds, patient()));
            let bodies = ranks.collect();
            let check = move || {
                let outcomes = taken(&outcomes);
                assert_eq!(outcomes.len(), n_ranks as usize * n_rounds as usize);
                assert!(
                    outcomes.iter().all(|(_, _, outcome)| outcome.is_ok()),
                    "{outcomes:?}"
                );
            };
            (bodies, Box::new(check))
        });
        assert!(n_runs > 100, "{n_runs}");
    }
}

/// Deadlines that expire at any moment: all ranks complete a round or none, one gives up, and it
/// names who is missing.
#[test]
fn deadlines_expire_at_any_moment() {
    for (n_ranks, n_rounds, preemptions) in [(2u32, 2, 3), (3, 1, 1)] {
        explore(preemptions, || {
            let (barrier, outcomes) = (Arc::new(Barrier::new(n_ranks)), Outcomes::default());
            let ranks = (0..n_ranks).map(|r| rank(&barrier, &outcomes, r, n_rounds, hasty()));
            let bodies = ranks.collect();
            let check = move || {
                let outcomes = taken(&outcomes);
                check_agreement(&outcomes, n_ranks as usize);
                let timeouts = outcomes.iter().filter_map(|outcome| match outcome {
                    (rank, _, Err(CommErrorKind::Timeout { missing, .. })) => Some((rank, missing)),
                    _ => None,
                });
                for (rank, missing) in timeouts.clone() {
                    assert!(
                        !missing.is_empty() && !missing.contains(rank),
                        "{outcomes:?}"
                    );
                }
                let failed = outcomes.iter().any(|(_, _, outcome)| outcome.is_err());
                assert_eq!(timeouts.count(), usize::from(failed), "{outcomes:?}");
            };
            (bodies, Box::new(check))
        });
    }
}

/// A world that somebody ends at any moment.
#[test]
fn an_abort_comes_at_any_moment() {
    explore(2, || {
        let (barrier, outcomes) = (Arc::new(Barrier::new(2)), Outcomes::default());
        let mut bodies: Vec<Body> = (0..2)
            .map(|r| rank(&barrier, &outcomes, r, 2, patient()))
            .collect();
        bodies.push(Box::new(move || barrier.end(abort(0))));
        let check = move || check_agreement(&taken(&outcomes), 2);
        (bodies, Box::new(check))
    });
}

/// A rank that waits hears of an end, although its peer never comes.
#[test]
fn an_abort_wakes_who_waits() {
    explore(3, || {
        let (barrier, outcomes) = (Arc::new(Barrier::new(2)), Outcomes::default());
        let waits = rank(&barrier, &outcomes, 0, 1, patient());
        let ends: Body = Box::new(move || barrier.end(abort(1)));
        let check = move || {
            let outcomes = taken(&outcomes);
            let aborted = |outcome: &Outcome| {
                matches!(outcome, Err(CommErrorKind::Aborted { by: Some(1), .. }))
            };
            assert!(
                outcomes.len() == 1 && aborted(&outcomes[0].2),
                "{outcomes:?}"
            );
        };
        (vec![waits, ends], Box::new(check))
    });
}

/// Of two ranks that wait for a third, the one whose timeout expires tells the other.
#[test]
fn who_gives_up_wakes_the_others() {
    explore(2, || {
        let (barrier, outcomes) = (Arc::new(Barrier::new(3)), Outcomes::default());
        let bodies = vec![
            rank(&barrier, &outcomes, 0, 1, hasty()),
            rank(&barrier, &outcomes, 2, 1, patient()),
        ];
        let check = move || {
            for (rank, _, outcome) in taken(&outcomes) {
                match outcome {
                    // The other may not have come yet.
                    Err(CommErrorKind::Timeout { missing, .. }) if rank == 0 => {
                        assert!(missing == [1] || missing == [1, 2], "{missing:?}");
                    }
                    Err(CommErrorKind::Aborted { by: Some(0), .. }) if rank == 2 => {}
                    other => panic!("rank {rank}: {other:?}"),
                }
            }
        };
        (bodies, Box::new(check))
    });
}

fn abort(by: u32) -> RankEnd {
    RankEnd::new(Cause::Aborted, Some(by), "as planned")
}

/// Ranks that differ all hear of it, although the first that does ends the world.
#[test]
fn a_mismatch_reaches_all_ranks() {
    explore(3, || {
        let (barrier, outcomes) = (Arc::new(Barrier::new(2)), Outcomes::default());
        let body = |rank: u32| -> Body {
            let (barrier, outcomes) = (Arc::clone(&barrier), Arc::clone(&outcomes));
            Box::new(move || {
                let call = Call {
                    len: rank as usize,
                    ..call(rank, 0)
                };
                let outcome = barrier.meet(wait(&call, patient(), &Backoff::default()));
                record(&outcomes, rank, 0, &outcome);
                barrier.end(abort(rank));
            })
        };
        let bodies = (0..2).map(body).collect();
        let check = move || {
            for (rank, _, outcome) in taken(&outcomes) {
                let Err(CommErrorKind::Mismatch { mine, theirs, .. }) = outcome else {
                    panic!("rank {rank}: {outcome:?}");
                };
                assert_eq!((mine.rank, theirs.rank), (rank, 1 - rank));
            }
        };
        (bodies, Box::new(check))
    });
}

/// Ranks lend their buffers between two rounds whose timeouts expire at any moment, as `in_place`
/// does: nobody is at a buffer that its owner does not lend any more, and if the operation
/// succeeds, every buffer holds the sum.
#[test]
fn a_rank_leaves_only_when_nobody_is_at_its_buffer() {
    for (timeout, preemptions) in [(patient(), 3), (hasty(), 3)] {
        explore(preemptions, || {
            let barrier = Arc::new(Barrier::new(2));
            let lent: Arc<[AtomicBool; 2]> = Arc::default();
            let rank_handles = published::rank_handles(2).into_iter();
            let body = |mut handle: published::RankHandle| -> Body {
                let (barrier, lent) = (Arc::clone(&barrier), Arc::clone(&lent));
                Box::new(move || {
                    let rank = handle.rank();
                    let mut buf = [rank as u32 + 1; 2];
                    lent[rank].store(true, SeqCst);
                    let outcome = handle.lend(&mut buf, |view| {
                        work_between_meetings(&barrier, rank as u32, timeout, view, &lent)
                    });
                    lent[rank].store(false, SeqCst);
                    assert!(outcome.is_err() || buf == [3, 3], "{buf:?}");
                    assert!(outcome.is_ok() || timeout == hasty(), "{outcome:?}");
                })
            };
            let bodies = rank_handles.map(body).collect();
            (bodies, Box::new(|| ()))
        });
    }
}

fn work_between_meetings(
    barrier: &Barrier,
    rank: u32,
    timeout: Timeout,
    mut view: published::PeerView<'_>,
    lent: &[AtomicBool; 2],
) -> Outcome {
    let (first, second) = (call(rank, 0), call(rank, 1));
    let backoff = Backoff::default();
    barrier.meet(wait(&first, timeout, &backoff))?;
    let all_lent = || lent.iter().all(|lent| lent.load(SeqCst));
    let worked = view.change::<u32, _>(|parts| {
        assert!(all_lent());
        let (a, b) = parts.split_at_mut(1);
        crate::element::Element::reduce_both(Reduction::Sum, &mut *a[0], &mut *b[0]);
        point();
        assert!(all_lent());
    });
    barrier.meet_again(wait(&second, timeout, &backoff))?;
    worked.expect("whoever takes a buffer away early does not come to the second barrier");
    Ok(())
}
