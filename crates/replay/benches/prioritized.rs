//! A prioritised memory of 131 thousand and of 1 million CartPole transitions, full: inserting,
//! drawing, copying rows out, and new priorities for random rows.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_replay::{
    ColumnLayout, ElementKind, ItemId, LeafRef, Prioritization, PrioritizedBatch,
    PrioritizedMemory, Rows,
};

const BATCHES: [usize; 3] = [32, 128, 512];

/// A small generator: the memory's speed is asked, not the generator's.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 11
    }

    fn uniform(&mut self) -> f64 {
        self.bits() as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

fn layout() -> ColumnLayout {
    ColumnLayout::new(&[
        ("observation", ElementKind::F32, 4),
        ("next_observation", ElementKind::F32, 4),
        ("action", ElementKind::U32, 1),
        ("reward", ElementKind::F32, 1),
        ("discount", ElementKind::F32, 1),
    ])
    .unwrap()
}

fn insert(memory: &mut PrioritizedMemory, number: u32) {
    let x = number as f32;
    let cells = [
        LeafRef::F32(&[x, 0.1, 0.2, 0.3]),
        LeafRef::F32(&[x, 0.4, 0.5, 0.6]),
        LeafRef::U32(&[number & 1]),
        LeafRef::F32(&[1.0]),
        LeafRef::F32(&[0.99]),
    ];
    memory.insert(black_box(&cells)).unwrap();
}

/// Full, with TD errors from 0 to 1.
fn full(capacity: usize, random: &mut Random) -> PrioritizedMemory {
    let mut memory = PrioritizedMemory::new(layout(), capacity, Prioritization::default()).unwrap();
    for number in 0..capacity as u32 {
        insert(&mut memory, number);
    }
    let ids: Vec<_> = (0..capacity as u64).map(ItemId).collect();
    let errors: Vec<_> = ids.iter().map(|_| random.uniform() as f32).collect();
    memory.update(&ids, &errors).unwrap();
    memory
}

fn draws(c: &mut Criterion, memory: &mut PrioritizedMemory, random: &mut Random) {
    let mut group = c.benchmark_group(format!("prioritized/{}", memory.capacity()));
    let (mut batch, mut rows) = (PrioritizedBatch::default(), Rows::new(layout()));
    for n in BATCHES {
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("sample", n), |b| {
            b.iter(|| {
                draw(memory, n, random, &mut batch);
                black_box(&batch);
            });
        });
        group.bench_function(BenchmarkId::new("sample+gather", n), |b| {
            b.iter(|| {
                draw(memory, n, random, &mut batch);
                memory.gather_into(&batch.ids, &mut rows).unwrap();
                black_box(&rows);
            });
        });
    }
    group.finish();
}

fn draw(
    memory: &mut PrioritizedMemory,
    n: usize,
    random: &mut Random,
    batch: &mut PrioritizedBatch,
) {
    let mut uniform = || random.uniform();
    memory.sample_into(n, 0.4, &mut uniform, batch).unwrap();
}

fn updates(c: &mut Criterion, memory: &mut PrioritizedMemory, random: &mut Random) {
    let capacity = memory.capacity() as u64;
    let mut group = c.benchmark_group(format!("prioritized/{capacity}"));
    let oldest = memory.n_inserted() - capacity;
    for n in BATCHES {
        let (mut ids, mut errors) = (vec![ItemId(0); n], vec![0.0; n]);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("update", n), |b| {
            b.iter(|| {
                for (id, error) in ids.iter_mut().zip(&mut errors) {
                    let bits = random.bits();
                    *id = ItemId(oldest + (bits >> 21) % capacity);
                    *error = (bits & 0xff_ffff) as f32 * 6e-8;
                }
                black_box(memory.update(&ids, &errors).unwrap());
            });
        });
    }
    group.finish();
}

/// A quarter of the memory, and the next draw: it makes the sums over what was inserted.
fn inserts(c: &mut Criterion, memory: &mut PrioritizedMemory, random: &mut Random) {
    let mut group = c.benchmark_group(format!("prioritized/{}", memory.capacity()));
    let n = memory.capacity() as u32 / 4;
    let mut batch = PrioritizedBatch::default();
    group.throughput(Throughput::Elements(u64::from(n)));
    group.bench_function("insert", |b| {
        b.iter(|| {
            (0..n).for_each(|number| insert(memory, number));
            draw(memory, 1, random, &mut batch);
        });
    });
    group.finish();
}

fn bench(c: &mut Criterion) {
    for capacity in [1 << 17, 1_000_000] {
        let mut random = Random(1);
        let mut memory = full(capacity, &mut random);
        draws(c, &mut memory, &mut random);
        updates(c, &mut memory, &mut random);
        inserts(c, &mut memory, &mut random);
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
