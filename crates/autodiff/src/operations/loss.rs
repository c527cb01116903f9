//! Averaged losses of replicated predictions.

use shardgraph_ops as ops;
use shardgraph_ops::Loss;

use super::rule::{Rule, equal};
use crate::{Adjoint, Ctx, Error, Operation, Run, Shape, Var, World};

/// The averaged loss of predictions against targets, `[1, 1]`; no gradient flows into the targets.
#[derive(Debug, Clone, Copy)]
pub struct AverageLoss(pub Loss);

/// The derivative of a loss by its predictions, times `upstream [1, 1]`.
#[derive(Debug, Clone, Copy)]
pub struct LossGrad(pub Loss);

fn numbers(loss: Loss) -> Vec<u64> {
    match loss {
        Loss::Mse => vec![u64::MAX],
        Loss::Huber { delta } => vec![delta.to_bits().into()],
    }
}

impl Operation for AverageLoss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        match self.0 {
            Loss::Huber { delta } if delta.is_nan() || delta <= 0.0 => {
                Err(format!("the delta {delta} of a Huber loss must be above 0"))
            }
            _ => equal(operands).map(|_| Shape::new(1, 1)),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (pred, target) = (run.operands[0].values, run.operands[1].values);
        let value = ops::loss(run.device(), self.0, pred, target)?;
        Ok(run.device().copy(&value, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let [pred, target] = [at.operands[0], at.operands[1]];
        let by_pred = ctx.loss_grad(self.0, pred, target, at.dy)?;
        Ok(vec![Some(by_pred), None])
    }

    fn numbers(&self) -> Vec<u64> {
        numbers(self.0)
    }
}

impl Operation for LossGrad {
    fn name(&self) -> &'static str {
        "loss_grad"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Rule {
        match operands[2] == Shape::new(1, 1) {
            true => equal(&operands[..2]),
            false => Err("the upstream derivative is [1, 1]".to_string()),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let [pred, target, upstream] = [0, 1, 2].map(|i| run.operands[i].values.as_ref());
        let (device, out) = (run.device(), &mut *run.out.values);
        Ok(ops::loss_grad(device, self.0, pred, target, upstream, out)?)
    }

    fn adjoint(&self, _ctx: &mut dyn Ctx, _at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Err(Error::NoAdjoint(self.name()))
    }

    fn numbers(&self) -> Vec<u64> {
        numbers(self.0)
    }
}
