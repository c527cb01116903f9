//! What one rank does in each scenario. It says how it ended on one line of standard output.

use crate::checks;
use shardgraph_collectives::{
    Algorithm, Comm, CommError, CommErrorKind, Op, Reduction, Timeout, mpi, threads,
};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

type Outcome = Result<(), CommError>;
type Check = fn(&mut Comm) -> Outcome;

const CHECKS: [(&str, Check); 12] = [
    ("all_reduce", checks::all_reduce),
    ("all_reduce_long", checks::all_reduce_long),
    ("all_gather", checks::all_gather),
    ("all_gather_v", checks::all_gather_v),
    ("reduce_scatter_v", checks::reduce_scatter_v),
    ("broadcast", checks::broadcast),
    ("all_to_all_v", checks::all_to_all_v),
    ("barrier", checks::barrier),
    ("max_min_f32", checks::max_min_f32),
    ("sum_in_rank_order", checks::sum_in_rank_order),
    ("exact_sum", checks::exact_sum),
    ("flight_record", checks::flight_record),
];

fn patient() -> Timeout {
    Timeout::after(Duration::from_secs(60))
}

fn short() -> Timeout {
    Timeout::after(Duration::from_secs(1))
}

/// `rest` is the scenario and the library.
pub(crate) fn main(rest: &[String]) -> ExitCode {
    let [scenario, library] = rest else {
        eprintln!("usage: SCENARIO LIBRARY");
        return ExitCode::from(2);
    };
    let library = Path::new(library);
    let comm = match mpi::init_within(Some(library), patient()) {
        Ok(comm) => comm,
        Err(error) => {
            println!("no start: {error}");
            return ExitCode::from(2);
        }
    };
    let rank = comm.rank();
    let outcome = play(scenario, comm, library);
    // One write per line: the launcher mixes what the ranks print.
    println!("{}", line(rank, &outcome));
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(4),
    }
}

fn line(rank: u32, outcome: &Result<String, CommError>) -> String {
    let (word, text) = match outcome {
        Ok(text) => ("ok", text.clone()),
        Err(error) => (name(error.kind()), error.kind().to_string()),
    };
    format!("rank {rank}: {word}: {text}")
}

fn name(kind: &CommErrorKind) -> &'static str {
    match kind {
        CommErrorKind::PeerLost { .. } => "lost",
        CommErrorKind::Timeout { .. } => "timeout",
        CommErrorKind::Mismatch { .. } => "mismatch",
        CommErrorKind::Aborted { .. } => "aborted",
        CommErrorKind::Argument { .. } => "argument",
        CommErrorKind::Backend { .. } => "backend",
        _ => "other",
    }
}

fn play(scenario: &str, mut comm: Comm, library: &Path) -> Result<String, CommError> {
    if let Some((_, check)) = CHECKS.iter().find(|(name, _)| *name == scenario) {
        return check(&mut comm).map(|()| String::new());
    }
    match scenario {
        "suite" => suite(&mut comm),
        "unsigned" => unsigned(&mut comm).map(|()| String::new()),
        "bits" => bits(&mut comm).map(|bits| format!("{bits:016x}")),
        "second_start" => Ok(mpi::init_within(Some(library), patient())
            .expect_err("MPI runs already")
            .to_string()),
        "wrong_part" => parts_that_differ(&mut comm).map(|()| String::new()),
        _ => fault(scenario, comm).map(|()| String::new()),
    }
}

/// Every check, one after the other.
fn suite(comm: &mut Comm) -> Result<String, CommError> {
    for (name, check) in CHECKS {
        check(comm).inspect_err(|_| eprintln!("in check {name}"))?;
    }
    Ok(format!("{} checks", CHECKS.len()))
}

/// Numbers with the highest bit set: some releases of MPI take them for negative ones.
fn unsigned(comm: &mut Comm) -> Outcome {
    let rank = comm.rank();
    for (reduction, extreme) in [(Reduction::Max, 200u8), (Reduction::Min, 3)] {
        let mut bytes = vec![if rank == 0 { 200u8 } else { 3 }; 33];
        let mut words: Vec<u32> = bytes.iter().map(|&x| u32::from(x) << 24).collect();
        let mut long: Vec<u64> = bytes.iter().map(|&x| u64::from(x) << 56 | 1).collect();
        for buf in [(&mut bytes).into(), (&mut words).into(), (&mut long).into()] {
            comm.run(Op::AllReduce { buf, reduction }, patient())?;
        }
        let extreme = u64::from(extreme);
        assert!(bytes.iter().all(|&x| u64::from(x) == extreme), "{bytes:?}");
        assert!(
            words.iter().all(|&x| u64::from(x) == extreme << 24),
            "{words:?}"
        );
        assert!(long.iter().all(|&x| x == extreme << 56 | 1), "{long:?}");
    }
    Ok(())
}

/// Floats whose sums round, on every path of every operation that combines; the digest of all
/// results.
fn digest(comm: &mut Comm) -> Result<u64, CommError> {
    let rank = comm.rank();
    let x = |i: usize| {
        let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ u64::from(rank) << 17);
        ((bits >> 40) as f32 / 3.0 - 2_796_202.0) * 10f32.powi((i % 13) as i32 - 6)
    };
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |data: &[f32]| {
        for x in data {
            hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for len in [1, 5, 4096, 4097, 40_000, 1_100_000] {
        for reduction in [Reduction::Sum, Reduction::Max, Reduction::Min] {
            let mut buf: Vec<f32> = (0..len).map(x).collect();
            let op = Op::AllReduce {
                buf: (&mut buf).into(),
                reduction,
            };
            comm.run(op, patient())?;
            add(&buf);
        }
        if len < 10_000 {
            for part in parts(comm, len, x)? {
                add(&part);
            }
        }
    }
    Ok(hash)
}

/// What the operations that combine and move parts give.
fn parts(
    comm: &mut Comm,
    len: usize,
    x: impl Fn(usize) -> f32,
) -> Result<[Vec<f32>; 2], CommError> {
    let n = len * comm.size() as usize;
    let send: Vec<f32> = (0..n).map(x).collect();
    let (mut part, mut all) = (vec![0.0; len], vec![0.0; n]);
    let op = Op::ReduceScatterV {
        send: (&send).into(),
        recv: (&mut part).into(),
        counts: &vec![len; comm.size() as usize],
        reduction: Reduction::Sum,
    };
    comm.run(op, patient())?;
    let (send, recv) = ((&part).into(), (&mut all).into());
    comm.run(Op::AllGather { send, recv }, patient())?;
    comm.exact_sum(&all[..len], &mut part, patient())?;
    Ok([all, part])
}

/// The digest of processes equals that of as many threads.
fn bits(comm: &mut Comm) -> Result<u64, CommError> {
    let own = digest(comm)?;
    for algorithm in Algorithm::ALL {
        comm.use_algorithm(Some(algorithm));
        assert_eq!(digest(comm)?, own, "{algorithm}");
    }
    for of_thread in threads::run(comm.size(), |mut comm| digest(&mut comm)) {
        assert_eq!(of_thread??, own, "processes and threads differ");
    }
    Ok(own)
}

fn sum(comm: &mut Comm, len: usize, timeout: Timeout) -> Outcome {
    let mut buf = vec![1f32; len];
    let op = Op::AllReduce {
        buf: (&mut buf).into(),
        reduction: Reduction::Sum,
    };
    comm.run(op, timeout)
}

/// One byte for each rank, but for what rank 1 sends to rank 0.
fn parts_that_differ(comm: &mut Comm) -> Outcome {
    let first = if comm.rank() == 1 { 2 } else { 1 };
    let counts = [first, 1, 1];
    let (send, mut recv) = (vec![7u8; counts.iter().sum()], [0u8; 3]);
    let op = Op::AllToAllV {
        send: (&send).into(),
        send_counts: &counts,
        recv: (&mut recv).into(),
        recv_counts: &[1; 3],
    };
    let outcome = comm.run(op, patient());
    assert_eq!(recv, [0; 3], "something was written");
    outcome
}

/// Ten sums, in the middle of which rank 1 does something else.
fn fault(scenario: &str, mut comm: Comm) -> Outcome {
    for _ in 0..5 {
        sum(&mut comm, 100, patient())?;
    }
    if comm.rank() == 1 {
        return misbehave(scenario, comm);
    }
    let timeout = match scenario {
        "late" | "stopped" => short(),
        _ => patient(),
    };
    for _ in 0..5 {
        sum(&mut comm, 100, timeout)?;
    }
    Ok(())
}

fn misbehave(scenario: &str, mut comm: Comm) -> Outcome {
    match scenario {
        "abort" => {
            comm.abort("cannot open absent");
            Ok(())
        }
        "leaves" => {
            drop(comm);
            Ok(())
        }
        "late" => {
            thread::sleep(Duration::from_secs(300));
            Ok(())
        }
        "panics" => panic!("planted"),
        "exits" => std::process::exit(3),
        "stopped" => signal("STOP"),
        "killed" => signal("KILL"),
        _ => wrong_call(scenario, &mut comm),
    }
}

/// Something else than the others call.
fn wrong_call(scenario: &str, comm: &mut Comm) -> Outcome {
    match scenario {
        "wrong_order" => {
            let mut seed = [0u64];
            comm.run(
                Op::Broadcast {
                    buf: (&mut seed).into(),
                    root: 0,
                },
                patient(),
            )
        }
        "wrong_length" => sum(comm, 99, patient()),
        "wrong_argument" => {
            let mut seed = [0u64];
            comm.run(
                Op::Broadcast {
                    buf: (&mut seed).into(),
                    root: 99,
                },
                patient(),
            )
        }
        other => panic!("no scenario {other}"),
    }
}

/// Sends a signal to this process, and waits for it.
fn signal(name: &str) -> Outcome {
    let id = std::process::id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &id])
        .status();
    assert!(sent.is_ok_and(|status| status.success()), "no kill");
    thread::sleep(Duration::from_secs(300));
    Ok(())
}
