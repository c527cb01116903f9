//! Off-policy corrected values of trajectories that another policy made.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Ctx, Shape, Var};

use crate::error::Call;
use crate::rows::{join, shifted, steps};
use crate::{Error, Sequences};

/// V-trace: targets for the values and advantages for the policy, from importance ratios that are
/// clipped twice.
///
/// With `rho_t = min(rho_bar, pi / mu)`, `c_t = lambda min(c_bar, pi / mu)` and `delta_t = rho_t
/// (r_t + gamma_t V(x_{t+1}) - V(x_t))`, the targets are `v_s = V(x_s) + delta_s + gamma_s c_s
/// (v_{s+1} - V(x_{s+1}))` and the advantages `rho_s (r_s + gamma_s v_{s+1} - V(x_s))`. No gradient
/// flows through either.
///
/// # Source
/// Espeholt et al., "IMPALA: scalable distributed deep-RL with importance weighted actor-learner
/// architectures" (2018), equation 1 and section 4.2; lambda as in its remark 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VTrace {
    /// The largest ratio in a TD error: what the values converge to depends on it. Default 1.
    pub rho_bar: f32,
    /// The largest ratio in a trace: how fast they converge depends on it. Default 1.
    pub c_bar: f32,
    /// The decay of traces. Default 1.
    pub lambda: f32,
}

/// The inputs of [`VTrace::apply`]: B trajectories of T steps, in the order of `rows`.
#[derive(Debug, Clone, Copy)]
pub struct VTraceInputs {
    /// `[T * B, 1]`: `log pi(a | x) - log mu(a | x)` of the learner's policy pi and the actor's mu.
    pub log_ratios: Var,
    /// `[T * B, 1]`.
    pub rewards: Var,
    /// `[T * B, 1]`: 0 where the episode ended with this step, in any way: the next row is of
    /// another episode. Where it was truncated, add the discounted value of its last observation to
    /// the reward; without that it counts as terminated, a bias.
    pub discounts: Var,
    /// `[T * B, 1]`: the learner's values of the states.
    pub values: Var,
    /// `[B, 1]`: its values of the states after the last step.
    pub bootstrap: Var,
    /// T, B and their order.
    pub rows: Sequences,
}

/// The results of [`VTrace::apply`], in the order of its inputs.
#[derive(Debug, Clone, Copy)]
pub struct VTraceOutput {
    /// `[T * B, 1]`: the targets v of the values.
    pub targets: Var,
    /// `[T * B, 1]`: the advantages of the policy gradient.
    pub advantages: Var,
}

impl Default for VTrace {
    fn default() -> VTrace {
        VTrace {
            rho_bar: 1.0,
            c_bar: 1.0,
            lambda: 1.0,
        }
    }
}

impl VTrace {
    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When one is negative or not finite.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("v_trace", "VTrace::check");
        call.expect_not_negative("rho_bar", self.rho_bar)?;
        call.expect_not_negative("c_bar", self.c_bar)?;
        call.expect_not_negative("lambda", self.lambda)
    }

    /// Targets and advantages.
    ///
    /// # Errors
    /// Where the shapes do not fit, or a setting cannot be right.
    /// # Complexity
    /// Five operations a time step.
    pub fn apply(&self, ctx: &mut dyn Ctx, inputs: &VTraceInputs) -> Result<VTraceOutput, Error> {
        self.check()?;
        check(ctx, inputs)?;
        let VTraceInputs {
            discounts,
            values,
            bootstrap,
            rows,
            ..
        } = *inputs;
        let ratios = ctx.exp(inputs.log_ratios)?;
        let rho = ctx.clamp(ratios, 0.0, self.rho_bar)?;
        let next_values = shifted(ctx, values, bootstrap)?;
        let deltas = self.weighted_td_errors(ctx, inputs, rho, next_values)?;
        let c = ctx.clamp(ratios, 0.0, self.c_bar)?;
        let c = ctx.scale(c, self.lambda)?;
        let decays = ctx.mul(discounts, c)?;
        let traces = decayed_sums(ctx, deltas, decays, rows.n_batch)?;
        let targets = ctx.add(values, traces)?;
        let targets = ctx.detach(targets)?;
        let next_targets = shifted(ctx, targets, bootstrap)?;
        let advantages = self.weighted_td_errors(ctx, inputs, rho, next_targets)?;
        let advantages = ctx.detach(advantages)?;
        Ok(VTraceOutput {
            targets,
            advantages,
        })
    }

    /// `rho (r + gamma next - V)`.
    fn weighted_td_errors(
        &self,
        ctx: &mut dyn Ctx,
        inputs: &VTraceInputs,
        rho: Var,
        next: Var,
    ) -> Result<Var, Error> {
        let future = ctx.mul(inputs.discounts, next)?;
        let returns = ctx.add(inputs.rewards, future)?;
        let errors = ctx.sub(returns, inputs.values)?;
        Ok(ctx.mul(rho, errors)?)
    }
}

/// `s_t = x_t + decay_t s_{t+1}`, from the last time step to the first.
fn decayed_sums(ctx: &mut dyn Ctx, x: Var, decays: Var, n_batch: usize) -> Result<Var, Error> {
    let (x, decays) = (steps(ctx, x, n_batch)?, steps(ctx, decays, n_batch)?);
    let mut sums = x;
    for t in (0..sums.len() - 1).rev() {
        let later = ctx.mul(decays[t], sums[t + 1])?;
        sums[t] = ctx.add(sums[t], later)?;
    }
    Ok(join(ctx, &sums)?)
}

fn check(ctx: &dyn Ctx, inputs: &VTraceInputs) -> Result<(), Error> {
    let call = Call::new("v_trace", "VTrace::apply");
    for (what, column) in [
        ("the values", inputs.values),
        ("the log ratios", inputs.log_ratios),
        ("the rewards", inputs.rewards),
        ("the discounts", inputs.discounts),
    ] {
        inputs.rows.expect(call, ctx, what, column, 1)?;
    }
    let after_the_last = Shape::new(inputs.rows.n_batch, 1);
    call.expect_shape(ctx, "the bootstrap", inputs.bootstrap, after_the_last)
}
