//! A node's score: by the closed form, and by the model.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_layers::autodiff::collectives::Comm;
use shardgraph_layers::autodiff::device::Device;
use shardgraph_layers::autodiff::{Ctx, Eager, Params};
use shardgraph_layers::shard::Partition;
use shardgraph_layers::{BatchLayout, Group};
use shardgraph_layers::{Path, Policy, PolicyShape, ScoreTable, StateBatch};

const NODES: usize = 4096;

fn bench(c: &mut Criterion) {
    let mut params = Params::new();
    let mut angle = 0.0f32;
    let shape = PolicyShape {
        embed_dim: 32,
        n_layers: 2,
        ..PolicyShape::default()
    };
    let mut init = || {
        angle += 1.0;
        0.1 * angle.sin()
    };
    let policy = Policy::build(&mut params, shape, &mut init).unwrap();
    let table = ScoreTable::new(&policy, &params).unwrap();
    let ratio = |i: usize| (i * 37 % NODES) as f32 / NODES as f32;
    let mut group = c.benchmark_group("layers/node_scores");
    group.throughput(Throughput::Elements(NODES as u64));
    group.bench_function("table/4096", |b| {
        b.iter(|| {
            let mut hint = 0;
            let scores = (0..NODES).map(|i| table.score_near(0.5, 0.5 * ratio(i), &mut hint));
            black_box(scores.fold(f32::MIN, f32::max))
        });
    });
    let layout = BatchLayout::new(
        vec![Group {
            partition: Partition::by_rows(NODES as u32, 1),
            n_states: 1,
        }],
        0,
    );
    let batch = StateBatch {
        inputs: None,
        counted: None,
        layout: Arc::new(layout),
        node: vec![0.0; NODES],
        edge: (0..NODES).flat_map(|_| [0.5, 0.0]).collect(),
        neighbor_degree: (0..NODES).map(ratio).collect(),
        propagation: None,
    };
    let device = Device::host();
    group.bench_function("model/4096", |b| {
        b.iter(|| {
            let mut comm = Comm::solo();
            let mut ctx = Eager::new(&device, &mut comm, &params);
            let embed = policy
                .embedding
                .embed(&mut ctx, &batch, Path::Collapsed)
                .unwrap();
            let scores = policy
                .head
                .node_values(&mut ctx, embed, &batch.layout)
                .unwrap();
            black_box(ctx.shape(scores))
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
