//! Whole solves, single policy evaluations and training steps.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::{Adjacency, AdjacencyBuilder};
use shardgraph_solver::train::{PickRule, RunOptions, TrainConfig, train};
use shardgraph_solver::{
    AdjacencyScale, EmbeddingPath, PolicyConfig, SolveOptions, TrainedPolicy, score_nodes, solve,
};

fn generated(text: &str) -> Adjacency {
    let spec: GeneratorSpec = text.parse().unwrap();
    let mut builder = AdjacencyBuilder::for_generator(&spec);
    spec.stream(1, &mut builder).unwrap();
    builder.finish(spec.n_nodes(), false).unwrap().0
}

fn solves(c: &mut Criterion) {
    let policy = TrainedPolicy::shipped().unwrap();
    let mut group = c.benchmark_group("solver/solve");
    group.sample_size(10);
    for spec in ["er:750:0.15", "er:1500:0.15", "ba:5000:4"] {
        let adjacency = generated(spec);
        let options = SolveOptions::default();
        group.bench_function(spec, |b| {
            b.iter(|| black_box(solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap()));
        });
    }
    group.finish();
}

fn evaluations(c: &mut Criterion) {
    let adjacency = generated("er:3000:0.15");
    let mut group = c.benchmark_group("solver/score_nodes");
    group.sample_size(10);
    for (name, n_layers, path) in [
        ("collapsed/2", 2, EmbeddingPath::Collapsed),
        ("general/4", 4, EmbeddingPath::General),
    ] {
        let config = PolicyConfig::new(32, n_layers, AdjacencyScale::LargestDegree);
        let policy = TrainedPolicy::random(config, 1, 0.1).unwrap();
        let options = SolveOptions {
            path: Some(path),
            ..SolveOptions::default()
        };
        group.bench_function(format!("er:3000:0.15/{name}"), |b| {
            b.iter(|| black_box(score_nodes(&adjacency, &policy, &options).unwrap()));
        });
    }
    group.finish();
}

fn training(c: &mut Criterion) {
    let mut group = c.benchmark_group("solver/train");
    group.sample_size(10);
    let config = TrainConfig {
        steps: 100,
        picks: PickRule::Answer,
        ..TrainConfig::default()
    };
    group.bench_function("default/100-steps", |b| {
        b.iter(|| black_box(train(&config, &RunOptions::default(), &mut |_| ()).unwrap()));
    });
    group.finish();
}

criterion_group!(benches, solves, evaluations, training);
criterion_main!(benches);
