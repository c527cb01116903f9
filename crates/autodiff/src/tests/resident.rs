//! Programs that keep their values between runs, and programs with frozen parameters.

use shardgraph_collectives::Comm;
use shardgraph_device::Device;
use shardgraph_ops::Loss;

use crate::testing::bits;
use crate::tests::gpus;
use crate::{Adam, Ctx, Eager, Error, Params, Plan, Program, Recorder, Shape, Var};

fn weights(scale: f32) -> Params {
    let mut params = Params::new();
    let mut i = 0.0;
    let mut next = || {
        i += 1.0;
        scale * (i - 9.0)
    };
    for (name, shape) in [("w", Shape::new(4, 3)), ("b", Shape::new(1, 3))] {
        params.add(name, shape, &mut next);
    }
    params
}

fn policy(params: &Params) -> (Recorder<'_>, [Var; 2]) {
    let mut record = Recorder::new(params, 0, 1);
    let ids: Vec<_> = params.ids().collect();
    let x = record.input(Shape::new(2, 4), &[0.5; 8]).unwrap();
    let shift = record.input(Shape::new(2, 3), &[0.0; 6]).unwrap();
    let (w, b) = (record.param(ids[0]).unwrap(), record.param(ids[1]).unwrap());
    let h = record.linear_relu(x, w, b).unwrap();
    let q = record.add(h, shift).unwrap();
    let best = record.argmax_rows(q).unwrap();
    record.output("q", q);
    record.output("best", best);
    (record, [x, shift])
}

fn read(program: &Program) -> (Vec<u32>, Vec<u32>) {
    let values = |name| bits(&program.read(name).unwrap());
    (values("q"), values("best"))
}

/// What is not set again stays: every run gives what a fresh program gives, be it one launch or many.
#[test]
fn a_run_again_is_a_fresh_run() {
    let params = weights(0.1);
    for device in gpus().into_iter().chain([Device::host()]) {
        for resident in [Plan::resident, Plan::resident_leaves] {
            for is_captured in [false, true] {
                let (record, inputs) = policy(&params);
                let plan = record.plan();
                let mut kept = resident(plan.clone()).load(&device).unwrap();
                kept.poisons = !is_captured; // a capture takes no copies from the host
                let fresh = plan.load(&device).unwrap();
                check_runs(kept, fresh, inputs, is_captured);
            }
        }
    }
}

fn check_runs(mut kept: Program, mut fresh: Program, [x, shift]: [Var; 2], is_captured: bool) {
    let (first, second) = (weights(0.1), weights(-0.2));
    let mut comm = Comm::solo();
    let run_again = match is_captured {
        true => Program::run_captured,
        false => Program::run_again,
    };
    kept.set_params(&first).unwrap();
    let turns = [
        (&first, x, 8),
        (&first, shift, 6),
        (&second, shift, 6),
        (&second, x, 8),
    ];
    for (turn, (params, input, len)) in turns.into_iter().enumerate() {
        if turn == 2 {
            kept.set_params(&second).unwrap();
        }
        let values: Vec<f32> = (0..len)
            .map(|i| (turn * 5 + i) as f32 * 0.1 - 0.6)
            .collect();
        kept.set_input(input, &values).unwrap();
        fresh.set_input(input, &values).unwrap();
        run_again(&mut kept, &mut comm).unwrap();
        fresh.run(&mut comm, params).unwrap();
        assert_eq!(read(&kept), read(&fresh), "turn {turn}");
        run_again(&mut kept, &mut comm).unwrap();
        assert_eq!(read(&kept), read(&fresh), "turn {turn}, twice");
    }
    kept.run(&mut comm, &first).unwrap();
    fresh.run(&mut comm, &first).unwrap();
    assert_eq!(read(&kept), read(&fresh));
}

/// Where leaves alone stay, a long program takes little more memory than one that keeps nothing.
#[test]
fn results_share_memory_where_leaves_alone_stay() {
    let params = weights(0.1);
    let mut record = Recorder::new(&params, 0, 1);
    let mut x = record.input(Shape::new(64, 64), &[]).unwrap();
    for _ in 0..20 {
        x = record.tanh(x).unwrap();
    }
    record.output("y", x);
    let plan = record.plan();
    let row = 4 * 64 * 64;
    assert_eq!(plan.arena_bytes(), 2 * row);
    assert_eq!(plan.clone().resident_leaves().arena_bytes(), 3 * row);
    assert_eq!(plan.resident().arena_bytes(), 21 * row);
}

#[test]
fn outputs_are_read_in_place_on_the_host() {
    let params = weights(0.1);
    let mut comm = Comm::solo();
    let mut program = policy(&params).0.plan().load(&Device::host()).unwrap();
    assert!(
        program
            .output("q")
            .unwrap_err()
            .to_string()
            .contains("before it has run")
    );
    program.run(&mut comm, &params).unwrap();
    assert_eq!(program.output("q").unwrap(), program.read("q").unwrap());
    assert!(
        program
            .output("p")
            .unwrap_err()
            .to_string()
            .contains("q, best")
    );
    for device in gpus() {
        let mut program = policy(&params).0.plan().load(&device).unwrap();
        program.run(&mut comm, &params).unwrap();
        assert!(
            program
                .output("q")
                .unwrap_err()
                .to_string()
                .contains("use read")
        );
    }
}

#[test]
fn calls_out_of_order_are_refused() {
    let (params, other) = (weights(0.1), Params::new());
    let mut comm = Comm::solo();
    let plan = policy(&params).0.plan();
    let message = |result: Result<(), Error>| result.unwrap_err().to_string();
    let mut reused = plan.clone().load(&Device::host()).unwrap();
    assert!(message(reused.set_params(&params)).contains("plan.resident()"));
    assert!(message(reused.run_again(&mut comm)).contains("plan.resident()"));
    let mut kept = plan.resident().load(&Device::host()).unwrap();
    assert!(message(kept.run_again(&mut comm)).contains("call set_params"));
    assert!(message(kept.set_params(&other)).contains("another model"));
    kept.set_params(&params).unwrap();
    assert!(
        kept.read("q")
            .unwrap_err()
            .to_string()
            .contains("before it has run")
    );
}

/// `(w x - target)^2` with the frozen target beside the weight.
fn loss(ctx: &mut dyn Ctx, params: &Params) -> Result<Var, Error> {
    let ids: Vec<_> = params.ids().collect();
    let (w, frozen) = (ctx.param(ids[0])?, ctx.param(ids[1])?);
    let x = ctx.input(Shape::new(1, 1), &[2.0])?;
    let y = ctx.matmul(x, w)?;
    let difference = ctx.sub(y, frozen)?;
    let zero = ctx.input(Shape::new(1, 1), &[0.0])?;
    ctx.loss(Loss::Mse, difference, zero)
}

#[test]
fn frozen_parameters_get_no_gradient_and_no_step() {
    let mut params = Params::new();
    params.add("w", Shape::new(1, 1), || 3.0);
    params.freeze_rest();
    params.add("target", Shape::new(1, 1), || 1.0);
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, &params);
    let eager = loss(&mut ctx, &params).unwrap();
    assert_eq!(ctx.param_gradient(eager).unwrap(), [20.0]); // 2 (2 w - 1) 2
    let mut record = Recorder::new(&params, 0, 1);
    let planned = loss(&mut record, &params).unwrap();
    record.output_param_gradient(planned).unwrap();
    let mut program = record.plan().load(&device).unwrap();
    program.run(&mut comm, &params).unwrap();
    let grad = program.param_gradient().unwrap();
    assert_eq!(grad, [20.0]);
    let mut adam = Adam::new(0.5, params.trained_len());
    adam.step(&device, &mut params, &grad).unwrap();
    assert_eq!(params.flat(), [2.5, 1.0]);
    assert!(adam.step(&device, &mut params, &[1.0, 1.0]).is_err());
    assert_eq!(adam.n_steps, 1);
}
