//! Softmax of rows.

use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operand, Operation, Output, Run, Shape, Var, World};
use shardgraph_ops as ops;

/// The logarithm of each row's softmax: `x - log(sum(exp(x)))` by rows, after subtraction of each row's largest value.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax;

impl Operation for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
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
        Ok(ops::log_softmax(
            run.device(),
            x.rows(),
            x.values,
            out.values,
        )?)
    }

    /// `dy - softmax(x) * (the sum of dy's row)`.
    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let cols = ctx.shape(at.y).cols;
        let sums = ctx.row_sums(at.dy)?;
        let sums = ctx.broadcast_column(sums, cols)?;
        let softmax = ctx.exp(at.y)?;
        let part = ctx.mul(softmax, sums)?;
        Ok(vec![Some(ctx.sub(at.dy, part)?)])
    }
}
