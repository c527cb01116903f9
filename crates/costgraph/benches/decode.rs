//! How long one decoding takes: all decoders, small-world graphs of 52 to 10002 ops, two devices over free links.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use shardgraph_costgraph::{
    Decoder, DecoderKind, DeviceSet, Graph, GraphBuilder, ModelOptions, Objective, OpSpec, Problem,
    TensorSpec, baseline,
};

fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Edges of a Watts-Strogatz graph (k = 4, p = 0.3), each from the earlier to the later end in a random order.
fn small_world_edges(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..n).collect();
    for at in (1..n).rev() {
        order.swap(at, (uniform(rng) * (at + 1) as f64) as usize);
    }
    let mut edges = Vec::new();
    for (node, step) in (0..n).flat_map(|node| [(node, 1), (node, 2)]) {
        let random = (uniform(rng) * n as f64) as usize;
        let is_rewired = uniform(rng) < 0.3;
        let other = if is_rewired {
            random
        } else {
            (node + step) % n
        };
        if other != node {
            let is_forward = order[node] < order[other];
            edges.push(if is_forward {
                (node, other)
            } else {
                (other, node)
            });
        }
    }
    edges
}

/// A graph in the manner of the paper's A.1.4: a small world, a fifth of its edges control dependencies, the others distributed
/// over up to three tensors of their producer, with a source and a sink.
fn small_world(n: usize, seed: u64) -> Graph {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let edges = small_world_edges(n, &mut rng);
    let mut builder = GraphBuilder::new(format!("small world {n}"));
    for _ in 0..n {
        let cost = 50 + (uniform(&mut rng) * 200.0) as u64;
        builder.op(OpSpec::new("", cost));
    }
    let [source, sink] = ["source", "sink"].map(|name| builder.op(OpSpec::new(name, 0)));
    let mut readers = vec![Vec::new(); 3 * n];
    let (mut has_input, mut has_output) = (vec![false; n], vec![false; n]);
    for (from, to) in edges {
        (has_output[from], has_input[to]) = (true, true);
        if uniform(&mut rng) < 0.2 {
            builder.control(from as u32, to as u32);
        } else {
            readers[3 * from + (uniform(&mut rng) * 3.0) as usize].push(to as u32);
        }
    }
    for (at, readers) in readers.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
        let bytes = 30 + (uniform(&mut rng) * 40.0) as u64;
        builder.tensor(TensorSpec::new((at / 3) as u32, bytes, readers));
    }
    let ends = (0..n).filter(|&op| !has_input[op]);
    ends.for_each(|op| builder.control(source, op as u32));
    let ends = (0..n).filter(|&op| !has_output[op]);
    ends.for_each(|op| builder.control(op as u32, sink));
    builder.build().expect("the edges follow an order")
}

/// Different chromosomes to take in turn, so that branches are no easier to guess than in a search.
fn chromosomes(n_keys: usize) -> Vec<Vec<f32>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut chromosome = || (0..n_keys).map(|_| uniform(&mut rng) as f32).collect();
    (0..64).map(|_| chromosome()).collect()
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    for n in [50, 125, 1000, 10_000] {
        let graph = small_world(n, 1);
        let devices = DeviceSet::uniform(2, None).expect("two devices");
        let problem = Problem::new(
            &graph,
            &devices,
            Objective::Runtime,
            ModelOptions::default(),
        )
        .expect("a valid problem");
        let chromosomes = chromosomes(problem.n_keys());
        for kind in DecoderKind::ALL {
            let mut decoder = Decoder::new(&problem, kind);
            let mut turn = 0;
            let mut next = || {
                turn = (turn + 1) % chromosomes.len();
                &chromosomes[turn]
            };
            group.bench_function(
                BenchmarkId::new(format!("{} runtime", kind.name()), n + 2),
                |b| {
                    b.iter(|| decoder.fitness(next()));
                },
            );
            group.bench_function(
                BenchmarkId::new(format!("{} runtime and peak", kind.name()), n + 2),
                |b| {
                    b.iter(|| decoder.decode(next()));
                },
            );
        }
    }
    group.finish();
}

fn baselines(c: &mut Criterion) {
    let mut group = c.benchmark_group("baselines");
    group.sample_size(10);
    let graph = small_world(1000, 1);
    let devices = DeviceSet::uniform(2, None).expect("two devices");
    let problem = Problem::new(&graph, &devices, Objective::Memory, ModelOptions::default())
        .expect("a valid problem");
    group.bench_function("upward rank", |b| {
        b.iter(|| baseline::upward_rank(&problem))
    });
    group.bench_function("greedy memory", |b| {
        b.iter(|| baseline::greedy_memory(&problem, 1, 0.0))
    });
    group.bench_function("partition", |b| b.iter(|| baseline::partition(&problem)));
    group.bench_function("local search, 100 evaluations", |b| {
        b.iter(|| baseline::local_search(&problem, 100, 1))
    });
    let schedule = baseline::upward_rank(&problem);
    group.bench_function("replay", |b| b.iter(|| schedule.verify(&problem)));
    group.finish();
}

criterion_group!(benches, decode, baselines);
criterion_main!(benches);
