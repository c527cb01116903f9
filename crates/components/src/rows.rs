//! Small forms that several components share: constants, sums along rows, and the time steps of a
//! `[T * B, width]` matrix.

use shardgraph_autodiff::{Axis, Ctx, Error, Shape, Var};

/// A matrix that has one value everywhere.
pub(crate) fn constant(ctx: &mut dyn Ctx, shape: Shape, value: f32) -> Result<Var, Error> {
    ctx.input(shape, &vec![value; shape.len()])
}

/// The sum of each row: `[n, k]` to `[n, 1]`.
pub(crate) fn row_sums(ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
    let shape = Shape::new(ctx.shape(x).cols, 1);
    let ones = constant(ctx, shape, 1.0)?;
    ctx.matmul(x, ones)
}

/// The mean of a column: `[n, 1]` to `[1, 1]`.
pub(crate) fn mean(ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
    let n = ctx.shape(x).rows;
    let sum = ctx.sum_rows(x)?;
    ctx.scale(sum, 1.0 / n.max(1) as f32)
}

/// The smaller of two values, element by element: `b - max(b - a, 0)`.
pub(crate) fn minimum(ctx: &mut dyn Ctx, a: Var, b: Var) -> Result<Var, Error> {
    let excess = ctx.sub(b, a)?;
    let excess = ctx.relu(excess)?;
    ctx.sub(b, excess)
}

/// One row below the other. Halves are joined to halves, so that a value is copied as often as the
/// list can be halved.
pub(crate) fn join(ctx: &mut dyn Ctx, parts: &[Var]) -> Result<Var, Error> {
    if let [part] = parts {
        return Ok(*part);
    }
    let (above, below) = parts.split_at(parts.len() / 2);
    let (above, below) = (join(ctx, above)?, join(ctx, below)?);
    ctx.concat(above, below, Axis::Rows)
}

/// Row blocks of `[T * B, width]` with time first, in the order of time.
pub(crate) fn steps(ctx: &mut dyn Ctx, x: Var, n_batch: usize) -> Result<Vec<Var>, Error> {
    let n_steps = ctx.shape(x).rows / n_batch;
    (0..n_steps)
        .map(|t| ctx.slice(x, Axis::Rows, t * n_batch, n_batch))
        .collect()
}

/// The rows one time step later, with `last` at the end.
pub(crate) fn shifted(ctx: &mut dyn Ctx, x: Var, last: Var) -> Result<Var, Error> {
    let (n_rows, n_batch) = (ctx.shape(x).rows, ctx.shape(last).rows);
    if n_rows == n_batch {
        return Ok(last);
    }
    let later = ctx.slice(x, Axis::Rows, n_batch, n_rows - n_batch)?;
    ctx.concat(later, last, Axis::Rows)
}
