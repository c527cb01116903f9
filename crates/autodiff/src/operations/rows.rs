//! Whole rows: gathered, scattered, added up, repeated.

use std::borrow::Cow;
use std::sync::Arc;

use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operation, Payload, Role, RowNumbers, Run, Shape, Var, World};

/// Rows of a table by index; `u32::MAX` gives zeros.
#[derive(Debug, Clone)]
pub struct Gather {
    /// Row numbers.
    pub index: Arc<[u32]>,
}

/// Rows added into a table of `n_rows` zero rows: the adjoint of a gather.
#[derive(Debug, Clone)]
pub struct Scatter {
    /// The row of the table for each row; `u32::MAX` is left out.
    pub index: Arc<[u32]>,
    /// Rows of the table.
    pub n_rows: usize,
}

/// The sum of all rows, as one row.
#[derive(Debug, Clone, Copy)]
pub struct SumRows;

/// One row, `n_rows` times.
#[derive(Debug, Clone, Copy)]
pub struct RepeatRow {
    /// Rows of the result.
    pub n_rows: usize,
}

fn in_table(index: &[u32], n_rows: usize) -> Result<(), String> {
    let mut numbers = index.iter();
    match numbers.find(|&&i| i != u32::MAX && i as usize >= n_rows) {
        None => Ok(()),
        Some(i) => Err(format!("row {i} does not exist")),
    }
}

impl Operation for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        in_table(&self.index, operands[0].rows)?;
        Ok(Shape::new(self.index.len(), operands[0].cols))
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.gather_rows(self)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let n_rows = ctx.shape(at.operands[0]).rows;
        let dx = ctx.scatter(at.dy, Arc::clone(&self.index), n_rows)?;
        Ok(vec![Some(dx)])
    }

    fn payload(&self) -> Option<Payload> {
        Some(Payload::new(&self.index))
    }

    fn with_payload(&self, payload: &Payload) -> Option<Arc<dyn Operation>> {
        let index = Arc::clone(payload.get()?);
        Some(Arc::new(Self { index }))
    }

    fn row_numbers(&self, operands: &[Shape], _shape: Shape) -> Option<RowNumbers<'_>> {
        Some(RowNumbers {
            n_rows: operands[0].rows,
            numbers: Cow::Borrowed(&self.index),
        })
    }
}

impl Operation for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        let n_rows = self.index.len();
        if n_rows != operands[0].rows {
            return Err(format!("{n_rows} rows, one an index, are expected"));
        }
        in_table(&self.index, self.n_rows)?;
        Ok(Shape::new(self.n_rows, operands[0].cols))
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.scatter_rows(self)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.gather(at.dy, Arc::clone(&self.index))?)])
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.n_rows as u64]
    }

    fn payload(&self) -> Option<Payload> {
        Some(Payload::new(&self.index))
    }

    fn with_payload(&self, payload: &Payload) -> Option<Arc<dyn Operation>> {
        let (index, n_rows) = (Arc::clone(payload.get()?), self.n_rows);
        Some(Arc::new(Self { index, n_rows }))
    }

    fn row_numbers(&self, _operands: &[Shape], shape: Shape) -> Option<RowNumbers<'_>> {
        Some(RowNumbers {
            n_rows: shape.rows,
            numbers: Cow::Borrowed(&self.index),
        })
    }
}

impl Operation for SumRows {
    fn name(&self) -> &'static str {
        "sum_rows"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        Ok(Shape::new(1, operands[0].cols))
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.scatter_rows(self)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let n_rows = ctx.shape(at.operands[0]).rows;
        Ok(vec![Some(ctx.repeat_row(at.dy, n_rows)?)])
    }

    fn row_numbers(&self, operands: &[Shape], _shape: Shape) -> Option<RowNumbers<'_>> {
        Some(RowNumbers {
            n_rows: 1,
            numbers: Cow::Owned(vec![0; operands[0].rows]),
        })
    }
}

impl Operation for RepeatRow {
    fn name(&self) -> &'static str {
        "repeat_row"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        match operands[0].rows {
            1 => Ok(Shape::new(self.n_rows, operands[0].cols)),
            _ => Err("a single row is expected".to_string()),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.gather_rows(self)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.sum_rows(at.dy)?)])
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.n_rows as u64]
    }

    fn row_numbers(&self, _operands: &[Shape], _shape: Shape) -> Option<RowNumbers<'_>> {
        Some(RowNumbers {
            n_rows: 1,
            numbers: Cow::Owned(vec![0; self.n_rows]),
        })
    }

    /// A bias would stay in memory from the first reader in the forward part to the last in the backward part.
    fn role(&self) -> Role {
        Role::Recomputed
    }
}
