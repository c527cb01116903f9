//! Steps of cart and pole: one cart, and many at once with each autoreset mode that begins episodes
//! by itself. Pushes come from a fixed list of random ones (an episode has some 22 steps) or from a
//! rule that keeps the pole up for all 500, whose cost is in the time.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_environments::{Autoreset, CartPole, CartPoles, Environment};
use shardgraph_random::KeyedRng;

const N_STEPS: u64 = 4096;

fn balance([x, x_dot, angle, turn]: &[f32; 4]) -> u32 {
    u32::from(0.01 * x + 0.05 * x_dot + angle + 0.5 * turn > 0.0)
}

fn random_pushes(n: u64) -> Vec<u32> {
    let mut stream = KeyedRng::new(1, "pushes", 0);
    (0..n).map(|_| stream.below_u32(2)).collect()
}

fn one_cart(c: &mut Criterion) {
    let mut group = c.benchmark_group("cart_pole/one");
    group.throughput(Throughput::Elements(N_STEPS));
    let pushes = random_pushes(N_STEPS);
    let mut cart = CartPole::new(1, 0);
    group.bench_function("random", |b| {
        b.iter(|| {
            for &push in &pushes {
                if black_box(cart.step(push).unwrap()).terminated {
                    cart.reset();
                }
            }
        });
    });
    cart.reset();
    group.bench_function("balance", |b| {
        b.iter(|| {
            for _ in 0..N_STEPS {
                let push = balance(cart.state());
                let step = black_box(cart.step(push).unwrap());
                if step.terminated || step.truncated {
                    cart.reset();
                }
            }
        });
    });
    group.finish();
}

fn many_carts(c: &mut Criterion) {
    for (name, autoreset) in [
        ("next_step", Autoreset::NextStep),
        ("same_step", Autoreset::SameStep),
    ] {
        let mut group = c.benchmark_group(format!("cart_pole/many/{name}"));
        for n in [8, 64, 1024, 4096] {
            group.throughput(Throughput::Elements(64 * n as u64));
            let pushes = random_pushes(64 * n as u64);
            let mut carts = CartPoles::new(n, autoreset).unwrap();
            group.bench_function(BenchmarkId::new("random", n), |b| {
                b.iter(|| {
                    for pushes in pushes.chunks(n) {
                        black_box(carts.step(pushes).unwrap());
                    }
                });
            });
            carts.reset(1);
            let mut pushes = vec![0; n];
            group.bench_function(BenchmarkId::new("balance", n), |b| {
                b.iter(|| {
                    for _ in 0..64 {
                        let rule = carts.observations().iter().map(balance);
                        pushes
                            .iter_mut()
                            .zip(rule)
                            .for_each(|(to, push)| *to = push);
                        black_box(carts.step(&pushes).unwrap());
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, one_cart, many_carts);
criterion_main!(benches);
