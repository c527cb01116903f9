//! An eager run in which everything that a gradient takes for constant keeps the values of an
//! earlier run.

use shardgraph_autodiff::operations::AverageLoss;
use shardgraph_autodiff::{Ctx, Eager, Error, Op, Shape, Var};

/// Wraps an eager run: on the first one it notes the constants, in those that follow it puts them
/// back in their places.
pub(crate) struct Frozen<'a, 'b> {
    ctx: Eager<'a>,
    constants: &'b mut Vec<Vec<f32>>,
    is_first: bool,
    n_seen: usize,
}

impl<'a, 'b> Frozen<'a, 'b> {
    /// `constants` is empty for the first run.
    pub(crate) fn new(ctx: Eager<'a>, constants: &'b mut Vec<Vec<f32>>) -> Frozen<'a, 'b> {
        Frozen {
            ctx,
            is_first: constants.is_empty(),
            constants,
            n_seen: 0,
        }
    }

    pub(crate) fn values(&self, var: Var) -> Result<Vec<f32>, Error> {
        self.ctx.values(var)
    }

    /// `var`, with the values that it had in the first run.
    fn constant(&mut self, var: Var) -> Result<Var, Error> {
        self.n_seen += 1;
        if self.is_first {
            self.constants.push(self.ctx.values(var)?);
            return Ok(var);
        }
        let shape = self.ctx.shape(var);
        self.ctx.input(shape, &self.constants[self.n_seen - 1])
    }
}

impl Ctx for Frozen<'_, '_> {
    fn push(&mut self, mut op: Op) -> Result<Var, Error> {
        let is_constant = op
            .operation()
            .is_some_and(|operation| operation.is_constant());
        let is_loss = op.downcast::<AverageLoss>().is_some();
        if let Op::Apply { operands, .. } = &mut op
            && is_loss
        {
            operands[1] = self.constant(operands[1])?;
        }
        let var = self.ctx.push(op)?;
        match is_constant {
            true => self.constant(var),
            false => Ok(var),
        }
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        self.ctx.input(shape, values)
    }

    fn shape(&self, var: Var) -> Shape {
        self.ctx.shape(var)
    }

    fn op(&self, var: Var) -> &Op {
        self.ctx.op(var)
    }
}
