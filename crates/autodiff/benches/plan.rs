//! A double-DQN update of a 4-120-84-2 net, eagerly and planned; and what building the plan takes.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

mod dqn;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dqn::{Batch, Net, loss};
use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Eager, Params, Recorder};

fn record<'a>(params: &'a Params, nets: [Net; 2], batch: &Batch) -> Recorder<'a> {
    let mut recorder = Recorder::new(params, 0, 1);
    let loss = loss(&mut recorder, nets, batch).unwrap();
    recorder.output("loss", loss);
    recorder.output_param_gradient(loss).unwrap();
    recorder
}

fn bench(c: &mut Criterion) {
    let mut params = Params::new();
    let nets = ["online", "target"].map(|name| Net::build(&mut params, name));
    let device = Device::host();
    let mut comm = Comm::solo();
    for n in [8, 128, 512] {
        let batch = Batch::new(n, 0);
        c.bench_function(&format!("autodiff/dqn/eager/{n}"), |b| {
            b.iter(|| {
                let mut ctx = Eager::new(&device, &mut comm, &params);
                let loss = loss(&mut ctx, nets, &batch).unwrap();
                black_box(ctx.param_gradient(loss).unwrap())
            });
        });
        let mut program = record(&params, nets, &batch).plan().load(&device).unwrap();
        c.bench_function(&format!("autodiff/dqn/planned/{n}"), |b| {
            b.iter(|| {
                program.run(&mut comm, &params).unwrap();
                black_box(program.param_gradient().unwrap())
            });
        });
    }
    let batch = Batch::new(128, 0);
    c.bench_function("autodiff/dqn/shape_check/128", |b| {
        b.iter(|| {
            let mut ctx = Recorder::new(&params, 0, 1);
            black_box(loss(&mut ctx, nets, &batch).unwrap())
        });
    });
    c.bench_function("autodiff/dqn/record/128", |b| {
        b.iter(|| black_box(record(&params, nets, &batch)));
    });
    c.bench_function("autodiff/dqn/record_and_plan/128", |b| {
        b.iter(|| black_box(record(&params, nets, &batch).plan()));
    });
    let mut program = record(&params, nets, &batch).plan().load(&device).unwrap();
    c.bench_function("autodiff/dqn/refill/128", |b| {
        b.iter(|| program.refill(&record(&params, nets, &batch)).unwrap());
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
