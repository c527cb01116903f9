//! The loss of proximal policy optimisation.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Ctx, Shape, Var};

use crate::actor_critic::PolicyAndValue;
use crate::error::Call;
use crate::rows::{constant, mean};
use crate::{ActionDistribution, Error};

/// The clipped surrogate of a policy's gain, a loss for its values and a bonus for entropy.
///
/// # Source
/// Schulman et al., "Proximal policy optimization algorithms" (2017), equations 7 and 9; clipped
/// values as in the authors' code (Huang et al., "The 37 implementation details of proximal policy
/// optimization", 2022).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PpoLoss {
    /// The distance from 1 at which the ratio of probabilities is clipped. Default 0.2.
    pub clip: f32,
    /// The distance from the old value at which values are clipped. Default none: they are not.
    pub value_clip: Option<f32>,
    /// The factor of half the squared error of the values. Default 0.5.
    pub value_coefficient: f32,
    /// The factor of the entropy, in nats. Default 0.01.
    pub entropy_coefficient: f32,
}

impl Default for PpoLoss {
    fn default() -> PpoLoss {
        PpoLoss {
            clip: 0.2,
            value_clip: None,
            value_coefficient: 0.5,
            entropy_coefficient: 0.01,
        }
    }
}

/// The steps of a minibatch, n rows.
#[derive(Debug, Clone, Copy)]
pub struct PpoBatch {
    /// `[n, n_action_columns]`: one-hot, in each part of a discrete action; else the drawn elements.
    pub actions: Var,
    /// `[n, n_actions]`: 0 for the actions that a state allows, a large negative number, such as
    /// -1e9, for the others. `None` where all are allowed.
    pub mask: Option<Var>,
    /// `[n, 1]`: the logarithms of the probabilities by which the actions were taken.
    pub behaviour: Var,
    /// `[n, 1]`.
    pub advantages: Var,
    /// `[n, 1]`: what the values should be.
    pub returns: Var,
    /// `[n, 1]`: the values when the actions were taken.
    pub old_values: Var,
}

/// The results of a [`PpoLoss`], each `[1, 1]`.
#[derive(Debug, Clone, Copy)]
pub struct PpoOutput {
    /// The number to descend.
    pub loss: Var,
    /// Minus the clipped surrogate.
    pub policy: Var,
    /// Half the squared error of the values.
    pub value: Var,
    /// The policy's entropy.
    pub entropy: Var,
    /// An estimate of the divergence of the policy from the one that acted: the mean of
    /// `ratio - 1 - log(ratio)`. No gradient flows through it.
    pub kl: Var,
}

impl PpoBatch {
    /// Inputs of zeros for `n` steps, whose values a program is given for each run.
    ///
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn inputs(
        ctx: &mut dyn Ctx,
        n: usize,
        policy: &ActionDistribution,
        has_mask: bool,
    ) -> Result<PpoBatch, Error> {
        let actions = policy.action_input(ctx, n)?;
        let mut zeros = |width: usize| constant(ctx, Shape::new(n, width), 0.0);
        Ok(PpoBatch {
            actions,
            mask: has_mask.then(|| zeros(policy.n_columns())).transpose()?,
            behaviour: zeros(1)?,
            advantages: zeros(1)?,
            returns: zeros(1)?,
            old_values: zeros(1)?,
        })
    }
}

impl PpoLoss {
    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When a clip is not above 0, or a coefficient is negative or not finite.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("ppo_loss", "PpoLoss::check");
        call.expect_above_0("clip", self.clip)?;
        if let Some(clip) = self.value_clip {
            call.expect_above_0("value_clip", clip)?;
        }
        call.expect_not_negative("value_coefficient", self.value_coefficient)?;
        call.expect_not_negative("entropy_coefficient", self.entropy_coefficient)
    }

    /// The loss of what a network says about the states of a batch.
    ///
    /// # Shapes
    /// `outputs` of n rows.
    /// # Errors
    /// Where the shapes do not fit, or a setting cannot be right.
    pub fn apply(
        &self,
        ctx: &mut dyn Ctx,
        policy: &ActionDistribution,
        outputs: PolicyAndValue,
        batch: &PpoBatch,
    ) -> Result<PpoOutput, Error> {
        self.check()?;
        self.check_shapes(ctx, outputs, batch)?;
        let evaluated = policy.evaluate(ctx, outputs.logits, batch.mask, batch.actions)?;
        let log_ratio = ctx.sub(evaluated.log_probability, batch.behaviour)?;
        let ratio = ctx.exp(log_ratio)?;
        let gain = self.surrogate(ctx, ratio, batch.advantages)?;
        let policy_loss = ctx.scale(gain, -1.0)?;
        let value = self.value_loss(ctx, outputs.values, batch)?;
        let entropy = mean(ctx, evaluated.entropy)?;
        let bonus = ctx.scale(entropy, self.entropy_coefficient)?;
        let counted = ctx.scale(value, self.value_coefficient)?;
        let loss = ctx.sub(policy_loss, bonus)?;
        Ok(PpoOutput {
            loss: ctx.add(loss, counted)?,
            policy: policy_loss,
            value,
            entropy,
            kl: divergence(ctx, ratio, log_ratio)?,
        })
    }

    fn check_shapes(
        &self,
        ctx: &dyn Ctx,
        outputs: PolicyAndValue,
        batch: &PpoBatch,
    ) -> Result<(), Error> {
        let call = Call::new("ppo_loss", "PpoLoss::apply");
        let column = Shape::new(ctx.shape(outputs.logits).rows, 1);
        call.expect_shape(ctx, "the values", outputs.values, column)?;
        call.expect_shape(ctx, "the behaviour", batch.behaviour, column)?;
        call.expect_shape(ctx, "the advantages", batch.advantages, column)?;
        call.expect_shape(ctx, "the returns", batch.returns, column)?;
        call.expect_shape(ctx, "the old values", batch.old_values, column)?;
        let Some(mask) = batch.mask else {
            return Ok(());
        };
        call.expect_shape(ctx, "the mask", mask, ctx.shape(outputs.logits))
    }

    /// The mean of `min(ratio A, clip(ratio) A)`.
    fn surrogate(&self, ctx: &mut dyn Ctx, ratio: Var, advantages: Var) -> Result<Var, Error> {
        let clipped = ctx.clamp(ratio, 1.0 - self.clip, 1.0 + self.clip)?;
        let plain = ctx.mul(ratio, advantages)?;
        let clipped = ctx.mul(clipped, advantages)?;
        // min(a, b) = a - max(a - b, 0)
        let above = ctx.sub(plain, clipped)?;
        let above = ctx.relu(above)?;
        let least = ctx.sub(plain, above)?;
        Ok(mean(ctx, least)?)
    }

    fn value_loss(&self, ctx: &mut dyn Ctx, values: Var, batch: &PpoBatch) -> Result<Var, Error> {
        let errors = ctx.sub(values, batch.returns)?;
        let mut squares = ctx.mul(errors, errors)?;
        if let Some(clip) = self.value_clip {
            let moved = ctx.sub(values, batch.old_values)?;
            let moved = ctx.clamp(moved, -clip, clip)?;
            let clipped = ctx.add(batch.old_values, moved)?;
            let errors = ctx.sub(clipped, batch.returns)?;
            let clipped = ctx.mul(errors, errors)?;
            // max(a, b) = a + max(b - a, 0)
            let above = ctx.sub(clipped, squares)?;
            let above = ctx.relu(above)?;
            squares = ctx.add(squares, above)?;
        }
        let square = mean(ctx, squares)?;
        Ok(ctx.scale(square, 0.5)?)
    }
}

fn divergence(ctx: &mut dyn Ctx, ratio: Var, log_ratio: Var) -> Result<Var, Error> {
    let shape = ctx.shape(ratio);
    let ones = constant(ctx, shape, 1.0)?;
    let kl = ctx.sub(ratio, ones)?;
    let kl = ctx.sub(kl, log_ratio)?;
    let kl = ctx.detach(kl)?;
    Ok(mean(ctx, kl)?)
}
