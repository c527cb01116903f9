//! A small network forwards and backwards, eagerly, and checked for shapes alone.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{Ctx, Eager, Error, ParamId, Params, Recorder, Shape, Var, gradient};

const BATCH: usize = 64;
const WIDTH: usize = 32;

fn network(ctx: &mut dyn Ctx, layers: &[ParamId], x: &[f32]) -> Result<Var, Error> {
    let mut h = ctx.input(Shape::new(BATCH, WIDTH), x)?;
    for &layer in layers {
        let w = ctx.param(layer)?;
        let product = ctx.matmul(h, w)?;
        h = ctx.relu(product)?;
    }
    let target = ctx.input(Shape::new(BATCH, WIDTH), x)?;
    ctx.loss(Loss::Mse, h, target)
}

fn bench(c: &mut Criterion) {
    let mut params = Params::new();
    let names = ["a", "b", "c"];
    let layers = names.map(|name| params.add(name, Shape::new(WIDTH, WIDTH), || 0.01));
    let x = vec![0.5; BATCH * WIDTH];
    let device = Device::host();
    c.bench_function("autodiff/eager/3x32/64", |b| {
        b.iter(|| {
            let mut comm = Comm::solo();
            let mut ctx = Eager::new(&device, &mut comm, &params);
            let loss = network(&mut ctx, &layers, &x).unwrap();
            black_box(ctx.param_gradient(loss).unwrap())
        });
    });
    c.bench_function("autodiff/shape_check/3x32/64", |b| {
        b.iter(|| {
            let mut ctx = Recorder::new(&params, 0, 1);
            let loss = network(&mut ctx, &layers, &x).unwrap();
            let wrt = layers.map(|layer| ctx.param(layer).unwrap());
            black_box(gradient(&mut ctx, loss, &wrt).unwrap())
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
