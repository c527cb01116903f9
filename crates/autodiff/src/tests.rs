//! Devices for tests, the collective operations, and messages of shapes that do not fit.

mod adjoints;
mod captured_step;
mod custom;
mod device_training;
mod plans;
mod random_programs;
mod resident;

use std::sync::Arc;

use shardgraph_collectives::{Comm, Timeout, threads};
use shardgraph_device::Device;
use shardgraph_ops::Loss;

use crate::{Axis, Ctx, Eager, Error, Params, Recorder, Shape, Var, gradient};

/// The devices that launch kernels and are here.
pub(crate) fn gpus() -> Vec<Device> {
    shardgraph_cuemu::devices("autodiff")
}

/// Those, and emulated devices whose ranks have one each and exchange through the emulated library of collectives.
pub(crate) fn gpus_together_and_apart() -> Vec<Device> {
    let apart = shardgraph_cuemu::device_of_a_group("autodiff");
    gpus().into_iter().chain(apart).collect()
}

/// Weights of a layer, trained ones and frozen ones, each beside a parameter that no loss has a part of.
fn online_and_target(width: usize) -> Params {
    let mut params = Params::new();
    let mut i = 0u32;
    let mut next = || {
        i += 1;
        ((i * 37 % 101) as f32 - 50.0) * 0.004
    };
    params.add("online/w", Shape::new(width, width), &mut next);
    params.add("online/b", Shape::new(1, width), &mut next);
    params.add("online/unused", Shape::new(3, 5), &mut next);
    params.freeze_rest();
    params.add("target/w", Shape::new(width, width), &mut next);
    params.add("target/b", Shape::new(1, width), &mut next);
    params.add("target/unused", Shape::new(3, 5), &mut next);
    params
}

/// The result of `work` on a rank's device, which may be in a group.
pub(crate) fn on_rank_device<R>(
    device: &Device,
    comm: &mut Comm,
    work: impl FnOnce(&Device, &mut Comm) -> R,
) -> R {
    let device = crate::rank_device(device, comm, Timeout::default()).unwrap();
    assert_eq!(device.group().is_some(), device.nccl().is_some());
    let result = work(&device, comm);
    crate::leave_group(&device, Timeout::default()).unwrap();
    result
}

/// `sum over ranks` through copy-to-ranks, all-gather, reduce-scatter and all-reduce, with a known derivative.
#[test]
fn collective_operations_have_their_adjoints() {
    let devices = gpus_together_and_apart();
    for device in devices.into_iter().chain([Device::host()]) {
        collectives_have_adjoints(&device);
    }
}

/// The sum, and its square's derivative by w.
fn sum_and_gradient(device: &Device, comm: &mut Comm) -> (f32, f32) {
    let (rank, size) = (comm.rank(), comm.size());
    let mut params = Params::new();
    let id = params.add("w", Shape::new(1, 1), || 2.0);
    let mut ctx = Eager::new(device, comm, &params);
    let w = ctx.param(id).unwrap();
    let entered = ctx.copy_to_ranks(w).unwrap();
    // Rank r has r + 1 rows, each w * (r + 1).
    let counts: Arc<[usize]> = (0..size as usize).map(|r| r + 1).collect();
    let own = ctx.scale(entered, (rank + 1) as f32).unwrap();
    let rows = ctx.repeat_row(own, rank as usize + 1).unwrap();
    let gathered = ctx.all_gather(rows, Arc::clone(&counts)).unwrap();
    let mine = ctx.reduce_scatter(gathered, counts).unwrap();
    let part = ctx.sum_rows(mine).unwrap();
    let total = ctx.all_reduce(part).unwrap();
    let zero = ctx.input(Shape::new(1, 1), &[0.0]).unwrap();
    let loss = ctx.loss(Loss::Mse, total, zero).unwrap();
    let grads = gradient(&mut ctx, loss, &[w]).unwrap();
    (
        ctx.values(total).unwrap()[0],
        ctx.values(grads[0].unwrap()).unwrap()[0],
    )
}

fn collectives_have_adjoints(device: &Device) {
    for n_ranks in 1..=4u32 {
        let results = threads::run(n_ranks, |mut comm| {
            on_rank_device(device, &mut comm, sum_and_gradient)
        });
        // total = w * P * sum (r + 1)^2 (each rank holds the gathered table, and the scatter sums them).
        let squares: f32 = (1..=n_ranks).map(|r| (r * r) as f32).sum();
        let factor = squares * n_ranks as f32;
        for result in results {
            let (total, grad) = result.unwrap();
            assert_eq!((total, grad), (2.0 * factor, 2.0 * 2.0 * factor * factor));
        }
    }
}

#[test]
fn misfits_name_the_operation_and_both_shapes() {
    let params = Params::new();
    let mut ctx = Recorder::new(&params, 0, 1);
    let a = ctx.input(Shape::new(8, 5), &[]).unwrap();
    let b = ctx.input(Shape::new(4, 120), &[]).unwrap();
    let message = |result: Result<Var, Error>| result.unwrap_err().to_string();
    assert!(message(ctx.matmul(a, b)).contains("matmul: [8, 5] and [4, 120]"));
    assert!(message(ctx.add(a, b)).contains("add: [8, 5] and [4, 120]"));
    assert!(message(ctx.slice(a, Axis::Rows, 7, 2)).contains("slice: [8, 5]"));
    assert!(message(ctx.slice(a, Axis::Rows, usize::MAX, 2)).contains("slice: [8, 5]"));
    assert!(message(ctx.gather(a, vec![8].into())).contains("row 8 does not exist"));
    let error = gradient(&mut ctx, a, &[b]).unwrap_err().to_string();
    assert!(error.contains("the loss is [1, 1]"));
}

#[test]
fn a_variable_without_influence_has_no_gradient() {
    let mut params = Params::new();
    let (used, unused) = (
        params.add("a", Shape::new(1, 1), || 1.0),
        params.add("b", Shape::new(1, 1), || 1.0),
    );
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, &params);
    let (used, unused) = (ctx.param(used).unwrap(), ctx.param(unused).unwrap());
    let loss = ctx.loss(Loss::Mse, used, unused).unwrap(); // the target gets no gradient
    let grads = gradient(&mut ctx, loss, &[used, unused]).unwrap();
    assert!(grads[0].is_some() && grads[1].is_none());
}
