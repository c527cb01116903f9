//! Speed of reading and generating graphs. `cargo bench -p shardgraph-costgraph --bench import`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_costgraph::generate::{RandomGraph, Synthetic, synthetic};
use shardgraph_costgraph_io::{ReadOptions, read_bytes, write_cost_graph_text, write_jsonl};
use std::{fs, hint::black_box, path::Path};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
const DATA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/costgraphs"
);

fn recipe(n: u32) -> Synthetic {
    Synthetic {
        models: vec![RandomGraph::WattsStrogatz { k: 4, p: 0.3 }],
        min_nodes: n,
        max_nodes: n,
    }
}

/// Made, small and, where the data folder is there, real files.
fn files() -> Vec<(String, Vec<u8>)> {
    let graph = synthetic(&recipe(10_000), 1, 0).expect("a graph");
    let (mut text, mut line) = (Vec::new(), Vec::new());
    write_cost_graph_text(&graph, &mut text).expect("written");
    write_jsonl(&graph, &mut line).expect("written");
    let mut files = vec![("made.pbtxt".to_owned(), text), ("made.jsonl".into(), line)];
    let real = [
        (CORPUS, "light_squeezenet.onnx"),
        (DATA, "graphnet.jsonl.gz"),
        (DATA, "torch_graphs.jsonl.gz"),
        (DATA, "tf_costgraph/NASNetMobile_train.pb.gz"),
    ];
    for (folder, name) in real {
        if let Ok(bytes) = fs::read(Path::new(folder).join(name)) {
            files.push((name.to_owned(), bytes));
        }
    }
    files
}

fn reading(c: &mut Criterion) {
    let options = ReadOptions::default();
    let mut group = c.benchmark_group("read");
    group.sample_size(10);
    for (name, bytes) in files() {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(&name), |b| {
            b.iter(|| {
                let graphs = read_bytes(&name, &bytes, &options).expect("opened");
                graphs
                    .map(|g| g.expect("read").graph.n_ops())
                    .sum::<usize>()
            });
        });
    }
    group.finish();
}

fn generating(c: &mut Criterion) {
    let mut group = c.benchmark_group("synthetic");
    for n in [120, 1000, 10_000] {
        let recipe = recipe(n);
        group.throughput(Throughput::Elements(u64::from(n)));
        group.bench_function(BenchmarkId::from_parameter(n), |b| {
            b.iter(|| synthetic(black_box(&recipe), 1, 0).expect("a graph"));
        });
    }
    group.finish();
}

criterion_group!(benches, reading, generating);
criterion_main!(benches);
