//! Columns: one repeated side by side, and the sum of all.

use shardgraph_ops::{Binary, MatMul as Dims, Rows};

use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operand, Operation, Output, Role, Run, Shape, Var, World};
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
fn times_ones(run: &Run<'_>, x: Operand<'_>, ones: Shape, out: Output<'_>) -> Result<(), Error> {
    let dims = Dims {
        rows: x.shape.rows,
        inner: ones.rows,
        cols: ones.cols,
        transpose_a: false,
        transpose_b: false,
    };
    let ones = vec![1.0; ones.len()].into();
    Ok(ops::matmul(
        run.device(),
        dims,
        x.values,
        &ones,
        out.values,
    )?)
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

    fn compute(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand<'_>],
        out: Output<'_>,
    ) -> Result<(), Error> {
        let device = run.device();
        if device.is_host() {
            return times_ones(run, operands[0], Shape::new(1, self.n_cols), out);
        }
        let rows = Rows {
            n_rows: out.shape.rows,
            width: out.shape.cols,
        };
        let (zeros, column) = (device.zeros(out.values.len())?, operands[0].values);
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

    fn compute(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand<'_>],
        out: Output<'_>,
    ) -> Result<(), Error> {
        let (device, x) = (run.device(), operands[0]);
        match device.is_host() {
            true => times_ones(run, x, Shape::new(x.shape.cols, 1), out),
            false => Ok(ops::row_sums(device, x.rows(), x.values, out.values)?),
        }
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let n_cols = ctx.shape(at.operands[0]).cols;
        Ok(vec![Some(ctx.broadcast_column(at.dy, n_cols)?)])
    }
}
