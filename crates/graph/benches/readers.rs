//! Speed of parsing, building, writing and generating. `cargo bench -p shardgraph-graph`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_graph::{
    EdgeSink, Error, Format, Graph, Labels, ReadOptions, WriteOptions, generate::GeneratorSpec,
    read_bytes, stream_bytes, write_graph,
};
use std::{hint::black_box, path::Path};

/// A sink that keeps nothing but a sum, so that a bench times the source alone.
struct Sum(u64);

impl EdgeSink for Sum {
    fn edge(&mut self, u: u32, v: u32, _weight: f32) -> Result<(), Error> {
        self.0 += u64::from(u) ^ u64::from(v);
        Ok(())
    }
}

fn spec(text: &str) -> GeneratorSpec {
    text.parse().expect("a valid specification")
}

fn graph() -> Graph {
    spec("ba:60000:10").graph(1).expect("a graph")
}

/// One graph as a file of every format, named so that the extension decides.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let graph = graph();
    let names = [
        "g.mtx", "g.el", "g.clq", "g.metis", "g.gr", "g.el.gz", "g.el.zst",
    ];
    let write = |name: &str| {
        let path = folder.join(name);
        write_graph(&path, &graph, None, WriteOptions::default()).expect("written");
        (name.to_owned(), std::fs::read(path).expect("read back"))
    };
    names.into_iter().map(write).collect()
}

fn parsing(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let files = files(folder.path());
    let options = ReadOptions::default();
    let mut group = c.benchmark_group("stream");
    for (name, bytes) in &files {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), bytes, |b, bytes| {
            b.iter(|| {
                let mut sum = Sum(0);
                stream_bytes(name, bytes, &options, &mut sum).expect("streamed");
                black_box(sum.0)
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("read");
    for (name, bytes) in files.iter().take(2) {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), bytes, |b, bytes| {
            b.iter(|| read_bytes(name, bytes, &options).expect("read").graph);
        });
    }
    group.finish();
}

fn writing(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = graph();
    let labels = Labels::offset(1, graph.n_nodes());
    let mut group = c.benchmark_group("write");
    group.throughput(Throughput::Elements(graph.n_edges()));
    for format in [Format::EdgeList, Format::Metis] {
        let options = WriteOptions {
            format: Some(format),
            ..WriteOptions::default()
        };
        let path = folder.path().join("written");
        group.bench_function(format.name(), |b| {
            b.iter(|| write_graph(&path, &graph, Some(&labels), options).expect("written"));
        });
    }
    group.finish();
}

fn generating(c: &mut Criterion) {
    let mut group = c.benchmark_group("generate");
    for text in [
        "er:3000:0.15",
        "er:1000000:0.000002",
        "ba:100000:4",
        "ws:100000:8:0.1",
        "sbm:10000:10:0.01:0.001",
        "rb:30:15:0.25:2.78",
    ] {
        let spec = spec(text);
        group.throughput(Throughput::Elements(spec.expected_edges() as u64));
        group.bench_function(text, |b| {
            b.iter(|| {
                let mut sum = Sum(0);
                spec.stream(1, &mut sum).expect("generated");
                black_box(sum.0)
            });
        });
    }
    group.finish();
    large(c);
}

/// 33 million edges, the largest graph of the paper.
fn large(c: &mut Criterion) {
    let spec = spec("er:21000:0.15");
    let mut group = c.benchmark_group("generate");
    group.sample_size(10);
    group.throughput(Throughput::Elements(spec.expected_edges() as u64));
    group.bench_function("er:21000:0.15", |b| {
        b.iter(|| {
            let mut sum = Sum(0);
            spec.stream(1, &mut sum).expect("generated");
            black_box(sum.0)
        });
    });
    group.finish();
}

criterion_group!(benches, parsing, writing, generating);
criterion_main!(benches);
