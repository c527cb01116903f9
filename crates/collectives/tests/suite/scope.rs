//! Operations beside computing: the same results as the blocking calls, in order, and nothing lost when something fails.

use crate::world::{patient, short};
use proptest::prelude::*;
use shardgraph_collectives::{
    Comm, CommError, CommErrorKind, Op, OpKind, Outcome, Pending, Reduction, tcp, threads,
};
use std::sync::Mutex;
use std::sync::mpsc;

type Body<'a> = &'a (dyn Fn(Comm) -> Result<(), CommError> + Sync);
type Outcomes = Vec<Result<Result<(), CommError>, CommError>>;

/// Both back ends.
const WORLDS: [fn(u32, Body<'_>) -> Outcomes; 2] = [
    |n_ranks, body| threads::run(n_ranks, body),
    |n_ranks, body| tcp::run(n_ranks, body),
];

fn for_each_world(n_ranks: impl IntoIterator<Item = u32>, body: Body<'_>) {
    for n_ranks in n_ranks {
        for world in WORLDS {
            for outcome in world(n_ranks, body) {
                outcome.expect("no panic").expect("no error");
            }
        }
    }
}

fn sum<'a>(buf: &'a mut [f32]) -> Op<'a> {
    Op::AllReduce {
        buf: buf.into(),
        reduction: Reduction::Sum,
    }
}

/// One operation of a list, with buffers of its own.
#[derive(Clone, Debug)]
struct Act {
    kind: u8,
    send: Vec<f32>,
    recv: Vec<f32>,
}

impl Act {
    fn new(comm: &Comm, kind: u8, len: usize) -> Act {
        let (rank, n_ranks) = (comm.rank() as usize, comm.size() as usize);
        let x = |i: usize| 1.0 / ((rank * 7919 + i * 31 + usize::from(kind)) % 1009 + 1) as f32;
        let (n_send, n_recv) = match kind {
            0 | 1 => (0, len),
            2 => (len, len * n_ranks),
            3 => (len * n_ranks, len),
            _ => (len * (rank + 1), len),
        };
        Act {
            kind,
            send: (0..n_send).map(x).collect(),
            recv: (0..n_recv).map(x).collect(),
        }
    }

    fn op(&mut self, size: u32) -> Option<Op<'_>> {
        let (send, recv) = (self.send.as_slice(), self.recv.as_mut_slice());
        Some(match self.kind {
            0 => sum(recv),
            1 => Op::Broadcast {
                buf: recv.into(),
                root: size - 1,
            },
            2 => Op::AllGather {
                send: send.into(),
                recv: recv.into(),
            },
            3 => Op::ReduceScatter {
                send: send.into(),
                recv: recv.into(),
                reduction: Reduction::Sum,
            },
            4 => Op::Barrier,
            _ => return None,
        })
    }
}

fn blocking(comm: &mut Comm, acts: &mut [Act]) -> Result<(), CommError> {
    let size = comm.size();
    for act in acts {
        match act.op(size) {
            Some(op) => comm.run(op, patient())?,
            None => comm.exact_sum(&act.send, &mut act.recv, patient())?,
        }
    }
    Ok(())
}

/// The handle of every third is waited for at once, the next is dropped and the one after forgotten.
fn beside(comm: &mut Comm, acts: &mut [Act]) -> Result<(), CommError> {
    let size = comm.size();
    comm.scope(|scope| {
        for (position, act) in acts.iter_mut().enumerate() {
            if act.kind > 4 {
                let pending = scope.start_exact_sum(&act.send, &mut act.recv, patient());
                dispose(position, pending)?;
            } else {
                let op = act.op(size).expect("not an exact sum");
                dispose(position, scope.start(op, patient()))?;
            }
        }
        Ok(())
    })
}

fn dispose<B>(position: usize, pending: Pending<B>) -> Result<(), CommError> {
    match position % 3 {
        0 => pending.wait().map(drop),
        1 => {
            drop(pending);
            Ok(())
        }
        _ => {
            std::mem::forget(pending);
            Ok(())
        }
    }
}

fn compare(comm: Comm, list: &[(u8, usize)]) -> Result<(), CommError> {
    let mut comm = comm;
    let mut expected: Vec<Act> = list
        .iter()
        .map(|&(kind, len)| Act::new(&comm, kind, len))
        .collect();
    let mut acts = expected.clone();
    blocking(&mut comm, &mut expected)?;
    let n_before = comm.flight_record().len();
    beside(&mut comm, &mut acts)?;
    for (act, expected) in acts.iter().zip(&expected) {
        let bits = |act: &Act| act.recv.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(act), bits(expected), "{}", act.kind);
    }
    let record = comm.flight_record();
    let kinds = |part: &[shardgraph_collectives::Recorded]| {
        assert!(part.iter().all(|entry| entry.outcome == Outcome::Done));
        part.iter().map(|entry| entry.call.op).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&record[..n_before]), kinds(&record[n_before..]));
    comm.run(Op::Barrier, patient())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn results_and_order_are_those_of_the_blocking_calls(
        list in prop::collection::vec((0u8..6, prop::sample::select(vec![1usize, 3, 64, 5000, 70_000])), 1..9),
        n_ranks in 1u32..=6,
    ) {
        for_each_world([n_ranks], &|comm| compare(comm, &list));
    }
}

/// The others come only after the closure of rank 0 has gone on past its start.
#[test]
fn the_closure_runs_while_the_operation_waits() {
    for world in WORLDS {
        for n_ranks in 2..=6 {
            let (open, opened) = mpsc::channel();
            let gate = (Mutex::new(Some(open)), Mutex::new(opened));
            let outcomes = world(n_ranks, &|mut comm| {
                if comm.rank() == 1 {
                    let opened = gate.1.lock().expect("no panic");
                    let word = opened.recv_timeout(patient().duration());
                    assert!(word.is_ok(), "rank 0 never went on");
                }
                let is_first = comm.rank() == 0;
                comm.scope(|scope| {
                    let pending = scope.start(Op::Barrier, patient());
                    if is_first {
                        assert!(!pending.is_done(), "a rank has not come yet");
                        let open = gate.0.lock().expect("no panic").take();
                        open.expect("once").send(()).expect("rank 1 is there");
                        while !pending.is_done() {
                            std::thread::yield_now();
                        }
                    }
                    pending.wait().map(drop)
                })
            });
            for outcome in outcomes {
                outcome.expect("no panic").expect("no error");
            }
        }
    }
}

/// Rank 1 asks for a root that is none in the third of four operations. The first is well on all ranks (they may differ by one in what they
/// completed), and the scope has the error although nobody waits for it.
#[test]
fn an_error_ends_what_was_started_later_and_the_scope() {
    for world in WORLDS {
        for n_ranks in 1..=6 {
            let culprit = 1.min(n_ranks - 1);
            let outcomes = world(n_ranks, &|mut comm| {
                let root = if comm.rank() == culprit { 99 } else { 0 };
                let (mut first, mut last) = ([1f32], [1f32]);
                let mut third = [0u8];
                let result = comm.scope(|scope| {
                    let op = Op::Broadcast {
                        buf: (&mut third).into(),
                        root,
                    };
                    let first = scope.start(sum(&mut first), patient());
                    drop(scope.start(Op::Barrier, patient()));
                    drop(scope.start(op, patient()));
                    let last = scope.start(sum(&mut last), patient());
                    first.wait()?;
                    let error = last.wait().expect_err("the third failed");
                    assert!(
                        matches!(error.kind(), CommErrorKind::Aborted { by, .. } if *by == Some(culprit)),
                        "{error}"
                    );
                    Ok::<_, CommError>(())
                });
                assert_eq!(first.map(f32::to_bits), [(n_ranks as f32).to_bits()]);
                let error = result.as_ref().expect_err("the scope tells of it");
                assert!(error.to_string().contains("root is 99"), "{error}");
                assert!(comm.run(Op::Barrier, patient()).is_err());
                result
            });
            for (rank, outcome) in (0u32..).zip(outcomes) {
                let error = outcome.expect("no panic").expect_err("all hear of it");
                let is_own = matches!(error.kind(), CommErrorKind::Argument { .. });
                assert_eq!(is_own, rank == culprit, "{error}");
            }
        }
    }
}

/// What the closure returns comes before what the operations gave; they run all the same.
#[test]
fn the_error_of_the_closure_is_the_scopes() {
    #[derive(Debug)]
    enum Failure {
        Own,
        Comm,
    }
    impl From<CommError> for Failure {
        fn from(_: CommError) -> Failure {
            Failure::Comm
        }
    }
    for_each_world(1..=3, &|mut comm| {
        let mut buf = [1f32];
        let n_ranks = comm.size() as f32;
        let result: Result<(), Failure> = comm.scope(|scope| {
            drop(scope.start(sum(&mut buf), patient()));
            Err(Failure::Own)
        });
        assert!(matches!(result, Err(Failure::Own)), "{result:?}");
        assert_eq!(buf.map(f32::to_bits), [n_ranks.to_bits()]);
        // From here on all have done that; the first to fail may end this for the others.
        let _ = comm.run(Op::Barrier, patient());
        let mut wrong = [0f32; 2];
        let result: Result<(), Failure> = comm.scope(|scope| {
            let pending = scope.start_exact_sum(&[1.0; 3], &mut wrong, patient());
            drop(pending);
            Ok(())
        });
        assert!(matches!(result, Err(Failure::Comm)), "{result:?}");
        Ok(())
    });
}

/// Rank 1 panics after it has started one operation, which all complete; from the next on they hear why.
#[test]
fn a_panic_in_the_closure_reaches_the_others_with_its_message() {
    for world in WORLDS {
        for n_ranks in 2..=6 {
            let outcomes = world(n_ranks, &|mut comm| {
                let mut bufs = [[1f32], [1f32]];
                let [first, second] = &mut bufs;
                let is_culprit = comm.rank() == 1;
                comm.scope(|scope| {
                    let first = scope.start(sum(first), patient());
                    if is_culprit {
                        first.wait()?;
                        panic!("planted");
                    }
                    first.wait()?;
                    scope.start(sum(second), patient()).wait().map(drop)
                })
            });
            for (rank, outcome) in outcomes.into_iter().enumerate() {
                let error = match outcome {
                    Ok(outcome) => outcome.expect_err("rank 1 has gone"),
                    Err(error) => error,
                };
                assert!(
                    error.to_string().contains("planted"),
                    "rank {rank}: {error}"
                );
                let is_culprit = matches!(error.kind(), CommErrorKind::Panicked { rank: 1, .. });
                assert_eq!(is_culprit, rank == 1, "{error}");
            }
        }
    }
}

/// What was queued behind the running operation is left out after a panic, and the panic waits for the running one.
#[test]
fn after_a_panic_the_queue_is_left_out() {
    /// Says that its thread unwinds.
    struct Unwinding(mpsc::Sender<()>);
    impl Drop for Unwinding {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    for world in WORLDS {
        let (unwinding, panicked) = mpsc::channel();
        let gate = (Mutex::new(Some(unwinding)), Mutex::new(panicked));
        let outcomes = world(2, &|mut comm| {
            let mut bufs = [[1f32], [1f32]];
            let [first, second] = &mut bufs;
            if comm.rank() == 1 {
                let panicked = gate.1.lock().expect("no panic");
                let word = panicked.recv_timeout(patient().duration());
                assert!(word.is_ok(), "rank 0 does not panic");
                // From the first destructor to the end of the unwinding.
                std::thread::sleep(6 * short().duration());
                comm.run(sum(first), patient())?;
                return comm.run(sum(second), patient());
            }
            comm.scope(|scope| {
                drop(scope.start(sum(first), patient()));
                drop(scope.start(sum(second), patient()));
                let _says = Unwinding(gate.0.lock().expect("no panic").take().expect("once"));
                assert_eq!(scope.size(), 1, "planted");
                Ok(())
            })
        });
        let kind = |rank: usize| match &outcomes[rank] {
            Ok(Err(error)) | Err(error) => error.kind().clone(),
            Ok(Ok(())) => panic!("rank {rank} ended well"),
        };
        assert!(matches!(kind(0), CommErrorKind::Panicked { rank: 0, .. }));
        let CommErrorKind::Aborted { by: Some(0), why } = kind(1) else {
            panic!("{:?}", kind(1))
        };
        assert!(why.contains("planted"), "{why}");
    }
}

/// A scope in which nothing is started costs nothing and changes nothing; several follow each other.
#[test]
fn scopes_follow_each_other() {
    for_each_world(1..=4, &|mut comm| {
        for round in 0..20 {
            let mut buf = [1f32];
            let n_ranks = comm.scope(|scope| {
                if round % 2 == 0 {
                    let _ = scope.start(sum(&mut buf), patient());
                }
                assert!(scope.rank() < scope.size());
                Ok::<_, CommError>(scope.size())
            })?;
            let expected = if round % 2 == 0 { n_ranks as f32 } else { 1.0 };
            assert_eq!(buf[0].to_bits(), expected.to_bits());
        }
        let record = comm.flight_record();
        assert!(
            record
                .iter()
                .all(|entry| entry.call.op == OpKind::AllReduce)
        );
        assert_eq!(record.len(), 10);
        Ok(())
    });
}
