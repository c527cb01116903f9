//! Operations on single elements: functions of one matrix, and of two of one shape.

use std::cmp::Ordering;

use shardgraph_ops::{Binary, Unary};

use super::rule::{Rule, equal};
use crate::{Adjoint, Ctx, Error, Operation, Run, Shape, Var, World};
use shardgraph_ops as ops;

/// A function of one element.
#[derive(Debug, Clone, Copy)]
pub struct Function(pub Unary);

/// A function of two elements.
#[derive(Debug, Clone, Copy)]
pub struct Elementwise(pub Binary);

/// `factor * x`.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// The factor.
    pub factor: f32,
}

/// `max(x, 0)`.
#[derive(Debug, Clone, Copy)]
pub struct Relu;

fn ascending(low: f32, high: f32) -> Result<(), String> {
    match low.partial_cmp(&high).is_none_or(Ordering::is_gt) {
        true => Err(format!("the bounds {low} and {high} must ascend")),
        false => Ok(()),
    }
}

fn bits(bounds: [f32; 2]) -> Vec<u64> {
    bounds.map(|bound| u64::from(bound.to_bits())).to_vec()
}

impl Operation for Function {
    fn name(&self) -> &'static str {
        match self.0 {
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Sqrt => "sqrt",
            Unary::Clamp { .. } => "clamp",
        }
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        if let Unary::Clamp { low, high } = self.0 {
            ascending(low, high)?;
        }
        Ok(operands[0])
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0].values;
        Ok(ops::unary(run.device(), self.0, x, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let (x, y, dy) = (at.operands[0], at.y, at.dy);
        let dx = match self.0 {
            Unary::Exp => ctx.mul(dy, y)?,
            Unary::Log => ctx.div(dy, x)?,
            // dy (1 - y^2), and dy y (1 - y).
            Unary::Tanh => {
                let once = ctx.mul(dy, y)?;
                let twice = ctx.mul(once, y)?;
                ctx.sub(dy, twice)?
            }
            Unary::Sigmoid => {
                let once = ctx.mul(dy, y)?;
                let twice = ctx.mul(once, y)?;
                ctx.sub(once, twice)?
            }
            // dy / (2 y).
            Unary::Sqrt => {
                let quotient = ctx.div(dy, y)?;
                ctx.scale(quotient, 0.5)?
            }
            Unary::Clamp { low, high } => ctx.binary(Binary::WhereInside { low, high }, dy, x)?,
        };
        Ok(vec![Some(dx)])
    }

    fn numbers(&self) -> Vec<u64> {
        match self.0 {
            Unary::Clamp { low, high } => bits([low, high]),
            _ => Vec::new(),
        }
    }
}

impl Operation for Elementwise {
    fn name(&self) -> &'static str {
        match self.0 {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::WherePositive => "where_positive",
            Binary::WhereInside { .. } => "where_inside",
        }
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        if let Binary::WhereInside { low, high } = self.0 {
            ascending(low, high)?;
        }
        equal(operands)
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (a, b) = (run.operands[0].values, run.operands[1].values);
        Ok(ops::binary(run.device(), self.0, a, b, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let (a, b, dy) = (at.operands[0], at.operands[1], at.dy);
        let mut terms = vec![None, None];
        if at.wants(0) {
            terms[0] = Some(match self.0 {
                Binary::Add | Binary::Sub => dy,
                Binary::Mul => ctx.mul(dy, b)?,
                Binary::Div => ctx.div(dy, b)?,
                step @ (Binary::WherePositive | Binary::WhereInside { .. }) => {
                    ctx.binary(step, dy, b)?
                }
            });
        }
        if at.wants(1) {
            terms[1] = match self.0 {
                Binary::Add => Some(dy),
                Binary::Sub => Some(ctx.scale(dy, -1.0)?),
                Binary::Mul => Some(ctx.mul(dy, a)?),
                Binary::Div => {
                    let share = ctx.div(dy, b)?;
                    let product = ctx.mul(share, at.y)?;
                    Some(ctx.scale(product, -1.0)?)
                }
                // A step: its derivative is 0 wherever it exists.
                Binary::WherePositive | Binary::WhereInside { .. } => None,
            };
        }
        Ok(terms)
    }

    fn numbers(&self) -> Vec<u64> {
        match self.0 {
            Binary::WhereInside { low, high } => bits([low, high]),
            _ => Vec::new(),
        }
    }
}

impl Operation for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0].values;
        Ok(ops::scale(run.device(), self.factor, x, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.scale(at.dy, self.factor)?)])
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.factor.to_bits().into()]
    }
}

impl Operation for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let x = run.operands[0].values;
        Ok(ops::relu(run.device(), x, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let dx = ctx.binary(Binary::WherePositive, at.dy, at.y)?;
        Ok(vec![Some(dx)])
    }
}
