//! Faults: every rank gets an error that says what happened, nobody hangs, and nothing works
//! afterwards.

use crate::forms::{Form, move_forms, reduce_forms};
use crate::world::{all_reduce, outcomes, patient, short, unhurried};
use shardgraph_collectives::{
    Call, Comm, CommError, CommErrorKind, DataType, Op, OpKind, Outcome, Timeout, threads,
};
use shardgraph_error::Class;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Checks that this is a mismatch seen by `rank` and gives both sides.
pub(crate) fn sides(rank: usize, outcome: &Result<(), CommErrorKind>) -> (Call, Call) {
    match outcome {
        Err(CommErrorKind::Mismatch {
            seq: 1,
            mine,
            theirs,
        }) => {
            assert_eq!(mine.rank as usize, rank);
            assert_ne!(theirs.rank as usize, rank);
            (*mine, *theirs)
        }
        other => panic!("rank {rank}: {other:?}"),
    }
}

/// Every ordered pair of different forms, on every rank: both sides are named everywhere.
#[test]
fn every_mismatch_is_named_on_every_rank() {
    let forms: Vec<Form> = reduce_forms().into_iter().chain(move_forms()).collect();
    for (common_idx, common) in forms.iter().enumerate() {
        for (odd_idx, odd) in forms
            .iter()
            .enumerate()
            .filter(|(odd_idx, _)| *odd_idx != common_idx)
        {
            let odd_rank = (common_idx + odd_idx) % 3;
            let outcomes = outcomes(3, |mut comm| {
                comm.run(Op::Barrier, patient())?;
                let form = if comm.rank() as usize == odd_rank {
                    odd
                } else {
                    common
                };
                let error = form(&mut comm).expect_err("ranks differ");
                assert_eq!(comm.flight_record()[1].outcome, Outcome::Failed);
                let next = comm
                    .run(Op::Barrier, patient())
                    .expect_err("the communicator is poisoned");
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
    }
}

#[test]
fn a_mismatch_tells_both_sides_and_touches_nothing() {
    let outcomes = outcomes(2, |mut comm| {
        let mut buf = vec![comm.rank() as f32; 3 + comm.rank() as usize];
        let untouched = buf.clone();
        let error = all_reduce(&mut comm, &mut buf, patient()).expect_err("lengths differ");
        assert_eq!(buf, untouched);
        let text = error.to_string();
        assert!(text.contains("#0 all_reduce of 3 f32, sum"), "{text}");
        assert!(text.contains("#0 all_reduce of 4 f32, sum"), "{text}");
        Err(error)
    });
    for outcome in outcomes {
        let Err(CommErrorKind::Mismatch { mine, theirs, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            (mine.len, theirs.len),
            (3 + mine.rank as usize, 3 + theirs.rank as usize)
        );
        assert_eq!(mine.data_type, Some(DataType::F32));
    }
}

/// Rank 0 sends 3 elements to rank 1, which expects 2: all ranks hear of it, also rank 2.
#[test]
fn all_to_all_counts_are_compared_part_by_part() {
    let outcomes = outcomes(3, |mut comm| {
        let (send_counts, recv_counts) = match comm.rank() {
            0 => ([1, 3, 1], [1, 1, 1]),
            _ => ([1, 1, 1], [1, 1, 1]),
        };
        let (send, mut recv) = (vec![1u8; send_counts.iter().sum()], vec![0u8; 3]);
        let op = Op::AllToAllV {
            send: (&send).into(),
            send_counts: &send_counts,
            recv: (&mut recv).into(),
            recv_counts: &recv_counts,
        };
        comm.run(op, patient())
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
            (1, Some(0), 1)
        );
    }
}

/// A gate that one rank waits at, in tests where it must come late.
#[derive(Default)]
pub(crate) struct Gate {
    n_through: Mutex<u32>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn count(&self) {
        *self.n_through.lock().expect("no panic") += 1;
        self.changed.notify_all();
    }

    pub(crate) fn wait_for(&self, n: u32) {
        let through = self.n_through.lock().expect("no panic");
        let limit = patient().duration();
        let is_short = |n_through: &mut u32| *n_through < n;
        let reached = self.changed.wait_timeout_while(through, limit, is_short);
        let (through, waited) = reached.expect("no panic");
        assert!(!waited.timed_out(), "{through} of {n} came to the gate");
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
        for outcome in &outcomes {
            match outcome {
                Err(CommErrorKind::Timeout {
                    op: OpKind::AllReduce,
                    seq: 1,
                    after,
                    missing,
                }) => {
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
        assert_eq!(n_timed_out, 1, "one rank gives up for all: {outcomes:?}");
    }
}

#[test]
fn several_missing_ranks_are_listed() {
    let gate = Gate::default();
    let outcomes = outcomes(4, |mut comm| {
        if comm.rank() != 2 {
            gate.wait_for(1);
            return comm.run(Op::Barrier, patient());
        }
        let outcome = comm.run(Op::Barrier, short());
        gate.count();
        outcome
    });
    let Err(CommErrorKind::Timeout { missing, .. }) = &outcomes[2] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(missing, &[0, 1, 3]);
}

#[test]
fn abort_reaches_waiting_and_coming_ranks() {
    for n_ranks in 1..=6 {
        let outcomes = outcomes(n_ranks, |mut comm| {
            comm.run(Op::Barrier, patient())?;
            if comm.rank() == 0 {
                comm.abort_as(Class::Input, "no such root: root is 5");
            }
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

/// Five operations of different kinds.
pub(crate) fn job(comm: &mut Comm, before: impl Fn(usize)) -> Result<(), CommError> {
    let forms = [
        reduce_forms()[0],
        move_forms()[2],
        reduce_forms()[5],
        move_forms()[0],
        move_forms()[8],
    ];
    for (op_idx, form) in forms.iter().enumerate() {
        before(op_idx);
        form(comm)?;
    }
    Ok(())
}

#[test]
fn a_panic_before_any_operation_ends_all_ranks() {
    for n_ranks in 2..=6 {
        for culprit in 0..n_ranks {
            for panic_idx in 0..5 {
                let results = threads::run(n_ranks, |mut comm| {
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

pub(crate) fn check_panic(
    results: &[Result<Result<(), CommError>, CommError>],
    culprit: u32,
    panic_idx: usize,
) {
    let message = format!("boom {panic_idx}");
    for (rank, result) in (0u32..).zip(results) {
        match result {
            Err(error) => {
                let CommErrorKind::Panicked { rank: named, text } = error.kind() else {
                    panic!("{error}")
                };
                assert_eq!((*named, rank), (culprit, culprit));
                assert!(text.contains(&message), "{text}");
            }
            Ok(outcome) => {
                let error = outcome.as_ref().expect_err("no rank can go on");
                let CommErrorKind::PeerLost {
                    rank: Some(lost),
                    why,
                    ..
                } = error.kind()
                else {
                    panic!("{error}")
                };
                assert!(*lost == culprit && why.contains(&message), "{error}");
            }
        }
    }
}

/// Ranks that panic over the error of a lost peer do not hide who was first.
#[test]
fn the_first_panic_stays_the_cause() {
    let results = threads::run(4, |mut comm| {
        assert_ne!(comm.rank(), 3, "first cause");
        comm.run(Op::Barrier, patient()).expect("peers are there");
    });
    for result in results {
        assert!(
            result
                .expect_err("all ranks fail")
                .to_string()
                .contains("first cause")
        );
    }
}

#[test]
fn a_rank_that_leaves_is_lost() {
    for n_ranks in 2..=6 {
        let outcomes = outcomes(n_ranks, |mut comm| {
            comm.run(Op::Barrier, patient())?;
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
                    seq: 1,
                    ..
                }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A thread of the caller's own, whose panic nobody catches for us.
#[test]
fn an_unsupervised_panic_is_a_lost_rank() {
    let mut ranks = threads::world(2).into_iter();
    let (mut first, second) = (ranks.next().unwrap(), ranks.next().unwrap());
    let thread = std::thread::spawn(move || {
        let _held = second;
        panic!("boom");
    });
    let error = first.run(Op::Barrier, patient()).unwrap_err();
    assert!(
        matches!(error.kind(), CommErrorKind::PeerLost { rank: Some(1), .. }),
        "{error}"
    );
    assert!(error.to_string().contains("panicked"));
    assert!(thread.join().is_err());
}

#[test]
fn a_communicator_moves_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Comm>();
    is_send::<CommError>();
    let comms = threads::world(3);
    let handles: Vec<_> = comms
        .into_iter()
        .map(|mut comm| {
            std::thread::spawn(move || {
                comm.run(Op::Barrier, patient()).expect("all come");
                std::thread::spawn(move || comm.run(Op::Barrier, patient()).expect("all come"))
                    .join()
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap().unwrap();
    }
    assert!(threads::world(0).is_empty());
    assert!(threads::run(0, |_| ()).is_empty());
}

/// How one rank ends the world in the middle of long operations.
#[derive(Clone, Copy, Debug)]
enum Exit {
    /// Its timeout is shorter than the operation.
    Impatient,
    Panics,
    Drops,
    Aborts,
    /// It asks for something shorter, which it would not do in place.
    Differs,
}

/// Long enough that the ranks work on each other's buffers.
const LONG: usize = 100_000;

/// Runs long operations until one fails, which it does on `culprit` in round `last` for the reason
/// `exit`.
fn long_operations(
    comm: &mut Comm,
    buf: &mut [f32],
    exit: Exit,
    culprit: u32,
    last: u32,
) -> Result<(), CommError> {
    for round in 0..=last {
        let is_it = comm.rank() == culprit && round == last;
        let (mut len, mut timeout) = (buf.len(), patient());
        match exit {
            Exit::Impatient if is_it => timeout = Timeout::after(Duration::ZERO),
            Exit::Panics => assert!(!is_it, "as planned"),
            Exit::Drops if is_it => return Ok(()),
            Exit::Aborts if is_it => comm.abort("as planned"),
            Exit::Differs if is_it => len = 5,
            _ => {}
        }
        all_reduce(comm, &mut buf[..len], timeout)?;
        let n_ranks = comm.size() as usize;
        let recv_len = buf.len() / n_ranks * n_ranks;
        let send = vec![1.0; recv_len / n_ranks];
        let op = Op::AllGather {
            send: (&send).into(),
            recv: (&mut buf[..recv_len]).into(),
        };
        comm.run(op, timeout)?;
    }
    Ok(())
}

/// After an operation, whatever its end, a rank's buffer is its own: what it writes there then, no
/// peer changes.
#[test]
fn nobody_is_at_the_buffer_of_a_rank_that_left() {
    const CANARY: f32 = -7.25;
    let exits = [
        Exit::Impatient,
        Exit::Panics,
        Exit::Drops,
        Exit::Aborts,
        Exit::Differs,
    ];
    for seed in 0..40u32 {
        let n_ranks = 2 + seed % 3;
        let exit = exits[(seed / 3) as usize % exits.len()];
        let (culprit, last) = (seed % n_ranks, seed % 4);
        let n_out = Gate::default();
        let results = threads::run(n_ranks, |mut comm| {
            let mut buf = vec![1.0; LONG];
            let ended = catch_unwind(AssertUnwindSafe(|| {
                long_operations(&mut comm, &mut buf, exit, culprit, last)
            }));
            buf.fill(CANARY);
            // The others hear of it now, not when this thread ends.
            drop(comm);
            n_out.count();
            n_out.wait_for(n_ranks);
            assert!(
                buf.iter().all(|x| x.to_bits() == CANARY.to_bits()),
                "{exit:?}, seed {seed}"
            );
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        });
        let n_well = results
            .iter()
            .filter(|result| matches!(result, Ok(Ok(()))))
            .count();
        // An impatient rank may be lucky in each of its waits.
        let may_be_well = match exit {
            Exit::Impatient => n_well == 0 || n_well == n_ranks as usize,
            Exit::Drops => n_well == 1,
            _ => n_well == 0,
        };
        assert!(may_be_well, "{exit:?}, seed {seed}: {results:?}");
    }
}
