//! How long one decoding takes: all decoders, small-world graphs of 52 to 10002 ops, two and four devices over free links; also of
//! chromosomes as Beta mutants are, whose keys crowd at 0 and 1. And what baselines and the replay take.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use shardgraph_costgraph::{
    Decoder, DecoderKind, DeviceSet, Graph, GraphBuilder, ModelOptions, Objective, OpSpec, Problem,
    TensorSpec, baseline, replay,
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

/// Different chromosomes to take in turn, so that branches are no easier to guess than in a search; `shape` makes keys of uniform
/// ones.
fn chromosomes(n_keys: usize, shape: fn(f64) -> f64) -> Vec<Vec<f32>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut key = || (shape(uniform(&mut rng)) as f32).min(1.0f32.next_down());
    let mut chromosome = || (0..n_keys).map(|_| key()).collect();
    (0..64).map(|_| chromosome()).collect()
}

/// Half of the keys near 0, the other half near 1, as by Beta(1/40, 1) and Beta(1, 1/40): the coarse levels of A.6 are like that.
fn crowded(uniform: f64) -> f64 {
    let near_0 = (2.0 * uniform).fract().powi(40);
    if uniform < 0.5 { near_0 } else { 1.0 - near_0 }
}

fn problem<'g>(graph: &'g Graph, n_devices: usize) -> Problem<'g> {
    let devices = DeviceSet::uniform(n_devices, None).expect("devices");
    Problem::new(graph, &devices, Objective::Runtime, ModelOptions::default())
        .expect("a valid problem")
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    for n in [50, 125, 1000, 10_000] {
        let graph = small_world(n, 1);
        for n_devices in [2, 4] {
            let problem = problem(&graph, n_devices);
            let uniform = chromosomes(problem.n_keys(), |key| key);
            let crowded = chromosomes(problem.n_keys(), crowded);
            let about = match n_devices {
                2 => String::new(),
                n => format!(", {n} devices"),
            };
            for kind in DecoderKind::ALL {
                let mut decoder = Decoder::new(&problem, kind);
                let id =
                    |what: &str| BenchmarkId::new(format!("{} {what}{about}", kind.name()), n + 2);
                let mut keys = uniform.iter().cycle();
                let mut next = || keys.next().expect("a cycle");
                group.bench_function(id("runtime"), |b| b.iter(|| decoder.fitness(next())));
                group.bench_function(id("runtime and peak"), |b| {
                    b.iter(|| decoder.decode(next()));
                });
                let mut keys = crowded.iter().cycle();
                let mut next = || keys.next().expect("a cycle");
                group.bench_function(id("runtime of crowded keys"), |b| {
                    b.iter(|| decoder.fitness(next()));
                });
            }
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
        b.iter(|| baseline::greedy_memory(&problem, 1, 0.0, &mut || true))
    });
    group.bench_function("partition", |b| b.iter(|| baseline::partition(&problem)));
    group.bench_function("local search, 100 evaluations", |b| {
        b.iter(|| baseline::local_search(&problem, 100, 1, &mut |_, _| true).0)
    });
    let schedule = baseline::upward_rank(&problem);
    group.bench_function("replay", |b| b.iter(|| schedule.verify(&problem)));
    group.finish();
}

/// The judge of every plan, which `place --compare` calls 17 times.
fn replays(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay");
    group.sample_size(10);
    let mut empty = GraphBuilder::new("100000 empty ops");
    for _ in 0..100_000 {
        empty.op(OpSpec::new("", 0));
    }
    let empty = empty.build().expect("a graph without edges");
    for (name, graph) in [
        ("small world of 10002 ops", small_world(10_000, 1)),
        ("100000 empty ops", empty),
    ] {
        let problem = problem(&graph, 2);
        let schedule = baseline::upward_rank(&problem);
        group.bench_function(name, |b| b.iter(|| replay(&problem, &schedule)));
    }
    group.finish();
}

criterion_group!(benches, decode, baselines, replays);
criterion_main!(benches);
