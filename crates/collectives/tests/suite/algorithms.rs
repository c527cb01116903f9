//! Every algorithm of every operation, forced, for 1 to 6 ranks: the results of the suite and the
//! bits of threads.

use crate::checks;
use crate::world::patient;
use shardgraph_collectives::{Algorithm, Comm, CommError, CommErrorKind, Timeout};
use shardgraph_collectives::{Op, Reduction, tcp, threads};
use std::time::Duration;

/// Around the thresholds, and long enough for several pieces with 6 ranks (4 MiB).
const LENGTHS: [usize; 9] = [0, 1, 5, 16_383, 16_384, 16_385, 50_000, 262_147, 1_100_000];

fn forced(
    algorithm: Algorithm,
    n_ranks: u32,
    check: impl Fn(&mut Comm) -> Result<(), CommError> + Sync,
) {
    let results = tcp::run(n_ranks, |mut comm| {
        comm.use_algorithm(Some(algorithm));
        check(&mut comm)
    });
    for result in results {
        result.expect("no panic").expect("no error");
    }
}

fn for_all(check: impl Fn(&mut Comm) -> Result<(), CommError> + Sync) {
    for algorithm in Algorithm::ALL {
        for n_ranks in 1..=6 {
            forced(algorithm, n_ranks, &check);
        }
    }
}

#[test]
fn all_reduce() {
    for_all(checks::all_reduce);
}

#[test]
fn all_reduce_long() {
    for_all(checks::all_reduce_long);
}

#[test]
fn broadcast() {
    for_all(checks::broadcast);
}

#[test]
fn max_min_f32() {
    for_all(checks::max_min_f32);
}

#[test]
fn sum_in_rank_order() {
    for_all(checks::sum_in_rank_order);
}

/// Floats whose sums round, and bytes from every root.
fn digest(comm: &mut Comm) -> Result<u64, CommError> {
    let (rank, n_ranks) = (comm.rank(), comm.size());
    let x = |i: usize| {
        let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ u64::from(rank) << 17);
        ((bits >> 40) as f32 / 3.0 - 2_796_202.0) * 10f32.powi((i % 13) as i32 - 6)
    };
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |word: u32| hash = (hash ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3);
    for len in LENGTHS {
        let mut buf: Vec<f32> = (0..len).map(x).collect();
        let reduction = Reduction::Sum;
        let op = Op::AllReduce {
            buf: (&mut buf).into(),
            reduction,
        };
        comm.run(op, patient())?;
        buf.iter().for_each(|x| add(x.to_bits()));
        let root = len as u32 % n_ranks;
        let mut bytes: Vec<u8> = (0..len).map(|i| x(i).to_bits() as u8).collect();
        let buf = (&mut bytes).into();
        comm.run(Op::Broadcast { buf, root }, patient())?;
        bytes.iter().for_each(|&byte| add(u32::from(byte)));
    }
    Ok(hash)
}

#[test]
fn the_bits_of_threads() {
    for n_ranks in [2, 3, 6] {
        let of_threads = threads::run(n_ranks, |mut comm| digest(&mut comm));
        let wanted: Vec<u64> = of_threads
            .into_iter()
            .map(|r| r.unwrap().unwrap())
            .collect();
        assert!(wanted.iter().all(|hash| *hash == wanted[0]));
        for algorithm in Algorithm::ALL {
            forced(algorithm, n_ranks, |comm| {
                assert_eq!(digest(comm)?, wanted[0], "{algorithm}, {n_ranks} ranks");
                Ok(())
            });
        }
    }
}

/// One rank gives a length that the others do not: all hear it, whatever way the data would have
/// gone, and nothing is written.
#[test]
fn mismatches_are_found_first() {
    for algorithm in Algorithm::ALL {
        let results = tcp::run(5, |mut comm| {
            comm.use_algorithm(Some(algorithm));
            let len = 40_000 + usize::from(comm.rank() == 3);
            let mut buf = vec![7u32; len];
            let op = Op::AllReduce {
                buf: (&mut buf).into(),
                reduction: Reduction::Sum,
            };
            let error = comm.run(op, patient()).unwrap_err();
            assert!(buf.iter().all(|&x| x == 7), "{algorithm}");
            error
        });
        for error in results {
            let error = error.unwrap();
            assert!(
                matches!(error.kind(), CommErrorKind::Mismatch { .. }),
                "{algorithm}: {error}"
            );
        }
    }
}

/// A rank that leaves between two operations, or stops taking part, ends the others by name and in
/// time.
#[test]
fn a_rank_that_is_gone_ends_all() {
    for algorithm in Algorithm::ALL {
        let results = tcp::run(6, |mut comm| {
            comm.use_algorithm(Some(algorithm));
            let mut buf = vec![1f32; 100_000];
            for round in 0..4 {
                if comm.rank() == 2 && round == 3 {
                    return None;
                }
                let op = Op::AllReduce {
                    buf: (&mut buf).into(),
                    reduction: Reduction::Max,
                };
                if let Err(error) = comm.run(op, patient()) {
                    return Some(error);
                }
            }
            None
        });
        for (rank, error) in results
            .into_iter()
            .enumerate()
            .filter(|(rank, _)| *rank != 2)
        {
            let error = error.unwrap();
            let kind = error.as_ref().map(CommError::kind);
            let is_named = matches!(kind, Some(CommErrorKind::PeerLost { rank: Some(2), .. }));
            assert!(is_named, "{algorithm}, rank {rank}: {error:?}");
        }
    }
}

#[test]
fn a_rank_that_is_late_ends_all() {
    for algorithm in Algorithm::ALL {
        let results = tcp::run(4, |mut comm| {
            comm.use_algorithm(Some(algorithm));
            if comm.rank() == 1 {
                std::thread::sleep(Duration::from_millis(900));
            }
            let mut buf = vec![1f32; 100_000];
            let buf = (&mut buf).into();
            let timeout = Timeout::after(Duration::from_millis(100));
            comm.run(Op::Broadcast { buf, root: 0 }, timeout)
        });
        // The late rank may hear of it before it starts.
        let texts = results.into_iter().map(|result| match result.unwrap() {
            Ok(()) => "done".to_string(),
            Err(error) => error.to_string(),
        });
        for (rank, text) in texts.enumerate() {
            assert!(
                text.contains("ranks [1] did not arrive"),
                "{algorithm}, rank {rank}: {text}"
            );
        }
    }
}

/// Ranks of programs with another threshold would take each other's bytes for something else.
#[test]
fn ranks_that_choose_differently_are_told_so() {
    let texts = ["by direct", "by reduce-scatter-all-gather"];
    {
        let differs = |run: fn(&mut Comm, &mut [f32]) -> Result<(), CommError>| {
            let results = tcp::run(2, |mut comm| {
                comm.use_algorithm(Some(Algorithm::ALL[comm.rank() as usize]));
                run(&mut comm, &mut [1.0; 64])
            });
            for result in results {
                let text = result.unwrap().unwrap_err().to_string();
                assert!(texts.iter().all(|part| text.contains(part)), "{text}");
            }
        };
        differs(|comm, buf| {
            let buf = buf.into();
            comm.run(Op::Broadcast { buf, root: 0 }, patient())
        });
        differs(|comm, buf| {
            let (buf, reduction) = (buf.into(), Reduction::Sum);
            comm.run(Op::AllReduce { buf, reduction }, patient())
        });
        // An exact sum is made of all-reduces.
        differs(|comm, buf| comm.exact_sum(&[1.0; 128], buf, patient()));
    }
}
