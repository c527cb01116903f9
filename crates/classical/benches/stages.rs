//! What reductions, a thousand steps of local search and an optimum cost. `cargo bench -p shardgraph-classical`

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{
    Limits, Rules, SearchOptions, check_cover, edge_greedy, improve, optimum, reduce,
};
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;

fn graph(spec: &str) -> Graph {
    let spec: GeneratorSpec = spec.parse().expect("a generator");
    spec.graph(1).expect("a graph")
}

fn reductions(c: &mut Criterion) {
    let mut group = c.benchmark_group("reduce");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    for spec in ["ba:20000:2", "er:20000:0.0003", "er:1000:0.15"] {
        let graph = graph(spec);
        group.throughput(Throughput::Elements(graph.n_edges()));
        for (name, rules) in [("all", Rules::all()), ("removing", Rules::removing())] {
            group.bench_function(BenchmarkId::new(name, spec), |b| {
                b.iter(|| reduce(black_box(&graph), &rules, &Budget::unlimited()));
            });
        }
    }
    group.finish();
}

fn search(c: &mut Criterion) {
    const STEPS: u64 = 1000;
    let mut group = c.benchmark_group("search");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(STEPS));
    for spec in ["rb:59:26:0.25:2.8", "ba:20000:20", "er:3000:0.15"] {
        let graph = graph(spec);
        let start = edge_greedy(&graph);
        for compared in [16_384, 1024] {
            let options = SearchOptions {
                steps: STEPS,
                compared,
                ..SearchOptions::default()
            };
            let name = if compared == 1024 { "part" } else { "default" };
            let found = improve(&graph, &start, &options, &Budget::unlimited()).expect("a cover");
            check_cover(&graph, &found.cover).expect("a cover");
            group.bench_function(BenchmarkId::new(name, spec), |b| {
                b.iter(|| improve(&graph, &start, &options, &Budget::unlimited()));
            });
        }
    }
    group.finish();
}

fn exact(c: &mut Criterion) {
    let mut group = c.benchmark_group("optimum");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    for spec in ["er:60:0.1", "ba:100:4"] {
        let graph = graph(spec);
        group.bench_function(spec, |b| {
            b.iter(|| {
                optimum(&graph, &Limits::default(), &Budget::unlimited()).expect("an optimum")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, reductions, search, exact);
criterion_main!(benches);
