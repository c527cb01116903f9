//! Errors of operations from other crates; `tests/custom.rs` has one that is right.

use shardgraph_ops as ops;
use std::sync::Arc;

use shardgraph_collectives::Comm;
use shardgraph_device::Device;

use crate::{Adjoint, Ctx, Error, Operation, Params, Payload, Recorder, Run, Shape, Var};

/// An operation that shows a payload and takes no other.
#[derive(Debug)]
struct Stubborn(Arc<u32>);

impl Operation for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let factor = *self.0 as f32;
        let x = run.operands[0].values;
        Ok(ops::scale(run.device(), factor, x, run.out.values)?)
    }

    fn adjoint(&self, _ctx: &mut dyn Ctx, _at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Err(Error::NoAdjoint(self.name()))
    }

    fn payload(&self) -> Option<Payload> {
        Some(Payload::new(&self.0))
    }
}

#[test]
fn a_payload_that_cannot_be_replaced_is_an_error() {
    let params = Params::new();
    let record = |factor: u32| {
        let mut recorder = Recorder::new(&params, 0, 1);
        let x = recorder.input(Shape::new(1, 1), &[2.0]).unwrap();
        let y = recorder.apply(Arc::new(Stubborn(factor.into())), &[x]);
        recorder.output("y", y.unwrap());
        recorder
    };
    let mut program = record(3).plan().load(&Device::host()).unwrap();
    program.run(&mut Comm::solo(), &params).unwrap();
    assert_eq!(program.read("y").unwrap(), [6.0]);
    let error = program.refill(&record(4)).unwrap_err().to_string();
    assert!(
        error.contains("stubborn") && error.contains("with_payload"),
        "{error}"
    );
}

/// An input without values is no error before the program runs.
#[test]
fn inputs_can_be_set_later() {
    let params = Params::new();
    let mut recorder = Recorder::new(&params, 0, 1);
    let x = recorder.input(Shape::new(1, 2), &[]).unwrap();
    let y = recorder.relu(x).unwrap();
    recorder.output("y", y);
    let mut program = recorder.plan().load(&Device::host()).unwrap();
    let error = program
        .run(&mut Comm::solo(), &params)
        .unwrap_err()
        .to_string();
    assert!(error.contains("call set_input"), "{error}");
    program.set_input(x, &[-1.0, 1.0]).unwrap();
    program.run(&mut Comm::solo(), &params).unwrap();
    assert_eq!(program.read("y").unwrap(), [0.0, 1.0]);
}
