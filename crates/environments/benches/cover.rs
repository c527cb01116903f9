//! Episodes of minimum vertex cover and the greedy baselines.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use shardgraph_environments::{Environment, Episode, MinimumVertexCover, baselines};
use shardgraph_graph::generate::GeneratorSpec;

fn bench(c: &mut Criterion) {
    let graph = Arc::new(
        "er:250:0.15"
            .parse::<GeneratorSpec>()
            .unwrap()
            .graph(1)
            .unwrap(),
    );
    let picks = baselines::max_degree_greedy(&graph);
    c.bench_function("environments/max_degree_greedy/er:250:0.15", |b| {
        b.iter(|| black_box(baselines::max_degree_greedy(&graph)));
    });
    c.bench_function("environments/episode/er:250:0.15", |b| {
        let mut episode = Episode::<MinimumVertexCover>::new(Arc::clone(&graph));
        b.iter(|| {
            episode.reset();
            for &pick in &picks {
                black_box(episode.step(pick).unwrap());
            }
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
