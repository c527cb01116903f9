//! What training would get from memory alone: rows of 512 bytes at random places in tables beyond the caches, read and written, seven a
//! sample, and nothing else. `cargo xtask bench micro`, beside `cargo xtask bench embed/samples` in the same minutes: training can be
//! above it, because it works on parts that stay in the processor's cache.

use std::thread;
use std::time::Duration;

use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use shardgraph_device::{Buffer, Device, prefetch_line};
use shardgraph_random::KeyedRng;

/// Numbers of a row.
const DIM: usize = 128;
/// Rows of a sample: a vertex, its edge's context and five negatives.
const ROWS: u64 = 7;
/// Samples of a run.
const SAMPLES: u64 = 1 << 17;
/// Numbers of a line of the cache.
const LINE: usize = 16;
/// Rows that are on their way to the cache.
const AHEAD: usize = 16;
/// Rows of both tables of 1138499 nodes.
const TABLE: usize = 2 * 1_138_499;

/// What a thread works on: a share of the rows, and which of them.
struct Share {
    rows: Buffer,
    places: Vec<u32>,
}

fn share(number: u64, n_threads: u64) -> Share {
    let n_rows = TABLE / n_threads as usize;
    let rows = Device::host().zeros_on_huge_pages::<f32>(n_rows * DIM);
    let mut rows = rows.expect("memory for the tables");
    rows.as_host_mut().expect("host memory").fill(0.0); // their first touch
    let mut stream = KeyedRng::new(1, "random rows", number);
    let places = (0..SAMPLES * ROWS / n_threads).map(|_| stream.below(n_rows as u64) as u32);
    Share {
        places: places.collect(),
        rows,
    }
}

/// Reads and writes the rows.
fn update(share: &mut Share) {
    let cells = share.rows.as_host_mut().expect("host memory");
    for (at, &place) in share.places.iter().enumerate() {
        if let Some(&later) = share.places.get(at + AHEAD) {
            let row = &cells[later as usize * DIM..][..DIM];
            row.chunks(LINE)
                .for_each(|line| prefetch_line(line.as_ptr()));
        }
        for cell in &mut cells[place as usize * DIM..][..DIM] {
            *cell += 1.0;
        }
    }
}

fn random_rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("random_rows");
    // Of these seconds most go into making the tables: a gigabyte, twice.
    group
        .sample_size(10)
        .sampling_mode(SamplingMode::Flat)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(SAMPLES));
    for n_threads in [1, 2] {
        let mut shares: Vec<Share> = (0..n_threads).map(|k| share(k, n_threads)).collect();
        group.bench_function(BenchmarkId::new("threads", n_threads), |b| {
            b.iter(|| {
                thread::scope(|scope| {
                    for share in &mut shares {
                        scope.spawn(|| update(share));
                    }
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, random_rows);
criterion_main!(benches);
