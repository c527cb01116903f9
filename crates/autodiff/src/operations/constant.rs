//! Operations through which no gradient flows.

use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operand, Operation, Output, Role, Run, Shape, Var, World};
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

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        Ok(operands[0])
    }

    fn compute(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand<'_>],
        out: Output<'_>,
    ) -> Result<(), Error> {
        let x = operands[0];
        Ok(ops::argmax_rows(
            run.device(),
            x.rows(),
            x.values,
            out.values,
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

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        Ok(operands[0])
    }

    fn compute(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand<'_>],
        out: Output<'_>,
    ) -> Result<(), Error> {
        Ok(run.device().copy(operands[0].values, out.values)?)
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
