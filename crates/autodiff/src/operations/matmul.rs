//! Dense products of replicated matrices.

use shardgraph_ops::{Binary, MatMul as Dims};

use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operation, Run, Shape, Var, World};
use shardgraph_ops as ops;

/// `op(a) * op(b)` of replicated matrices, each optionally transposed.
#[derive(Debug, Clone, Copy)]
pub struct MatMul {
    /// Transpose the left factor.
    pub transpose_a: bool,
    /// Transpose the right factor.
    pub transpose_b: bool,
}

/// `x * w + b`, then `max(., 0)` if `relu`, of replicated matrices: the bits of these operations one by one.
///
/// # Shapes
/// `x [n, inner]`, `w [inner, cols]`, `b [1, cols]`, which is added to every row.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// Replace negative results by zero.
    pub relu: bool,
}

impl MatMul {
    /// The shape of a product.
    ///
    /// # Errors
    /// Where the inner dimensions differ.
    pub fn shape_of(&self, a: Shape, b: Shape) -> Result<Shape, String> {
        let turned = |shape: Shape, turn| match turn {
            true => (shape.cols, shape.rows),
            false => (shape.rows, shape.cols),
        };
        let (rows, inner) = turned(a, self.transpose_a);
        let (inner_b, cols) = turned(b, self.transpose_b);
        match inner == inner_b {
            true => Ok(Shape::new(rows, cols)),
            false => Err(format!(
                "the inner dimensions {inner} and {inner_b} must be equal"
            )),
        }
    }

    /// The dimensions of a product whose left factor is `a`.
    pub fn dims(&self, a: Shape, out: Shape) -> Dims {
        Dims {
            rows: out.rows,
            inner: match self.transpose_a {
                true => a.rows,
                false => a.cols,
            },
            cols: out.cols,
            transpose_a: self.transpose_a,
            transpose_b: self.transpose_b,
        }
    }
}

pub(super) const PLAIN: MatMul = MatMul {
    transpose_a: false,
    transpose_b: false,
};

impl Operation for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        self.shape_of(operands[0], operands[1])
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (a, b) = (run.operands[0], run.operands[1]);
        let (dims, device) = (self.dims(a.shape, run.out.shape), run.device());
        Ok(ops::matmul(
            device,
            dims,
            a.values,
            b.values,
            run.out.values,
        )?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let (a, b, dy) = (at.operands[0], at.operands[1], at.dy);
        let mut terms = vec![None, None];
        if at.wants(0) {
            terms[0] = Some(match self.transpose_a {
                false => ctx.matmul_transposed((dy, false), (b, !self.transpose_b))?,
                true => ctx.matmul_transposed((b, self.transpose_b), (dy, true))?,
            });
        }
        if at.wants(1) {
            terms[1] = Some(match self.transpose_b {
                false => ctx.matmul_transposed((a, !self.transpose_a), (dy, false))?,
                true => ctx.matmul_transposed((dy, true), (a, self.transpose_a))?,
            });
        }
        Ok(terms)
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.transpose_a.into(), self.transpose_b.into()]
    }
}

impl Operation for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        let product = PLAIN.shape_of(operands[0], operands[1])?;
        match operands[2] == Shape::new(1, product.cols) {
            true => Ok(product),
            false => Err(format!("the added row is [1, {}]", product.cols)),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let [x, w, b] = [run.operands[0], run.operands[1], run.operands[2]];
        let (dims, device) = (PLAIN.dims(x.shape, run.out.shape), run.device());
        let (x, w, b) = (x.values, w.values, b.values);
        Ok(ops::linear(
            device,
            dims,
            x,
            w,
            b,
            self.relu,
            run.out.values,
        )?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let [x, w] = [at.operands[0], at.operands[1]];
        let dz = match self.relu {
            true => ctx.binary(Binary::WherePositive, at.dy, at.y)?,
            false => at.dy,
        };
        let mut terms = vec![None, None, None];
        if at.wants(0) {
            terms[0] = Some(ctx.matmul_transposed((dz, false), (w, true))?);
        }
        if at.wants(1) {
            terms[1] = Some(ctx.matmul_transposed((x, true), (dz, false))?);
        }
        if at.wants(2) {
            terms[2] = Some(ctx.sum_rows(dz)?);
        }
        Ok(terms)
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.relu.into()]
    }
}
