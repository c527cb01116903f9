//! Acting and learning with the 4-120-84-2 network of CleanRL's CartPole example: states a second, and one DQN update.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{Adam, Ctx, Error, ParamId, Params, Recorder, Shape, Var};

const WIDTHS: [usize; 4] = [4, 120, 84, 2];

/// Weights and biases of a network, filled by a fixed rule.
fn network(params: &mut Params) -> Vec<(ParamId, ParamId)> {
    let mut seed = 1u32;
    let mut init = move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32 * 0.4 - 0.2
    };
    let mut layer = |pair: &[usize]| {
        (
            params.add("w", Shape::new(pair[0], pair[1]), &mut init),
            params.add("b", Shape::new(1, pair[1]), &mut init),
        )
    };
    WIDTHS.windows(2).map(&mut layer).collect()
}

fn q(ctx: &mut dyn Ctx, layers: &[(ParamId, ParamId)], x: Var) -> Result<Var, Error> {
    let (last, hidden) = layers.split_last().unwrap();
    let mut h = x;
    for &(w, b) in hidden {
        let (w, b) = (ctx.param(w)?, ctx.param(b)?);
        h = ctx.linear_relu(h, w, b)?;
    }
    let (w, b) = (ctx.param(last.0)?, ctx.param(last.1)?);
    ctx.linear(h, w, b)
}

fn values(len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (i * 31 % 97) as f32 / 48.5 - 1.0)
        .collect()
}

fn act(c: &mut Criterion) {
    let mut params = Params::new();
    let layers = network(&mut params);
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut group = c.benchmark_group("autodiff/act");
    for n in [1, 64, 1024] {
        let mut record = Recorder::new(&params, 0, 1);
        let x = record.input(Shape::new(n, 4), &values(4 * n)).unwrap();
        let q = q(&mut record, &layers, x).unwrap();
        record.output("q", q);
        let mut program = record.plan().resident().load(&device).unwrap();
        program.set_params(&params).unwrap();
        let states = values(4 * n);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(n.to_string(), |b| {
            b.iter(|| {
                program.set_input(x, &states).unwrap();
                program.run_again(&mut comm).unwrap();
                black_box(program.output("q").unwrap()[0])
            });
        });
    }
    group.finish();
}

/// Huber of `Q(s, a)` against `r + discount * max Q'(s', .)`, with the target network among the frozen parameters.
fn loss(ctx: &mut dyn Ctx, nets: [&[(ParamId, ParamId)]; 2], n: usize) -> Result<Var, Error> {
    let states = ctx.input(Shape::new(n, 4), &values(4 * n))?;
    let next = ctx.input(Shape::new(n, 4), &values(4 * n))?;
    let taken: Vec<f32> = (0..2 * n).map(|i| (i % 2) as f32).collect();
    let taken = ctx.input(Shape::new(n, 2), &taken)?;
    let rewards = ctx.input(Shape::new(n, 1), &vec![1.0; n])?;
    let discounts = ctx.input(Shape::new(n, 1), &vec![0.99; n])?;
    let ones = ctx.input(Shape::new(2, 1), &[1.0; 2])?;
    let of = |ctx: &mut dyn Ctx, values: Var, choice: Var| {
        let chosen = ctx.mul(values, choice)?;
        ctx.matmul(chosen, ones)
    };
    let target = q(ctx, nets[1], next)?;
    let best = ctx.argmax_rows(target)?;
    let value = of(ctx, target, best)?;
    let value = ctx.mul(value, discounts)?;
    let target = ctx.add(rewards, value)?;
    let values = q(ctx, nets[0], states)?;
    let values = of(ctx, values, taken)?;
    ctx.loss(Loss::Huber { delta: 1.0 }, values, target)
}

fn update(c: &mut Criterion) {
    let mut params = Params::new();
    let online = network(&mut params);
    params.freeze_rest();
    let target = network(&mut params);
    let (device, mut comm) = (Device::host(), Comm::solo());
    for n in [8, 32, 128, 512] {
        let mut record = Recorder::new(&params, 0, 1);
        let loss = loss(&mut record, [&online, &target], n).unwrap();
        record.output("loss", loss);
        record.output_param_gradient(loss).unwrap();
        let mut program = record.plan().load(&device).unwrap();
        let mut trained = params.clone();
        let mut adam = Adam::new(2.5e-4, params.trained_len());
        c.bench_function(&format!("autodiff/update/{n}"), |b| {
            b.iter(|| {
                program.run(&mut comm, &trained).unwrap();
                let grad = program.param_gradient().unwrap();
                adam.step(&device, &mut trained, &grad).unwrap();
            });
        });
        c.bench_function(&format!("autodiff/update/{n}/run"), |b| {
            b.iter(|| program.run(&mut comm, &trained).unwrap());
        });
    }
}

criterion_group!(benches, act, update);
criterion_main!(benches);
