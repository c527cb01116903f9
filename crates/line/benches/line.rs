//! What an epoch and an import cost. `cargo bench -p shardgraph-line --bench line`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_device::Device;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_line::{
    Config, ImportOptions, NodeLabels, Order, Precision, Store, import_file, train,
};

const NODES: u32 = 20_000;

/// The edges of a graph whose tables of 128 columns are larger than the caches of one core.
fn edges() -> Vec<(u32, u32)> {
    let spec: GeneratorSpec = format!("ba:{NODES}:4").parse().expect("a generator");
    let graph = spec.graph(1).expect("a graph");
    let later = |u: u32| graph.neighbors(u).iter().filter(move |&&v| u < v);
    (0..NODES)
        .flat_map(|u| later(u).map(move |&v| (u, v)))
        .collect()
}

fn epochs(c: &mut Criterion) {
    let mut group = c.benchmark_group("epoch");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    let edges = edges();
    let labels = NodeLabels::numbers(NODES);
    let store = Store::from_edges(NODES, &edges, 16, labels).expect("a store");
    group.throughput(Throughput::Elements(store.n_edges()));
    for (name, order, share, precision) in [
        ("order 1", Order::First, 1, Precision::Fp32),
        ("order 2", Order::Second, 1, Precision::Fp32),
        ("order 2 share 16", Order::Second, 16, Precision::Fp32),
        ("order 2 share 16 fp16", Order::Second, 16, Precision::Fp16),
    ] {
        let config = Config {
            order,
            shared_negatives: share,
            precision,
            epochs: 1,
            ..Config::default()
        };
        group.bench_function(name, |b| {
            b.iter(|| {
                let trained = train(&store, &config, &Device::host(), &mut |_| {});
                trained.expect("rows").n_samples
            });
        });
    }
    group.finish();
}

fn write(path: &Path, edges: &[(u32, u32)], name: impl Fn(u32) -> String) {
    let mut out = BufWriter::new(File::create(path).expect("room for a file"));
    for &(u, v) in edges {
        writeln!(out, "{} {}", name(u), name(v)).expect("room for a file");
    }
    out.flush().expect("room for a file");
}

fn imports(c: &mut Criterion) {
    let mut group = c.benchmark_group("import");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    let folder = tempfile::tempdir().expect("a folder");
    let edges = edges();
    let (numbers, names) = (folder.path().join("numbers"), folder.path().join("names"));
    write(&numbers, &edges, |v| v.to_string());
    write(&names, &edges, |v| format!("node-{v}"));
    group.throughput(Throughput::Elements(edges.len() as u64));
    let out = folder.path().join("store");
    for (ids, file) in [("integer ids", &numbers), ("text ids", &names)] {
        for (memory, limit) in [("all in memory", 1 << 30), ("through files", 4 << 20)] {
            let options = ImportOptions {
                memory: limit,
                ..ImportOptions::default()
            };
            group.bench_function(BenchmarkId::new(ids, memory), |b| {
                b.iter(|| import_file(file, &out, &options).expect("a store").n_edges);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, epochs, imports);
criterion_main!(benches);
