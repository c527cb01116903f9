//! Recording into and sampling from an episode-prefix memory.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_replay::{Ending, EpisodeMemory};

const CAPACITY: usize = 50_000;

fn fill(memory: &mut EpisodeMemory, n_transitions: usize) {
    for i in 0..n_transitions {
        if i % 20 == 0 {
            if i > 0 {
                memory.end_episode(Ending::Terminated).unwrap();
            }
            memory.begin_episode(i as u64);
        }
        memory.record(i as u32 % 20, -1.0, None).unwrap();
    }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay");
    group.throughput(Throughput::Elements(2 * CAPACITY as u64));
    group.bench_function("record/50000", |b| {
        b.iter(|| {
            let mut memory = EpisodeMemory::new(CAPACITY);
            fill(&mut memory, 2 * CAPACITY);
            black_box(memory.len())
        });
    });
    let mut memory = EpisodeMemory::new(CAPACITY);
    fill(&mut memory, 2 * CAPACITY);
    let mut state = 1u64;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % n
    };
    let mut out = Vec::new();
    group.throughput(Throughput::Elements(64));
    group.bench_function("sample/64", |b| {
        b.iter(|| memory.sample_into(64, &mut below, black_box(&mut out)));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
