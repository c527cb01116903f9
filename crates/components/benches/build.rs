//! What building a dueling double DQN with prioritised replay takes, as for CartPole and with as
//! many components as the paper's.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

mod dqn;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dqn::{Dqn, cartpole, of_43_components};
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::autodiff::{Program, Recorder};
use shardgraph_components::{Error, QNetworkShape};

/// From nothing to a program in its memory on the device, and all that goes with it: spaces,
/// networks, memory, optimiser, schedule, folder; shape check, recording with the gradient, plan,
/// arena.
fn whole(shape: &QNetworkShape, device: &Device) -> Result<(Dqn, Program), Error> {
    let dqn = Dqn::build(shape)?;
    dqn.check_shapes()?;
    let program = dqn.plan()?.load(device)?;
    Ok((dqn, program))
}

fn bench(c: &mut Criterion) {
    let device = Device::host();
    let n_components = Dqn::build(&of_43_components()).unwrap().n_components();
    assert_eq!(n_components, 43, "what the name of the second one says");
    c.bench_function("components/build/whole_dueling_double_dqn", |b| {
        b.iter(|| black_box(whole(&cartpole(), &device).unwrap()));
    });
    c.bench_function("components/build/whole_43_components", |b| {
        b.iter(|| black_box(whole(&of_43_components(), &device).unwrap()));
    });
    // The same without shape check and arena, and then phase by phase.
    c.bench_function("components/build/dueling_double_dqn", |b| {
        b.iter(|| {
            let dqn = Dqn::build(&cartpole()).unwrap();
            (dqn.size(), black_box(dqn.plan().unwrap()))
        });
    });
    let dqn = Dqn::build(&cartpole()).unwrap();
    c.bench_function("components/build/networks_and_memory", |b| {
        b.iter(|| black_box(Dqn::build(&cartpole()).unwrap()));
    });
    c.bench_function("components/build/shape_check", |b| {
        b.iter(|| black_box(dqn.check_shapes().unwrap()));
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
    c.bench_function("components/build/record_plan_and_load", |b| {
        b.iter(|| black_box(dqn.plan().unwrap().load(&device).unwrap()));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
