//! Columns: one repeated side by side, and the sum of all.

use shardgraph_ops::{Binary, Rows};

use super::matmul::PLAIN;
use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operation, Role, Run, Shape, Var, World};
use shardgraph_ops as ops;

/// One column, `n_cols` times side by side.
#[derive(Debug, Clone, Copy)]
pub struct BroadcastColumn {
    /// Columns of the result.
    pub n_cols: usize,
}

/// The sum of each row, as one column.
///
/// # Determinism
/// The order of a row's terms depends on their number alone. On the host it is that of the product with a column of ones,
/// whose bits the sum has.
#[derive(Debug, Clone, Copy)]
pub struct RowSums;

/// A product with a matrix of ones, on the host.
fn times_ones(run: &mut Run<'_>, ones: Shape) -> Result<(), Error> {
    let (x, device) = (run.operands[0], run.device());
    let dims = PLAIN.dims(x.shape, run.out.shape);
    let ones = vec![1.0; ones.len()].into();
    Ok(ops::matmul(device, dims, x.values, &ones, run.out.values)?)
}

impl Operation for BroadcastColumn {
    fn name(&self) -> &'static str {
        "broadcast_column"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        match operands[0].cols {
            1 => Ok(Shape::new(operands[0].rows, self.n_cols)),
            _ => Err("a single column is expected".to_string()),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (device, out) = (run.device(), &mut run.out);
        if device.is_host() {
            return times_ones(run, Shape::new(1, self.n_cols));
        }
        let rows = Rows {
            n_rows: out.shape.rows,
            width: out.shape.cols,
        };
        let (zeros, column) = (device.zeros(out.values.len())?, run.operands[0].values);
        let op = Binary::Add;
        Ok(ops::binary_column(
            device, op, rows, &zeros, column, out.values,
        )?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.row_sums(at.dy)?)])
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.n_cols as u64]
    }

    fn role(&self) -> Role {
        Role::Recomputed
    }
}

impl Operation for RowSums {
    fn name(&self) -> &'static str {
        "row_sums"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        Ok(Shape::new(operands[0].rows, 1))
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (device, x) = (run.device(), run.operands[0]);
        match device.is_host() {
            true => times_ones(run, Shape::new(x.shape.cols, 1)),
            false => Ok(ops::row_sums(device, x.rows(), x.values, run.out.values)?),
        }
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let n_cols = ctx.shape(at.operands[0]).cols;
        Ok(vec![Some(ctx.broadcast_column(at.dy, n_cols)?)])
    }
}
