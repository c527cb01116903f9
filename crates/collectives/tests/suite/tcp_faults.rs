//! Faults between ranks that share no memory: what [`crate::faults`] checks between threads, over
//! sockets.

use crate::faults::{Gate, check_panic, job, sides};
use crate::forms::{Form, move_forms, reduce_forms};
use crate::world::{all_reduce, patient, unhurried};
use shardgraph_collectives::{
    Comm, CommError, CommErrorKind, Op, OpKind, Outcome, Reduction, Timeout, tcp, threads,
};
use shardgraph_error::Class;
use std::time::Duration;

/// What each rank's operation returned; no rank may panic.
fn outcomes(
    n_ranks: u32,
    f: impl Fn(Comm) -> Result<(), CommError> + Sync,
) -> Vec<Result<(), CommErrorKind>> {
    let results = tcp::run(n_ranks, f).into_iter();
    results
        .map(|rank| {
            rank.expect("no panic")
                .map_err(|error| error.kind().clone())
        })
        .collect()
}

/// Every ordered pair of different forms: both sides are named on every rank.
#[test]
fn every_mismatch_is_named_on_every_rank() {
    let forms: Vec<Form> = reduce_forms().into_iter().chain(move_forms()).collect();
    for (common_idx, common) in forms.iter().enumerate() {
        for (odd_idx, odd) in forms.iter().enumerate() {
            if odd_idx != common_idx {
                check_mismatch(*common, *odd, (common_idx + odd_idx) % 3);
            }
        }
    }
}

fn check_mismatch(common: Form, odd: Form, odd_rank: usize) {
    let outcomes = outcomes(3, |mut comm| {
        comm.run(Op::Barrier, patient())?;
        let is_odd = comm.rank() as usize == odd_rank;
        let error = if is_odd { odd } else { common }(&mut comm).expect_err("ranks differ");
        assert_eq!(comm.flight_record()[1].outcome, Outcome::Failed);
        let next = comm.run(Op::Barrier, patient()).expect_err("poisoned");
        assert!(
            matches!(next.kind(), CommErrorKind::Aborted { .. }),
            "{next}"
        );
        Err(error)
    });
    for (rank, outcome) in outcomes.iter().enumerate() {
        let (mine, theirs) = sides(rank, outcome);
        assert_ne!(mine.to_string(), theirs.to_string());
        assert!(rank == odd_rank || theirs.rank as usize == odd_rank);
    }
}

/// Of a long buffer too, in every operation that receives.
#[test]
fn a_mismatch_touches_nothing() {
    for len in [3usize, 100_000, 3_000_000] {
        let outcomes = outcomes(3, |mut comm| {
            let odd = usize::from(comm.rank() == 1);
            let mut buf = vec![comm.rank() as f32; len + odd];
            let untouched = buf.clone();
            let error = all_reduce(&mut comm, &mut buf, patient()).expect_err("lengths differ");
            assert_eq!(buf, untouched);
            Err(error)
        });
        for outcome in outcomes {
            let Err(CommErrorKind::Mismatch { mine, theirs, .. }) = outcome else {
                panic!("{outcome:?}")
            };
            assert!((mine.rank == 1) ^ (theirs.rank == 1));
            assert_eq!(mine.len.abs_diff(theirs.len), 1);
        }
    }
}

/// Rank 0 sends 3 elements to rank 1, which expects another number: all ranks hear of it, also rank 2.
#[test]
fn all_to_all_counts_are_compared_part_by_part() {
    for expected in [1usize, 30_000] {
        let outcomes = outcomes(3, |mut comm| {
            let (sent, received) = match comm.rank() {
                0 => ([1, 3, 1], [1, 1, 1]),
                1 => ([1, 1, 1], [expected, 1, 1]),
                _ => ([1, 1, 1], [1, 1, 1]),
            };
            let (send, mut recv) = (
                vec![1u8; sent.iter().sum()],
                vec![7u8; received.iter().sum()],
            );
            let op = Op::AllToAllV {
                send: (&send).into(),
                send_counts: &sent,
                recv: (&mut recv).into(),
                recv_counts: &received,
            };
            let result = comm.run(op, patient());
            assert!(recv.iter().all(|&x| x == 7));
            result
        });
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            let Err(CommErrorKind::Mismatch { mine, theirs, .. }) = outcome else {
                panic!("{outcome:?}")
            };
            let (sender, receiver) = if rank == 1 {
                (theirs, mine)
            } else {
                (mine, theirs)
            };
            assert_eq!((sender.rank, sender.peer, sender.len), (0, Some(1), 3));
            assert_eq!(
                (receiver.rank, receiver.peer, receiver.len),
                (1, Some(0), expected)
            );
        }
    }
}

/// The last rank keeps its communicator and does not come until the others have given up.
#[test]
fn a_rank_that_does_not_come_is_named() {
    for n_ranks in 2..=6 {
        let gate = Gate::default();
        let late = n_ranks - 1;
        let outcomes = outcomes(n_ranks, |mut comm| {
            comm.run(Op::Barrier, patient())?;
            if comm.rank() == late {
                gate.wait_for(late);
                return all_reduce(&mut comm, &mut [1.0], patient());
            }
            let outcome = all_reduce(&mut comm, &mut [1.0], unhurried());
            gate.count();
            outcome
        });
        let mut n_timed_out = 0;
        for (rank, outcome) in (0u32..).zip(&outcomes) {
            match outcome {
                Err(CommErrorKind::Timeout {
                    op: OpKind::AllReduce,
                    seq: 1,
                    after,
                    missing,
                }) if rank != late => {
                    assert_eq!((*after, missing), (unhurried().duration(), &vec![late]));
                    n_timed_out += 1;
                }
                Err(CommErrorKind::Aborted {
                    by: Some(by), why, ..
                }) => {
                    assert!(*by < late && why.contains("timed out"), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(n_timed_out > 0, "{outcomes:?}");
    }
}

/// A rank that stops taking data in the middle of a long operation.
#[test]
fn a_rank_that_stops_between_two_operations_is_named_by_long_ones() {
    let gate = Gate::default();
    let outcomes = outcomes(3, |mut comm| {
        let mut buf = vec![1.0; 4_000_000];
        all_reduce(&mut comm, &mut buf, patient())?;
        if comm.rank() == 1 {
            gate.wait_for(2);
            return Ok(());
        }
        let outcome = all_reduce(
            &mut comm,
            &mut buf,
            Timeout::after(Duration::from_millis(300)),
        );
        gate.count();
        outcome
    });
    for rank in [0, 2] {
        match &outcomes[rank] {
            Err(CommErrorKind::Timeout { missing, .. }) => assert_eq!(missing, &[1]),
            Err(CommErrorKind::Aborted { why, .. }) => assert!(why.contains("[1]"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn abort_reaches_waiting_and_coming_ranks() {
    for n_ranks in 2..=6 {
        let outcomes = outcomes(n_ranks, |mut comm| {
            comm.run(Op::Barrier, patient())?;
            if comm.rank() == 0 {
                comm.abort_as(Class::Input, "no such root: root is 5");
            }
            comm.run(Op::Barrier, patient())?;
            comm.run(Op::Barrier, patient())
        });
        for outcome in outcomes {
            let Err(CommErrorKind::Aborted {
                by: Some(0),
                class,
                why,
            }) = outcome
            else {
                panic!("{outcome:?}")
            };
            assert!(why.contains("root is 5"), "{why}");
            assert_eq!(class, Some(Class::Input));
        }
    }
}

/// What a rank asks for wrongly, it hears at once, and its peers do not wait for it.
#[test]
fn a_wrong_argument_ends_the_wait_of_the_others() {
    let outcomes = outcomes(3, |mut comm| {
        let root = if comm.rank() == 1 { 3 } else { 0 };
        let mut byte = [0u8];
        let buf = (&mut byte).into();
        comm.run(Op::Broadcast { buf, root }, patient())
    });
    assert!(matches!(outcomes[1], Err(CommErrorKind::Argument { .. })));
    for rank in [0, 2] {
        let Err(CommErrorKind::Aborted {
            by: Some(1), why, ..
        }) = &outcomes[rank]
        else {
            panic!("{outcomes:?}")
        };
        assert!(why.contains("root is 3"), "{why}");
    }
}

#[test]
fn a_panic_before_any_operation_ends_all_ranks() {
    for n_ranks in 2..=6 {
        for culprit in 0..n_ranks {
            for panic_idx in 0..5 {
                let results = tcp::run(n_ranks, |mut comm| {
                    let rank = comm.rank();
                    job(&mut comm, |op_idx| {
                        assert!(rank != culprit || op_idx != panic_idx, "boom {op_idx}");
                    })
                });
                check_panic(&results, culprit, panic_idx);
            }
        }
    }
}

#[test]
fn the_first_panic_stays_the_cause() {
    let results = tcp::run(4, |mut comm| {
        assert_ne!(comm.rank(), 3, "first cause");
        comm.run(Op::Barrier, patient()).expect("peers are there");
    });
    for result in results {
        let text = result.expect_err("all ranks fail").to_string();
        assert!(text.contains("first cause"), "{text}");
    }
}

#[test]
fn a_rank_that_leaves_is_lost() {
    for n_ranks in 2..=6 {
        for n_before in [0, 1, 7] {
            let outcomes = outcomes(n_ranks, |mut comm| {
                (0..n_before).try_for_each(|_| comm.run(Op::Barrier, patient()))?;
                if comm.rank() == 1 {
                    return Ok(());
                }
                comm.run(Op::Barrier, patient())
            });
            for (rank, outcome) in outcomes.iter().enumerate() {
                match outcome {
                    Ok(()) => assert_eq!(rank, 1),
                    Err(CommErrorKind::PeerLost {
                        rank: Some(1),
                        op: OpKind::Barrier,
                        seq,
                        ..
                    }) => assert_eq!(*seq, n_before),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Sums of floats that round, of every length class: the bits of the threads back end.
#[test]
fn sums_have_the_bits_of_threads() {
    fn bits(mut comm: Comm) -> Result<Vec<u32>, CommError> {
        let mut all = Vec::new();
        for len in [1usize, 4096, 4097, 100_003, 1_500_001] {
            let x = |i: usize| 1.0 / ((comm.rank() as usize * 7919 + i * 31) % 1009 + 1) as f32;
            let mut buf: Vec<f32> = (0..len).map(x).collect();
            let op = Op::AllReduce {
                buf: (&mut buf).into(),
                reduction: Reduction::Sum,
            };
            comm.run(op, patient())?;
            all.extend(buf.into_iter().map(f32::to_bits));
        }
        Ok(all)
    }
    for n_ranks in [2, 3, 5] {
        let by_threads = threads::run(n_ranks, bits);
        let by_tcp = tcp::run(n_ranks, bits);
        for (threads, tcp) in by_threads.into_iter().zip(by_tcp) {
            assert!(threads.unwrap().unwrap() == tcp.unwrap().unwrap());
        }
    }
}

/// Longer than a piece, in every operation that cuts buffers into pieces.
const LONG: usize = 1_700_001;
const LONG_COUNTS: [usize; 3] = [LONG, 5, 0];

fn long_value(rank: usize, i: usize) -> u32 {
    (rank * 31 + i * 7) as u32
}

#[test]
fn long_buffers_arrive_whole() {
    for result in outcomes(3, |mut comm| {
        gather_and_reduce_long(&mut comm)?;
        broadcast_long(&mut comm)?;
        send_long(&mut comm)?;
        comm.run(Op::Barrier, patient())
    }) {
        assert_eq!(result, Ok(()));
    }
}

fn gather_and_reduce_long(comm: &mut Comm) -> Result<(), CommError> {
    let rank = comm.rank() as usize;
    let n_own = LONG_COUNTS[rank];
    let own: Vec<u32> = (0..n_own).map(|i| long_value(rank, i)).collect();
    let mut all = vec![0u32; LONG + 5];
    let op = Op::AllGatherV {
        send: (&own).into(),
        recv: (&mut all).into(),
        counts: &LONG_COUNTS,
    };
    comm.run(op, patient())?;
    assert!((0..LONG).all(|i| all[i] == long_value(0, i)));
    assert!((0..5).all(|i| all[LONG + i] == long_value(1, i)));
    let mut part = vec![0u32; n_own];
    let op = Op::ReduceScatterV {
        send: (&all).into(),
        recv: (&mut part).into(),
        counts: &LONG_COUNTS,
        reduction: Reduction::Max,
    };
    comm.run(op, patient())?;
    assert_eq!(part, own);
    Ok(())
}

fn broadcast_long(comm: &mut Comm) -> Result<(), CommError> {
    let rank = comm.rank() as usize;
    let mut buf: Vec<u32> = (0..3 * LONG).map(|i| long_value(rank, i)).collect();
    let op = Op::Broadcast {
        buf: (&mut buf).into(),
        root: 2,
    };
    comm.run(op, patient())?;
    assert!((0..3 * LONG).all(|i| buf[i] == long_value(2, i)));
    Ok(())
}

/// Rank 0 sends much to rank 2 and nothing else moves.
fn send_long(comm: &mut Comm) -> Result<(), CommError> {
    let (send_counts, recv_counts) = match comm.rank() {
        0 => ([0, 0, LONG], [0; 3]),
        2 => ([0; 3], [LONG, 0, 0]),
        _ => ([0; 3], [0; 3]),
    };
    let send: Vec<u32> = (0..send_counts[2]).map(|i| long_value(0, i)).collect();
    let mut recv = vec![0u32; recv_counts[0]];
    let op = Op::AllToAllV {
        send: (&send).into(),
        send_counts: &send_counts,
        recv: (&mut recv).into(),
        recv_counts: &recv_counts,
    };
    comm.run(op, patient())?;
    assert!((0..recv.len()).all(|i| recv[i] == long_value(0, i)));
    Ok(())
}
