//! What the engine costs beside the decoder. `cargo bench -p shardgraph-brkga`
//!
//! The lengths are those of placement chromosomes of 52, 127, 1002 and 10002 operations on two devices, and a shorter one.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_brkga::{BetaTables, Brkga, Config, Fitness};

const LENGTHS: [usize; 5] = [118, 318, 773, 6172, 61684];

/// Decodes nothing.
fn null(keys: &[f32]) -> Fitness {
    (u64::from(keys[0].to_bits()), 0)
}

fn config(n_keys: usize) -> Config {
    Config {
        evaluations: if n_keys > 10_000 { 1000 } else { 5000 },
        ..Config::default()
    }
}

/// A distribution of its own for every key, none of them uniform.
fn choices(n_keys: usize, k: u32) -> Vec<u16> {
    (0..n_keys as u32)
        .map(|i| {
            BetaTables::quantised_choice(
                i.wrapping_mul(7919) / 3 % k,
                i.wrapping_mul(104_729) / 5 % k,
                k,
            )
        })
        .collect()
}

fn overhead(c: &mut Criterion) {
    let mut group = c.benchmark_group("overhead");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    let tables: Vec<(u32, BetaTables)> = [5, 16]
        .map(|k| (k, BetaTables::quantised(k).expect("levels")))
        .into();
    for n_keys in LENGTHS {
        let config = config(n_keys);
        group.throughput(Throughput::Elements(config.evaluations));
        let search = || Brkga::new(n_keys, &config).expect("a search");
        group.bench_function(BenchmarkId::new("uniform", n_keys), |b| {
            b.iter(|| search().run(&mut [null]).expect("an outcome").best.fitness);
        });
        for (k, tables) in &tables {
            let choices = choices(n_keys, *k);
            group.bench_function(BenchmarkId::new(format!("beta{k}"), n_keys), |b| {
                b.iter(|| {
                    let search = search().with_proposals(tables, choices.clone());
                    search
                        .expect("choices")
                        .run(&mut [null])
                        .expect("an outcome")
                        .best
                        .fitness
                });
            });
        }
    }
    group.finish();
}

/// What drawing costs: every child is a mutant, by uniform keys or with a choice of Beta for each.
fn mutants(c: &mut Criterion) {
    let mut group = c.benchmark_group("mutants");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    for n_keys in [773, 6172] {
        let config = Config {
            mutants: 80,
            ..config(n_keys)
        };
        group.throughput(Throughput::Elements(config.evaluations * n_keys as u64));
        let search = || Brkga::new(n_keys, &config).expect("a search");
        group.bench_function(BenchmarkId::new("uniform", n_keys), |b| {
            b.iter(|| search().run(&mut [null]).expect("an outcome").best.fitness);
        });
        for k in [5, 16] {
            let tables = BetaTables::quantised(k).expect("levels");
            let choices = choices(n_keys, k);
            let search = || {
                let search = search().with_proposals(&tables, choices.clone());
                search.expect("choices").run(&mut [null])
            };
            group.bench_function(BenchmarkId::new(format!("beta{k}"), n_keys), |b| {
                b.iter(|| search().expect("an outcome").best.fitness);
            });
        }
    }
    group.finish();
}

fn making_tables(c: &mut Criterion) {
    let mut group = c.benchmark_group("tables");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    for k in [5, 16] {
        group.bench_function(format!("k{k}"), |b| {
            b.iter(|| BetaTables::quantised(black_box(k)));
        });
    }
    group.finish();
}

/// A decoder that keeps a core busy for about 10 us, with `threads` of them.
fn threads(c: &mut Criterion) {
    fn busy(keys: &[f32]) -> Fitness {
        let mut sum = u64::from(keys[0].to_bits()) | 1;
        for _ in 0..10_000 {
            sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005).rotate_left(7));
        }
        (sum, 0)
    }
    let mut group = c.benchmark_group("threads");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300));
    let config = config(773);
    group.throughput(Throughput::Elements(config.evaluations));
    for n_threads in [1, 2] {
        group.bench_function(BenchmarkId::from_parameter(n_threads), |b| {
            b.iter(|| {
                let search = Brkga::new(773, &config).expect("a search");
                search
                    .run(&mut vec![busy; n_threads])
                    .expect("an outcome")
                    .best
                    .fitness
            });
        });
    }
    group.finish();
}

criterion_group!(benches, overhead, mutants, making_tables, threads);
criterion_main!(benches);
