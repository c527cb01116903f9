//! What a rank does: times each operation, and checks it on integers held in floats, so that every
//! order of additions gives the same.

use crate::arguments::Arguments;
use crate::model::algorithm_of_name;
use criterion::measurement::{Measurement, WallTime};
use shardgraph_collectives::{Algorithm, Comm, CommError, Op, Reduction, Timeout};
use std::time::Duration;

/// The timed repetitions come in this many groups; each gives one sample.
const N_SAMPLES: u64 = 5;
/// The values repeat with this period.
const PERIOD: usize = 37;
/// The root of the broadcasts: not rank 0, so that nothing special about that one helps.
const ROOT: u32 = 1;

/// One operation on buffers of a size.
struct Point<'a> {
    op: &'a str,
    algorithm: Option<Algorithm>,
    /// Elements of the shorter buffer of a rank.
    count: usize,
    timeout: Timeout,
}

/// Measures everything that `arguments` name, on this world.
pub(crate) fn measure(mut comm: Comm, arguments: &Arguments, backend: &str) -> Result<(), String> {
    let mut n_wrong = 0;
    for op in &arguments.ops {
        for name in &arguments.algorithms {
            let algorithm = algorithm_of_name(name);
            if algorithm.is_none() && name != "auto" {
                return Err(format!("no algorithm {name:?}"));
            }
            if algorithm.is_some() && !has_choice(backend, op) {
                continue;
            }
            comm.use_algorithm(algorithm);
            let mut last_count = 0;
            for bytes in arguments.sizes() {
                let mut point = Point {
                    op,
                    algorithm,
                    count: 0,
                    timeout: Timeout::after(Duration::from_secs_f64(arguments.timeout_seconds)),
                };
                point.count = (bytes / 4 / point.n_parts(&comm)).max(1);
                // Sizes of less than an element a rank are all the same.
                if point.count > last_count {
                    let line = point.line(&mut comm, arguments);
                    let (line, wrong) =
                        line.map_err(|error| format!("{op} of {bytes}: {error}"))?;
                    n_wrong += wrong;
                    if comm.rank() == 0 {
                        println!("POINT backend={backend} {line}");
                    }
                }
                last_count = point.count;
            }
        }
    }
    match n_wrong {
        0 => Ok(()),
        _ => Err(format!("rank {} found {n_wrong} wrong values", comm.rank())),
    }
}

/// True where a back end has several algorithms for an operation.
fn has_choice(backend: &str, op: &str) -> bool {
    matches!(
        (backend, op),
        ("tcp" | "tcp-threads", "all_reduce" | "broadcast") | ("mpi", "all_reduce")
    )
}

/// Element `i` of what `rank` sends.
fn value(rank: usize, i: usize) -> f32 {
    ((rank * 17 + i * 5 + rank * i) % PERIOD) as f32
}

impl Point<'_> {
    /// How many parts the longer buffer has.
    fn n_parts(&self, comm: &Comm) -> usize {
        match self.op {
            "all_reduce" | "broadcast" => 1,
            _ => comm.size() as usize,
        }
    }

    /// Elements of the send buffer and of the receive buffer, which is none where the operation
    /// works in place.
    fn lens(&self, comm: &Comm) -> (usize, usize) {
        let total = self.count * self.n_parts(comm);
        match self.op {
            "all_reduce" | "broadcast" => (self.count, 0),
            "all_gather" => (self.count, total),
            "reduce_scatter" => (total, self.count),
            _ => (total, total),
        }
    }

    /// Times and checks; the words that describe the result, and how many values are wrong on this
    /// rank.
    fn line(&self, comm: &mut Comm, arguments: &Arguments) -> Result<(String, u64), CommError> {
        let (n_send, n_recv) = self.lens(comm);
        let (mut send, mut recv) = (vec![0f32; n_send], vec![0f32; n_recv]);
        let seconds = self.time(comm, arguments, &mut send, &mut recv)?;
        let (mut own_wrong, mut n_wrong) = (0, "N/A".to_owned());
        if arguments.checks {
            own_wrong = self.count_wrong(comm, &mut send, &mut recv)?;
            let all = from_all(comm, own_wrong, self.timeout)?;
            n_wrong = all.into_iter().sum::<u64>().to_string();
        }
        let (redop, root) = match self.op {
            "all_reduce" | "reduce_scatter" => ("sum", "-1".to_owned()),
            "broadcast" => ("none", (ROOT % comm.size()).to_string()),
            _ => ("none", "-1".to_owned()),
        };
        let seconds: Vec<String> = seconds.iter().map(|s| format!("{s:.4e}")).collect();
        let line = format!(
            "op={} redop={redop} root={root} ranks={} bytes={} count={} algorithm={} wrong={n_wrong} seconds={}",
            self.op,
            comm.size(),
            4 * self.count * self.n_parts(comm),
            self.count,
            self.algorithm.map_or("auto", Algorithm::name),
            seconds.join(",")
        );
        Ok((line, own_wrong))
    }

    /// Seconds of one repetition, several times; each is that of the slowest rank. Zeros stay
    /// zeros, so nothing is filled in between.
    fn time(
        &self,
        comm: &mut Comm,
        arguments: &Arguments,
        send: &mut [f32],
        recv: &mut [f32],
    ) -> Result<Vec<f64>, CommError> {
        let mut group = |comm: &mut Comm, n: u64| {
            comm.run(Op::Barrier, self.timeout)?;
            let start = WallTime.start();
            for _ in 0..n {
                self.run(comm, send, recv)?;
            }
            let own = WallTime.end(start).as_nanos() as u64;
            let all = from_all(comm, own, self.timeout)?;
            let slowest = all.into_iter().max().unwrap_or(own);
            Ok(slowest as f64 * 1e-9 / n as f64)
        };
        let warm = group(comm, arguments.n_warm_ups.max(1))?;
        // All ranks have the same numbers here, and so do the same number of repetitions.
        let fitting = arguments.budget_ms as f64 * 1e-3 / warm.max(1e-9);
        let n_all = (fitting as u64).min(arguments.n_iterations).max(2);
        let n_groups = n_all.min(N_SAMPLES);
        (0..n_groups)
            .map(|_| group(comm, n_all / n_groups))
            .collect()
    }

    fn run(&self, comm: &mut Comm, send: &mut [f32], recv: &mut [f32]) -> Result<(), CommError> {
        let counts = vec![self.count; comm.size() as usize];
        let reduction = Reduction::Sum;
        let op = match self.op {
            "all_reduce" => Op::AllReduce {
                buf: send.into(),
                reduction,
            },
            "broadcast" => Op::Broadcast {
                buf: send.into(),
                root: ROOT % comm.size(),
            },
            "all_gather" => Op::AllGather {
                send: (&*send).into(),
                recv: recv.into(),
            },
            "reduce_scatter" => Op::ReduceScatterV {
                send: (&*send).into(),
                recv: recv.into(),
                counts: &counts,
                reduction,
            },
            "all_to_all" => Op::AllToAllV {
                send: (&*send).into(),
                send_counts: &counts,
                recv: recv.into(),
                recv_counts: &counts,
            },
            other => panic!("no operation {other:?}"),
        };
        comm.run(op, self.timeout)
    }

    /// Elements of this rank that are not what they are to be.
    fn count_wrong(
        &self,
        comm: &mut Comm,
        send: &mut [f32],
        recv: &mut [f32],
    ) -> Result<u64, CommError> {
        let (rank, n_ranks) = (comm.rank() as usize, comm.size() as usize);
        for (i, x) in send.iter_mut().enumerate() {
            *x = value(rank, i);
        }
        recv.fill(-1.0);
        self.run(comm, send, recv)?;
        let of = |rank: usize| -> Vec<f32> { (0..PERIOD).map(|i| value(rank, i)).collect() };
        let sums: Vec<f32> = (0..PERIOD)
            .map(|i| (0..n_ranks).map(|rank| value(rank, i)).sum())
            .collect();
        let differing = |got: &[f32], wanted: &[f32], start: usize| {
            let pairs = got.iter().zip(wanted.iter().cycle().skip(start % PERIOD));
            pairs
                .filter(|(got, wanted)| got.to_bits() != wanted.to_bits())
                .count() as u64
        };
        let parts = recv.chunks_exact(self.count).enumerate();
        let own = match self.op {
            "all_reduce" => differing(send, &sums, 0),
            "broadcast" => differing(send, &of(ROOT as usize % n_ranks), 0),
            "reduce_scatter" => differing(recv, &sums, rank * self.count),
            "all_gather" => parts
                .map(|(from, part)| differing(part, &of(from), 0))
                .sum(),
            _ => {
                let start = rank * self.count;
                parts
                    .map(|(from, part)| differing(part, &of(from), start))
                    .sum()
            }
        };
        Ok(own)
    }
}

/// The numbers of all ranks. The own one is not taken from what came, so that no rank can be made
/// to forget what it found.
fn from_all(comm: &mut Comm, own: u64, timeout: Timeout) -> Result<Vec<u64>, CommError> {
    let mut all = vec![0; comm.size() as usize];
    let send = [own];
    let op = Op::AllGather {
        send: (&send).into(),
        recv: (&mut all).into(),
    };
    comm.run(op, timeout)?;
    all[comm.rank() as usize] = own;
    Ok(all)
}
