//! Rectangles: joined, cut, padded.

use shardgraph_ops::Copy2d;

use super::rule::Rule;
use crate::{Adjoint, Axis, Ctx, Error, Operation, Run, Shape, Var, World};
use shardgraph_ops as ops;

/// The second operand below or beside the first.
#[derive(Debug, Clone, Copy)]
pub struct Concat {
    /// Join along rows or columns.
    pub axis: Axis,
}

/// `len` rows or columns from `start`.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// Cut along rows or columns.
    pub axis: Axis,
    /// First row or column.
    pub start: usize,
    /// Number of rows or columns.
    pub len: usize,
}

/// Zeros around the operand: the adjoint of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Pad {
    /// Pad along rows or columns.
    pub axis: Axis,
    /// First row or column of the operand in the result.
    pub start: usize,
    /// Rows or columns of the result.
    pub total: usize,
}

fn with_length(x: Shape, axis: Axis, len: usize) -> Shape {
    match axis {
        Axis::Rows => Shape::new(len, x.cols),
        Axis::Cols => Shape::new(x.rows, len),
    }
}

fn number(axis: Axis) -> u64 {
    match axis {
        Axis::Rows => 0,
        Axis::Cols => 1,
    }
}

/// The first element from a row or column on.
fn offset(axis: Axis, start: usize, stride: usize) -> usize {
    match axis {
        Axis::Rows => start * stride,
        Axis::Cols => start,
    }
}

/// A whole matrix into a larger one, from a row or column of that on.
fn into(x: Shape, out: Shape, axis: Axis, start: usize) -> Copy2d {
    Copy2d {
        rows: x.rows,
        width: x.cols,
        source_first: 0,
        source_stride: x.cols,
        target_first: offset(axis, start, out.cols),
        target_stride: out.cols,
    }
}

impl Operation for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        let (a, b) = (operands[0], operands[1]);
        match self.axis {
            Axis::Rows if a.cols == b.cols => Ok(Shape::new(a.rows + b.rows, a.cols)),
            Axis::Cols if a.rows == b.rows => Ok(Shape::new(a.rows, a.cols + b.cols)),
            Axis::Rows => Err("equal numbers of columns are expected".to_string()),
            Axis::Cols => Err("equal numbers of rows are expected".to_string()),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (a, b) = (run.operands[0], run.operands[1]);
        let first = into(a.shape, run.out.shape, self.axis, 0);
        let second = into(b.shape, run.out.shape, self.axis, a.shape.along(self.axis));
        ops::copy_2d(run.device(), first, a.values, run.out.values)?;
        Ok(ops::copy_2d(
            run.device(),
            second,
            b.values,
            run.out.values,
        )?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let len = |i: usize| ctx.shape(at.operands[i]).along(self.axis);
        let (len_a, len_b) = (len(0), len(1));
        let mut terms = vec![None, None];
        if at.wants(0) {
            terms[0] = Some(ctx.slice(at.dy, self.axis, 0, len_a)?);
        }
        if at.wants(1) {
            terms[1] = Some(ctx.slice(at.dy, self.axis, len_a, len_b)?);
        }
        Ok(terms)
    }

    fn numbers(&self) -> Vec<u64> {
        vec![number(self.axis)]
    }
}

impl Operation for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        let (x, start, len) = (operands[0], self.start, self.len);
        match start.checked_add(len) {
            Some(end) if end <= x.along(self.axis) => Ok(with_length(x, self.axis, len)),
            _ => Err(format!("a slice of {len} from {start} must lie inside")),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0];
        let copy = Copy2d {
            rows: run.out.shape.rows,
            width: run.out.shape.cols,
            source_first: offset(self.axis, self.start, x.shape.cols),
            source_stride: x.shape.cols,
            target_first: 0,
            target_stride: run.out.shape.cols,
        };
        Ok(ops::copy_2d(run.device(), copy, x.values, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let (axis, start) = (self.axis, self.start);
        let total = ctx.shape(at.operands[0]).along(axis);
        Ok(vec![Some(ctx.pad(at.dy, axis, start, total)?)])
    }

    fn numbers(&self) -> Vec<u64> {
        vec![number(self.axis), self.start as u64, self.len as u64]
    }
}

impl Operation for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        let (x, start, total) = (operands[0], self.start, self.total);
        match start.checked_add(x.along(self.axis)) {
            Some(end) if end <= total => Ok(with_length(x, self.axis, total)),
            _ => Err(format!("it must fit into {total} from {start}")),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0];
        let copy = into(x.shape, run.out.shape, self.axis, self.start);
        run.device().clear(run.out.values)?;
        Ok(ops::copy_2d(run.device(), copy, x.values, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let len = ctx.shape(at.operands[0]).along(self.axis);
        Ok(vec![Some(ctx.slice(at.dy, self.axis, self.start, len)?)])
    }

    fn numbers(&self) -> Vec<u64> {
        vec![number(self.axis), self.start as u64, self.total as u64]
    }
}
