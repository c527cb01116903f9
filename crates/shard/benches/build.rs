//! Building an adjacency, cutting it, and checking a cover on it.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::{Adjacency, AdjacencyBuilder, CsrShard, Partition};

fn bench(c: &mut Criterion) {
    let dense: GeneratorSpec = "er:2000:0.15".parse().unwrap();
    let mut group = c.benchmark_group("shard/build");
    group.throughput(Throughput::Elements(dense.expected_edges() as u64));
    group.bench_function("bits/er:2000:0.15", |b| {
        b.iter(|| {
            let mut builder = AdjacencyBuilder::for_generator(&dense);
            dense.stream(1, &mut builder).unwrap();
            black_box(builder.finish(dense.n_nodes(), false).unwrap())
        });
    });
    group.finish();
    let sparse = "ba:20000:4"
        .parse::<GeneratorSpec>()
        .unwrap()
        .graph(1)
        .unwrap();
    c.bench_function("shard/by_columns/ba:20000:4/half", |b| {
        let partition = Partition::by_nonzeros(&sparse, 2);
        b.iter(|| black_box(CsrShard::by_columns(&sparse, partition.range(1))));
    });
    let adjacency = Adjacency::from_graph(sparse);
    c.bench_function("shard/maximal_matching/ba:20000:4", |b| {
        b.iter(|| black_box(adjacency.maximal_matching()));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
