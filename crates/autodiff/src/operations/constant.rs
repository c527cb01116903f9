//! Operations through which no gradient flows.

use crate::{Adjoint, Ctx, Error, Operation, Role, Run, Var};
use shardgraph_ops as ops;

/// 1 at each row's largest value, 0 elsewhere.
///
/// Of equal values the lowest column is taken. NaN is never taken, unless a row has nothing else: then it is column 0.
#[derive(Debug, Clone, Copy)]
pub struct ArgmaxRows;

/// The operand itself, as a constant.
#[derive(Debug, Clone, Copy)]
pub struct Detach;

impl Operation for ArgmaxRows {
    fn name(&self) -> &'static str {
        "argmax_rows"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0];
        let device = run.device();
        Ok(ops::argmax_rows(
            device,
            x.rows(),
            x.values,
            run.out.values,
        )?)
    }

    fn adjoint(&self, _ctx: &mut dyn Ctx, _at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![None])
    }

    fn is_constant(&self) -> bool {
        true
    }
}

impl Operation for Detach {
    fn name(&self) -> &'static str {
        "detach"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        Ok(run.device().copy(run.operands[0].values, run.out.values)?)
    }

    fn adjoint(&self, _ctx: &mut dyn Ctx, _at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![None])
    }

    fn role(&self) -> Role {
        Role::Alias
    }

    fn is_constant(&self) -> bool {
        true
    }
}
