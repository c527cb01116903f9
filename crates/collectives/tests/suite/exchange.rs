//! Objects that ranks of one process hand to each other.

use std::sync::Arc;

use crate::faults::Gate;
use crate::world::{patient, unhurried};

use shardgraph_collectives::{Comm, CommErrorKind, Op, Timeout, threads};

#[test]
fn every_rank_sees_the_objects_of_all_in_rank_order() {
    for n_ranks in 1..=6 {
        let results = threads::run(n_ranks, |mut comm| {
            assert!(comm.shares_memory());
            for round in 0..20u32 {
                let mine = Arc::new((round, comm.rank()));
                let all = comm.exchange(mine, Timeout::default()).unwrap();
                let want: Vec<_> = (0..n_ranks).map(|rank| (round, rank)).collect();
                assert_eq!(all.iter().map(|item| **item).collect::<Vec<_>>(), want);
            }
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// The objects are the same, not copies, and none is kept once its takers have dropped it.
#[test]
fn nothing_is_copied_and_nothing_is_kept() {
    let results = threads::run(3, |mut comm| {
        let mine = Arc::new(comm.rank());
        let all = comm
            .exchange(Arc::clone(&mine), Timeout::default())
            .unwrap();
        assert!(Arc::ptr_eq(&mine, &all[comm.rank() as usize]));
        drop(all);
        comm.run(Op::Barrier, Timeout::default()).unwrap();
        assert_eq!(Arc::strong_count(&mine), 1);
    });
    results.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn different_types_and_different_operations_are_refused() {
    let kinds = threads::run(2, |mut comm| {
        let rank = comm.rank();
        let result = match rank {
            0 => comm.exchange(Arc::new(0u32), Timeout::default()).map(drop),
            _ => comm.exchange(Arc::new(0u64), Timeout::default()).map(drop),
        };
        result.unwrap_err().to_string()
    });
    for text in kinds {
        let text = text.unwrap();
        assert!(text.contains("different types"), "{text}");
    }
    let errors = threads::run(2, |mut comm| {
        let result = match comm.rank() {
            0 => comm.exchange(Arc::new(0u32), Timeout::default()).map(drop),
            _ => comm.run(Op::Barrier, Timeout::default()),
        };
        result.unwrap_err()
    });
    for error in errors {
        let error = error.unwrap();
        assert!(
            matches!(error.kind(), CommErrorKind::Mismatch { .. }),
            "{error}"
        );
    }
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let gate = Gate::default();
    let results = threads::run(3, |mut comm: Comm| {
        comm.run(Op::Barrier, patient()).expect("all come at first");
        if comm.rank() == 2 {
            gate.wait_for(2);
            return None;
        }
        let error = comm.exchange(Arc::new(()), unhurried()).err();
        gate.count();
        error
    });
    let errors: Vec<_> = results.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(errors.len(), 2);
    let timed_out = |error: &shardgraph_collectives::CommError| matches!(error.kind(), CommErrorKind::Timeout { missing, .. } if missing == &[2]);
    assert!(errors.iter().any(timed_out), "{errors:?}");
}
