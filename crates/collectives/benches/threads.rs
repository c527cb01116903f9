//! Seconds per operation between threads, over message sizes and numbers of ranks, after a
//! correctness check of each case.
//!
//! `cargo bench -p shardgraph-collectives` runs everything; a filter such as `all_reduce/P2` runs a
//! part.

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_collectives::{Comm, CommError, Op, Reduction, Timeout, threads};
use std::time::Duration;

/// One rank as well: what a world costs whose operations have nobody to wait for.
const RANKS: [u32; 4] = [1, 2, 4, 6];
const SIZES_BYTES: [usize; 7] = [8, 64, 1 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20];

/// The time of `iterations` calls of `step` on every rank, seen by rank 0, between two barriers.
fn time(
    n_ranks: u32,
    iterations: u64,
    step: impl Fn(&mut Comm, u64) -> Result<(), CommError> + Sync,
) -> Duration {
    let results = threads::run(n_ranks, |mut comm| {
        for warm_up in 0..3 {
            step(&mut comm, warm_up)?;
        }
        comm.run(Op::Barrier, Timeout::default())?;
        let start = WallTime.start();
        for iteration in 0..iterations {
            step(&mut comm, iteration)?;
        }
        Ok::<_, CommError>(WallTime.end(start))
    });
    let elapsed: Result<Vec<Duration>, CommError> = results.into_iter().flatten().collect();
    elapsed.expect("every rank ends well")[0]
}

thread_local! {
    static BUFFERS: std::cell::RefCell<(Vec<f32>, Vec<f32>)> = Default::default();
}

/// Runs `op` on the thread's own buffers, which keep their capacity from call to call.
fn with_buffers(
    send_len: usize,
    recv_len: usize,
    op: impl FnOnce(&mut [f32], &mut [f32]) -> Result<(), CommError>,
) -> Result<(), CommError> {
    BUFFERS.with_borrow_mut(|(send, recv)| {
        send.resize(send_len, 0.0);
        recv.resize(recv_len, 0.0);
        op(send, recv)
    })
}

fn all_reduce(comm: &mut Comm, len: usize, reduction: Reduction) -> Result<(), CommError> {
    with_buffers(len, 0, |buf, _| {
        let own = comm.rank() as f32;
        buf[len / 2] = own;
        let op = Op::AllReduce {
            buf: (&mut *buf).into(),
            reduction,
        };
        comm.run(op, Timeout::default())?;
        let last = comm.size() as f32 - 1.0;
        let wanted = match reduction {
            Reduction::Sum => last * (last + 1.0) / 2.0,
            Reduction::Max => last,
            Reduction::Min => 0.0,
        };
        assert!((buf[len / 2] - wanted).abs() < 0.5);
        // Zeros elsewhere stay zeros, so the buffer need not be filled between the calls.
        buf[len / 2] = 0.0;
        Ok(())
    })
}

fn all_reduce_sum(comm: &mut Comm, len: usize) -> Result<(), CommError> {
    all_reduce(comm, len, Reduction::Sum)
}

fn all_reduce_max(comm: &mut Comm, len: usize) -> Result<(), CommError> {
    all_reduce(comm, len, Reduction::Max)
}

fn all_gather(comm: &mut Comm, len: usize) -> Result<(), CommError> {
    let n_ranks = comm.size() as usize;
    let part = len.div_ceil(n_ranks);
    with_buffers(part, part * n_ranks, |send, recv| {
        let op = Op::AllGather {
            send: (&*send).into(),
            recv: recv.into(),
        };
        comm.run(op, Timeout::default())
    })
}

fn reduce_scatter(comm: &mut Comm, len: usize) -> Result<(), CommError> {
    let n_ranks = comm.size() as usize;
    let part = len.div_ceil(n_ranks);
    with_buffers(part * n_ranks, part, |send, recv| {
        let op = Op::ReduceScatterV {
            send: (&*send).into(),
            recv: recv.into(),
            counts: &vec![part; n_ranks],
            reduction: Reduction::Sum,
        };
        comm.run(op, Timeout::default())
    })
}

type Step = fn(&mut Comm, usize) -> Result<(), CommError>;

/// The size is that of the longer of the two buffers.
fn sizes(criterion: &mut Criterion) {
    let steps: [(&str, Step); 4] = [
        ("all_reduce_sum", all_reduce_sum),
        ("all_reduce_max", all_reduce_max),
        ("all_gather", all_gather),
        ("reduce_scatter", reduce_scatter),
    ];
    for (name, step) in steps {
        for n_ranks in RANKS {
            let mut group = criterion.benchmark_group(format!("{name}/P{n_ranks}"));
            for bytes in SIZES_BYTES {
                group.throughput(Throughput::Bytes(bytes as u64));
                group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
                    bencher.iter_custom(|iterations| {
                        time(n_ranks, iterations, |comm, _| step(comm, bytes / 4))
                    });
                });
            }
            group.finish();
        }
    }
}

fn barrier(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("barrier");
    for n_ranks in RANKS {
        group.bench_function(BenchmarkId::from_parameter(n_ranks), |bencher| {
            bencher.iter_custom(|iterations| {
                time(n_ranks, iterations, |comm, _| {
                    comm.run(Op::Barrier, Timeout::default())
                })
            });
        });
    }
    group.finish();
}

/// The gradient of the structure2vec model at K = 32 (4224 floats) in 64 row blocks, cut over the
/// ranks.
fn exact_sum(criterion: &mut Criterion) {
    const N_BLOCKS: usize = 64;
    let mut group = criterion.benchmark_group("exact_sum");
    for len in [1usize, 64, 4224] {
        for n_ranks in RANKS {
            let id = BenchmarkId::new(format!("{len}x{N_BLOCKS}"), format!("P{n_ranks}"));
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|iterations| {
                    time(n_ranks, iterations, |comm, _| {
                        let (rank, n_ranks) = (comm.rank() as usize, comm.size() as usize);
                        let own = N_BLOCKS * (rank + 1) / n_ranks - N_BLOCKS * rank / n_ranks;
                        with_buffers(own * len, len, |blocks, out| {
                            blocks[0] = 1.0;
                            comm.exact_sum(blocks, out, Timeout::default())?;
                            assert!((out[0] - n_ranks as f32).abs() < 0.5);
                            Ok(())
                        })
                    })
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = barrier, exact_sum, sizes
}
criterion_main!(benches);
