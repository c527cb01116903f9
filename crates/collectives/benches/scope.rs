//! What a scope costs, and that computing beside an all-reduce overlaps with it.
//!
//! `cargo bench -p shardgraph-collectives --bench scope` prints the seconds of computing alone, of an all-reduce alone, of one after the other
//! and of both in a scope.

use criterion::measurement::{Measurement, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use shardgraph_collectives::{Comm, CommError, Deadline, Op, Reduction, tcp, threads};
use std::hint::black_box;
use std::time::Duration;

const N_RANKS: u32 = 2;
/// Floats of the all-reduce.
const LENGTHS: [usize; 3] = [1024, 65_536, 524_288];
/// Steps of computing, one multiplication that waits for the one before: about a millisecond.
const N_STEPS: u32 = 350_000;

type World = fn(&(dyn Fn(Comm) -> Result<Duration, CommError> + Sync)) -> Duration;

const WORLDS: [(&str, World); 2] = [
    ("threads", |body| slowest(threads::run(N_RANKS, body))),
    ("tcp", |body| slowest(tcp::run(N_RANKS, body))),
];

fn slowest(results: Vec<Result<Result<Duration, CommError>, CommError>>) -> Duration {
    let times: Result<Vec<Duration>, CommError> = results.into_iter().flatten().collect();
    let times = times.expect("every rank ends well");
    times.into_iter().max().unwrap_or_default()
}

fn compute() {
    let mut x = 1.000_001f32;
    for _ in 0..N_STEPS {
        x = black_box(x * 0.999_999_9);
    }
    black_box(x);
}

fn all_reduce(buf: &mut [f32]) -> Op<'_> {
    Op::AllReduce {
        buf: buf.into(),
        reduction: Reduction::Sum,
    }
}

/// A zero buffer stays one, so it needs no filling between the calls.
fn time(world: World, len: usize, iterations: u64, step: Step) -> Duration {
    world(&|mut comm| {
        let mut buf = vec![0f32; len];
        for _ in 0..3 {
            step(&mut comm, &mut buf)?;
        }
        comm.run(Op::Barrier, Deadline::default())?;
        let start = WallTime.start();
        for _ in 0..iterations {
            step(&mut comm, &mut buf)?;
        }
        Ok(WallTime.end(start))
    })
}

type Step = fn(&mut Comm, &mut [f32]) -> Result<(), CommError>;

const STEPS: [(&str, Step); 5] = [
    ("computing", |_, _| {
        compute();
        Ok(())
    }),
    ("all_reduce", |comm, buf| {
        comm.run(all_reduce(buf), Deadline::default())
    }),
    ("all_reduce_in_scope", |comm, buf| {
        comm.scope(|scope| {
            scope
                .start(all_reduce(buf), Deadline::default())
                .wait()
                .map(drop)
        })
    }),
    ("one_after_the_other", |comm, buf| {
        comm.run(all_reduce(buf), Deadline::default())?;
        compute();
        Ok(())
    }),
    ("beside", |comm, buf| {
        comm.scope(|scope| {
            let pending = scope.start(all_reduce(buf), Deadline::default());
            compute();
            pending.wait().map(drop)
        })
    }),
];

fn overlap(criterion: &mut Criterion) {
    for (backend, world) in WORLDS {
        for len in LENGTHS {
            let mut group = criterion.benchmark_group(format!("scope/{backend}/{}", 4 * len));
            for (name, step) in STEPS {
                group.bench_function(name, |bencher| {
                    bencher.iter_custom(|iterations| time(world, len, iterations, step));
                });
            }
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_secs(1));
    targets = overlap
}
criterion_main!(benches);
