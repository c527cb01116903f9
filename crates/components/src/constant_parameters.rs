//! Operations of networks whose parameters count as constants for the gradient.

use shardgraph_autodiff::{Ctx, Error, Op, Shape, Var};

/// Passes operations on and detaches each parameter: a gradient flows through a network to its
/// inputs, and into none of its weights.
pub(crate) struct ConstantParameters<'a>(pub(crate) &'a mut dyn Ctx);

impl Ctx for ConstantParameters<'_> {
    fn push(&mut self, op: Op) -> Result<Var, Error> {
        let is_param = matches!(op, Op::Param(_));
        let var = self.0.push(op)?;
        match is_param {
            true => self.0.detach(var),
            false => Ok(var),
        }
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        self.0.input(shape, values)
    }

    fn shape(&self, var: Var) -> Shape {
        self.0.shape(var)
    }

    fn op(&self, var: Var) -> &Op {
        self.0.op(var)
    }
}
