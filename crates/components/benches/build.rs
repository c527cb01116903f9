//! What building a dueling double DQN with prioritised replay takes: networks, memory, loss, gradient and plan.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

mod dqn;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dqn::Dqn;
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::autodiff::{Recorder, ShapeCheck};

fn bench(c: &mut Criterion) {
    c.bench_function("components/build/dueling_double_dqn", |b| {
        b.iter(|| {
            let dqn = Dqn::build().unwrap();
            (dqn.capacity(), black_box(dqn.plan().unwrap()))
        });
    });
    let dqn = Dqn::build().unwrap();
    c.bench_function("components/build/networks_and_memory", |b| {
        b.iter(|| black_box(Dqn::build().unwrap()));
    });
    c.bench_function("components/build/shape_check", |b| {
        b.iter(|| {
            let mut ctx = ShapeCheck::new(&dqn.params, 1);
            black_box(dqn.loss(&mut ctx).unwrap())
        });
    });
    c.bench_function("components/build/record", |b| {
        b.iter(|| {
            let mut ctx = Recorder::new(&dqn.params, 0, 1);
            let out = dqn.loss(&mut ctx).unwrap();
            ctx.output_param_gradient(out.loss).unwrap();
        });
    });
    c.bench_function("components/build/record_and_plan", |b| {
        b.iter(|| black_box(dqn.plan().unwrap()));
    });
    let device = Device::host();
    c.bench_function("components/build/record_plan_and_load", |b| {
        b.iter(|| black_box(dqn.plan().unwrap().load(&device).unwrap()));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
