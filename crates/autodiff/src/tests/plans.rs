//! Plans: what is merged and left out, refilled programs, and calls that are refused.

use std::sync::Arc;

use shardgraph_collectives::Comm;
use shardgraph_device::Device;
use shardgraph_ops::{Binary, Loss, Unary};

use crate::tests::gpus_together_and_apart;
use crate::{Ctx, Error, Op, ParamId, Params, Recorder, Role, Shape, Var};

/// `relu(w x) + relu(w x)`, an unused product, and a loss.
fn doubled(ctx: &mut dyn Ctx, w: ParamId) -> Result<(Var, Var), Error> {
    let w = ctx.param(w)?;
    let x = ctx.input(Shape::new(2, 1), &[2.0, 3.0])?;
    let (a, b) = (ctx.matmul(w, x)?, ctx.matmul(w, x)?);
    let (a, b) = (ctx.relu(a)?, ctx.relu(b)?);
    let sum = ctx.add(a, b)?;
    ctx.matmul(x, sum)?;
    let zero = ctx.input(Shape::new(1, 1), &[0.0])?;
    Ok((x, ctx.loss(Loss::Mse, sum, zero)?))
}

fn weights() -> (Params, ParamId) {
    let mut params = Params::new();
    let mut next = 0.0;
    let id = params.add("w", Shape::new(1, 2), || {
        next += 1.0;
        next
    });
    (params, id)
}

#[test]
fn equal_operations_are_done_once_and_useless_ones_never() {
    let (params, w) = weights();
    let mut recorder = Recorder::new(&params, 0, 1);
    let (_, loss) = doubled(&mut recorder, w).unwrap();
    recorder.output("loss", loss);
    let plan = recorder.plan();
    // w, x, the product, relu, the sum, zero, the loss.
    assert_eq!((plan.n_recorded(), plan.n_steps()), (10, 7));
    let mut program = plan.load(&Device::host()).unwrap();
    program.run(&mut Comm::solo(), &params).unwrap();
    assert_eq!(program.read("loss").unwrap(), [256.0]); // (2 (1 * 2 + 2 * 3))^2
}

/// Between ranks no exchange is merged or left out, and all keep their order; one rank alone exchanges nothing.
#[test]
fn exchanges_between_ranks_stay_as_recorded() {
    let params = Params::new();
    for (n_ranks, n_exchanges) in [(1, 1), (2, 4)] {
        let mut recorder = Recorder::new(&params, 0, n_ranks);
        let x = recorder.input(Shape::new(2, 2), &[1.0; 4]).unwrap();
        let (a, b) = (
            recorder.all_reduce(x).unwrap(),
            recorder.all_reduce(x).unwrap(),
        );
        let counts: Arc<[usize]> = vec![2; n_ranks as usize].into();
        let all = recorder.all_gather(x, Arc::clone(&counts)).unwrap();
        recorder.reduce_scatter(all, counts).unwrap();
        let sum = recorder.add(b, a).unwrap();
        recorder.output("sum", sum);
        let plan = recorder.plan();
        let add = plan
            .steps
            .iter()
            .find(|step| step.reads.len() == 2)
            .unwrap();
        assert_eq!(add.reads[0] == add.reads[1], n_ranks == 1);
        let role = |op: &Op| op.operation().map(|operation| operation.role());
        let is_exchange = |node: u32| role(&plan.nodes[node as usize].0) == Some(Role::Exchange);
        let done = plan.steps.iter().filter(|step| is_exchange(step.node));
        let done: Vec<u32> = done.map(|step| step.node).collect();
        assert!(done.len() == n_exchanges && done.is_sorted(), "{done:?}");
    }
}

/// Inputs of equal values are not one: each can be set alone.
#[test]
fn inputs_are_never_merged() {
    let params = Params::new();
    let mut recorder = Recorder::new(&params, 0, 1);
    let shape = Shape::new(1, 2);
    let a = recorder.input(shape, &[0.0, 0.0]).unwrap();
    let b = recorder.input(shape, &[0.0, 0.0]).unwrap();
    let difference = recorder.sub(a, b).unwrap();
    recorder.output("difference", difference);
    let mut program = recorder.plan().load(&Device::host()).unwrap();
    program.set_input(a, &[5.0, 1.0]).unwrap();
    program.run(&mut Comm::solo(), &params).unwrap();
    assert_eq!(program.read("difference").unwrap(), [5.0, 1.0]);
}

/// Cuts, paddings and joins of two matrices, no two of them equal.
fn rearranged(ctx: &mut dyn Ctx, x: Var, y: Var, pairs: &mut Vec<Var>) {
    for axis in [crate::Axis::Rows, crate::Axis::Cols] {
        pairs.push(ctx.slice(x, axis, 0, 1).unwrap());
        pairs.push(ctx.slice(x, axis, 1, 1).unwrap());
        pairs.push(ctx.slice(x, axis, 0, 2).unwrap());
        pairs.push(ctx.concat(x, y, axis).unwrap());
        pairs.push(ctx.concat(y, x, axis).unwrap());
        for (start, total) in [(0, 3), (1, 3), (0, 4)] {
            pairs.push(ctx.pad(x, axis, start, total).unwrap());
        }
    }
}

/// Every kind of number in an operation keeps it apart from others.
#[test]
fn operations_that_differ_in_a_number_are_not_merged() {
    let params = Params::new();
    let mut recorder = Recorder::new(&params, 0, 1);
    let ctx: &mut dyn Ctx = &mut recorder;
    let x = ctx.input(Shape::new(2, 2), &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let y = ctx.input(Shape::new(2, 2), &[1.0, -2.0, 3.0, 5.0]).unwrap();
    let mut pairs = Vec::new();
    rearranged(ctx, x, y, &mut pairs);
    for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::WherePositive] {
        pairs.push(ctx.binary(op, x, y).unwrap());
    }
    for (left, right) in [(false, false), (false, true), (true, false), (true, true)] {
        pairs.push(ctx.matmul_transposed((x, left), (y, right)).unwrap());
    }
    for loss in [
        Loss::Mse,
        Loss::Huber { delta: 1.0 },
        Loss::Huber { delta: 2.0 },
    ] {
        pairs.push(ctx.loss(loss, x, y).unwrap());
    }
    pairs.push(ctx.scale(x, 2.0).unwrap());
    pairs.push(ctx.scale(x, 3.0).unwrap());
    for index in [[0, 1], [1, 0]] {
        pairs.push(ctx.gather(x, index.into()).unwrap());
        for n_rows in [2, 3] {
            pairs.push(ctx.scatter(x, index.into(), n_rows).unwrap());
        }
    }
    let row = ctx.sum_rows(x).unwrap();
    for n_rows in [2, 3] {
        pairs.push(ctx.repeat_row(row, n_rows).unwrap());
    }
    functions(ctx, x, y, row, &mut pairs);
    for (i, &var) in pairs.iter().enumerate() {
        recorder.output(&i.to_string(), var);
    }
    let plan = recorder.plan();
    assert_eq!(plan.n_recorded(), plan.n_steps());
}

/// Layers and functions of one element that differ in a number.
fn functions(ctx: &mut dyn Ctx, x: Var, y: Var, row: Var, made: &mut Vec<Var>) {
    made.push(ctx.linear(x, y, row).unwrap());
    made.push(ctx.linear_relu(x, y, row).unwrap());
    for op in [Unary::Exp, Unary::Log, Unary::Tanh, Unary::Sigmoid] {
        made.push(ctx.unary(op, x).unwrap());
    }
    for (low, high) in [(0.0, 1.0), (0.0, 2.0), (-1.0, 1.0)] {
        made.push(ctx.clamp(x, low, high).unwrap());
        let op = Binary::WhereInside { low, high };
        made.push(ctx.binary(op, x, y).unwrap());
    }
}

fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Usage(_) | Error::Shape { .. }));
    error.to_string()
}

#[test]
fn what_does_not_fit_a_plan_is_refused() {
    let (params, w) = weights();
    let (device, mut comm) = (Device::host(), Comm::solo());
    let recorded = |scale: f32| {
        let mut recorder = Recorder::new(&params, 0, 1);
        let (x, loss) = doubled(&mut recorder, w).unwrap();
        let loss = recorder.scale(loss, scale).unwrap();
        recorder.output("loss", loss);
        (recorder, x, loss)
    };
    let (recorder, x, loss) = recorded(1.0);
    let mut program = recorder.plan().load(&device).unwrap();
    assert!(text(program.read("loss")).contains("before it has run"));
    program.run(&mut comm, &params).unwrap();
    assert!(text(program.read("lost")).contains("no output `lost`; it has loss"));
    assert!(text(program.param_gradient()).contains("output_param_gradient"));
    assert!(text(program.set_input(x, &[1.0])).contains("[2, 1]"));
    assert!(text(program.set_input(loss, &[1.0])).contains("no input"));
    assert!(text(program.refill(&recorded(2.0).0)).contains("scale [1, 1] as operation 10"));
    let mut longer = recorded(1.0).0;
    longer.relu(loss).unwrap();
    assert!(
        text(program.refill(&longer))
            .contains("relu [1, 1] as operation 11, where the plan has nothing")
    );
    let mut other = Params::new();
    other.add("w", Shape::new(2, 1), || 0.0);
    assert!(text(program.run(&mut comm, &other)).contains("another model"));
    let second = Recorder::new(&params, 1, 2).plan().load(&device).unwrap();
    let mut second = second;
    assert!(text(second.run(&mut comm, &params)).contains("rank 1 of 2"));
    assert!(text(Recorder::new(&params, 0, 1).input(Shape::new(1, 2), &[1.0])).contains("[1, 2]"));
}

/// Two gathers that were recorded by one index cannot be refilled with two.
#[test]
fn a_shared_index_stays_shared() {
    let params = Params::new();
    let record = |first: Arc<[u32]>, second: Arc<[u32]>| {
        let mut recorder = Recorder::new(&params, 0, 1);
        let x = recorder.input(Shape::new(2, 1), &[1.0, 2.0]).unwrap();
        let a = recorder.gather(x, first).unwrap();
        let b = recorder.gather(x, second).unwrap();
        let both = recorder.add(a, b).unwrap();
        recorder.output("both", both);
        recorder
    };
    let (low, high): (Arc<[u32]>, Arc<[u32]>) = ([0].into(), [1].into());
    let plan = record(Arc::clone(&low), Arc::clone(&low)).plan();
    assert_eq!(plan.n_steps(), 3);
    let mut program = plan.load(&Device::host()).unwrap();
    let apart = record(low, Arc::clone(&high));
    assert!(text(program.refill(&apart)).contains("operation 2 (gather)"));
    program.refill(&record(Arc::clone(&high), high)).unwrap();
    program.run(&mut Comm::solo(), &params).unwrap();
    assert_eq!(program.read("both").unwrap(), [4.0]);
}

/// A device that runs out of memory while a program is loaded or runs gives an error, and the program runs later.
#[test]
fn a_failed_allocation_is_an_error() {
    let (params, w) = weights();
    for device in gpus_together_and_apart() {
        for k in 0..8 {
            let device = device.failing_at_allocation(k);
            let mut recorder = Recorder::new(&params, 0, 1);
            let (_, loss) = doubled(&mut recorder, w).unwrap();
            recorder.output("loss", loss);
            let Ok(mut program) = recorder.plan().load(&device) else {
                continue;
            };
            if program.run(&mut Comm::solo(), &params).is_err() {
                assert!(program.read("loss").is_err());
                program.run(&mut Comm::solo(), &params).unwrap();
            }
            assert_eq!(program.read("loss").unwrap(), [256.0]);
        }
    }
}
