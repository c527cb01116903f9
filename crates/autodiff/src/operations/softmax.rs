//! Softmax of rows.

use crate::{Adjoint, Ctx, Error, Operation, Run, Var};
use shardgraph_ops as ops;

/// The logarithm of each row's softmax: `x - log(sum(exp(x)))` by rows, after subtraction of each row's largest value.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax;

impl Operation for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0];
        let device = run.device();
        Ok(ops::log_softmax(
            device,
            x.rows(),
            x.values,
            run.out.values,
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
