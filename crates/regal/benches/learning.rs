//! A step of training as the paper has it, and what a policy costs beside the search that it serves; graphs of 125 nodes, the mean of the
//! paper's synthetic ones.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, ModelOptions, Objective, Problem};
use shardgraph_regal::{
    PlaceOptions, Policy, PolicyConfig, Preset, TrainConfig, Trainer, features, search,
};

/// One of each random graph model.
fn graphs() -> Vec<Graph> {
    let recipe = Synthetic {
        min_nodes: 125,
        max_nodes: 125,
        ..Synthetic::default()
    };
    (0..4).map(|index| synthetic(&recipe, 1, index).unwrap()).collect()
}

/// Batches of 4 graphs, 2 rounds, 1000 evaluations a reward. Features and denominators are known from the first steps on.
fn step(c: &mut Criterion) {
    let graphs = graphs();
    let config = TrainConfig::preset(Preset::Synthetic);
    for threads in [1, 2] {
        let mut trainer = Trainer::new(&config, &graphs, threads).unwrap();
        (0..8).for_each(|_| drop(trainer.step().unwrap()));
        let name = format!("regal/train/step_synthetic_{threads}_threads");
        c.bench_function(&name, |b| b.iter(|| black_box(trainer.step().unwrap())));
    }
}

/// What a policy adds to a search of 5000 evaluations: the network and the tables of what it proposes.
fn inference(c: &mut Criterion) {
    let graphs = graphs();
    let devices = DeviceSet::uniform(2, None).unwrap();
    let options = PlaceOptions {
        decoder: Some(DecoderKind::Paper),
        ..PlaceOptions::default()
    };
    let policy = Policy::untrained(PolicyConfig::preset(Preset::Synthetic), 1).unwrap();
    let model = ModelOptions::default();
    let problem = Problem::new(&graphs[1], &devices, Objective::Runtime, model).unwrap();
    let found = features(&problem, &options, 400).unwrap();
    c.bench_function("regal/policy/propose", |b| {
        b.iter(|| black_box(policy.propose(&problem, &found, 1).unwrap()));
    });
    c.bench_function("regal/policy/features_of_400_evaluations", |b| {
        b.iter(|| black_box(features(&problem, &options, 400).unwrap()));
    });
    c.bench_function("regal/search/5000_evaluations", |b| {
        b.iter(|| black_box(search(&problem, &options, Vec::new(), None).unwrap()));
    });
}

criterion_group!(benches, step, inference);
criterion_main!(benches);
