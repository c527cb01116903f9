//! Losses of policies: REINFORCE with a baseline, and IMPALA's actor-critic with V-trace.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Axis, Ctx, Shape, Var};

use crate::actor_critic::PolicyAndValue;
use crate::error::Call;
use crate::rows::{constant, mean};
use crate::{Error, Sequences, SoftmaxPolicy, VTrace, VTraceInputs};

/// A loss and its parts, each `[1, 1]`.
#[derive(Debug, Clone, Copy)]
pub struct PolicyLoss {
    /// The number to descend: `policy + baseline_coefficient * baseline - entropy_coefficient *
    /// entropy`.
    pub loss: Var,
    /// Minus the log probabilities of the actions, times their advantages.
    pub policy: Var,
    /// The squared errors of the values, halved for [`ImpalaLoss`], if there are values.
    pub baseline: Option<Var>,
    /// The policy's entropy.
    pub entropy: Var,
}

/// The reduction of a batch's terms to one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their mean.
    Mean,
    /// Their sum, as IMPALA's published hyper-parameters expect it.
    Sum,
}

/// `-mean(log pi(a | s) (return - baseline))`, with a loss for the baseline and a bonus for
/// entropy.
///
/// # Source
/// Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement
/// learning" (1992).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reinforce {
    /// True if advantages are shifted and scaled to mean 0 and variance 1 over the batch. Default
    /// no.
    pub normalise: bool,
    /// The factor of the baseline's squared error. Default 0.5.
    pub baseline_coefficient: f32,
    /// The factor of the entropy, in nats. Default 0.01.
    pub entropy_coefficient: f32,
}

impl Default for Reinforce {
    fn default() -> Reinforce {
        Reinforce {
            normalise: false,
            baseline_coefficient: 0.5,
            entropy_coefficient: 0.01,
        }
    }
}

impl Reinforce {
    /// Added to the variance before its root is taken: equal advantages become zeros.
    const EPSILON: f32 = 1e-8;

    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When one is negative or not finite.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("reinforce", "Reinforce::check");
        self.coefficients().check(call)
    }

    /// The loss of actions (one-hot) that had these returns.
    ///
    /// # Shapes
    /// `logits` and `actions [n, n_actions]`, `baseline` and `returns [n, 1]`.
    /// # Errors
    /// Where the shapes do not fit, or a setting cannot be right.
    pub fn apply(
        &self,
        ctx: &mut dyn Ctx,
        policy: &SoftmaxPolicy,
        logits: Var,
        baseline: Option<Var>,
        actions: Var,
        returns: Var,
    ) -> Result<PolicyLoss, Error> {
        self.check()?;
        let call = Call::new("reinforce", "Reinforce::apply");
        let column = Shape::new(ctx.shape(logits).rows, 1);
        call.expect_shape(ctx, "the returns", returns, column)?;
        let mut advantages = returns;
        if let Some(baseline) = baseline {
            call.expect_shape(ctx, "the baseline", baseline, column)?;
            let baseline = ctx.detach(baseline)?;
            advantages = ctx.sub(returns, baseline)?;
        }
        if self.normalise {
            advantages = normalised(ctx, advantages)?;
        }
        let log_probabilities = policy.log_probabilities(ctx, logits)?;
        let terms = Terms {
            log_probabilities,
            taken: policy.of_actions(ctx, log_probabilities, actions)?,
            advantages,
            values: baseline.map(|baseline| (baseline, returns)),
            square_factor: 1.0,
        };
        terms.loss(ctx, policy, self.coefficients(), Reduction::Mean)
    }

    fn coefficients(&self) -> Coefficients {
        Coefficients {
            baseline_coefficient: self.baseline_coefficient,
            entropy_coefficient: self.entropy_coefficient,
        }
    }
}

/// Shifted and scaled to mean 0 and variance 1; equal values become zeros.
///
/// The first value is taken off before the mean. Without that, equal values would leave the
/// rounding of their mean, which grows with them and would be scaled up to the order of 1.
fn normalised(ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
    let n_rows = ctx.shape(x).rows;
    if n_rows == 0 {
        return Ok(x);
    }
    let everywhere = constant(ctx, Shape::new(n_rows, 1), 1.0)?;
    let first = ctx.slice(x, Axis::Rows, 0, 1)?;
    let first = ctx.matmul(everywhere, first)?;
    let x = ctx.sub(x, first)?;
    let average = mean(ctx, x)?;
    let average = ctx.matmul(everywhere, average)?;
    let centred = ctx.sub(x, average)?;
    let squares = ctx.mul(centred, centred)?;
    let variance = mean(ctx, squares)?;
    let epsilon = constant(ctx, Shape::new(1, 1), Reinforce::EPSILON)?;
    let variance = ctx.add(variance, epsilon)?;
    // The set has no root: x^(-1/2) = exp(-log(x) / 2).
    let log = ctx.log(variance)?;
    let log = ctx.scale(log, -0.5)?;
    let inverse_deviation = ctx.exp(log)?;
    Ok(ctx.matmul(centred, inverse_deviation)?)
}

/// IMPALA's loss: policy gradient and values towards V-trace's targets, with a bonus for entropy.
///
/// # Source
/// Espeholt et al. (2018), section 4.2; the baseline's squared error is halved as in the authors'
/// code.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImpalaLoss {
    /// The correction.
    pub v_trace: VTrace,
    /// The factor of half the squared error of the values. Default 0.5.
    pub baseline_coefficient: f32,
    /// The factor of the entropy, in nats. Default 0.00025, which goes with sums.
    pub entropy_coefficient: f32,
    /// Sum (the default) or mean over all steps of all trajectories.
    pub reduction: Reduction,
}

impl Default for ImpalaLoss {
    fn default() -> ImpalaLoss {
        ImpalaLoss {
            v_trace: VTrace::default(),
            baseline_coefficient: 0.5,
            entropy_coefficient: 0.00025,
            reduction: Reduction::Sum,
        }
    }
}

/// B trajectories of T steps, in the order of `rows`.
#[derive(Debug, Clone, Copy)]
pub struct ImpalaBatch {
    /// `[T * B, n_actions]`: one-hot.
    pub actions: Var,
    /// `[T * B, 1]`: the logarithms of the probabilities by which the actor took them.
    pub behaviour: Var,
    /// `[T * B, 1]`.
    pub rewards: Var,
    /// `[T * B, 1]`: 0 where the episode ended with this step, in any way (see
    /// [`VTraceInputs::discounts`]).
    pub discounts: Var,
    /// `[B, 1]`: the learner's values of the states after the last step.
    pub bootstrap: Var,
    /// T, B and their order.
    pub rows: Sequences,
}

impl ImpalaBatch {
    /// Inputs of zeros for the trajectories, whose values a program is given for each run. The
    /// bootstrap is what the network says of the observations after the last step, and so comes of
    /// the caller.
    ///
    /// # Errors
    /// When there are no rows, and where the interpreter has no memory left.
    pub fn inputs(
        ctx: &mut dyn Ctx,
        rows: Sequences,
        n_actions: usize,
        bootstrap: Var,
    ) -> Result<ImpalaBatch, Error> {
        let n_rows = rows.n_rows()?;
        let mut zeros = |width: usize| constant(ctx, Shape::new(n_rows, width), 0.0);
        Ok(ImpalaBatch {
            actions: zeros(n_actions)?,
            behaviour: zeros(1)?,
            rewards: zeros(1)?,
            discounts: zeros(1)?,
            bootstrap,
            rows,
        })
    }
}

impl ImpalaLoss {
    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When one is negative or not finite.
    pub fn check(&self) -> Result<(), Error> {
        self.v_trace.check()?;
        let call = Call::new("impala_loss", "ImpalaLoss::check");
        self.coefficients().check(call)
    }

    /// The loss of what a network says about the states of a batch.
    ///
    /// # Shapes
    /// `outputs` of `T * B` rows, in the order of the batch.
    /// # Errors
    /// Where the shapes do not fit, or a setting cannot be right.
    pub fn apply(
        &self,
        ctx: &mut dyn Ctx,
        policy: &SoftmaxPolicy,
        outputs: PolicyAndValue,
        batch: &ImpalaBatch,
    ) -> Result<PolicyLoss, Error> {
        self.check()?;
        let call = Call::new("impala_loss", "ImpalaLoss::apply");
        let rows = batch.rows;
        rows.expect(call, ctx, "the logits", outputs.logits, policy.n_actions())?;
        rows.expect(call, ctx, "the values", outputs.values, 1)?;
        rows.expect(call, ctx, "the behaviour", batch.behaviour, 1)?;
        let log_probabilities = policy.log_probabilities(ctx, outputs.logits)?;
        let taken = policy.of_actions(ctx, log_probabilities, batch.actions)?;
        let corrected = VTraceInputs {
            log_ratios: ctx.sub(taken, batch.behaviour)?,
            rewards: batch.rewards,
            discounts: batch.discounts,
            values: outputs.values,
            bootstrap: batch.bootstrap,
            rows: batch.rows,
        };
        let corrected = self.v_trace.apply(ctx, &corrected)?;
        let terms = Terms {
            log_probabilities,
            taken,
            advantages: corrected.advantages,
            values: Some((outputs.values, corrected.targets)),
            square_factor: 0.5,
        };
        terms.loss(ctx, policy, self.coefficients(), self.reduction)
    }

    fn coefficients(&self) -> Coefficients {
        Coefficients {
            baseline_coefficient: self.baseline_coefficient,
            entropy_coefficient: self.entropy_coefficient,
        }
    }
}

/// Factors of two parts of a policy's loss.
#[derive(Clone, Copy)]
struct Coefficients {
    baseline_coefficient: f32,
    entropy_coefficient: f32,
}

impl Coefficients {
    fn check(self, call: Call<'_>) -> Result<(), Error> {
        call.expect_not_negative("baseline_coefficient", self.baseline_coefficient)?;
        call.expect_not_negative("entropy_coefficient", self.entropy_coefficient)
    }
}

/// The parts of a policy's loss.
struct Terms {
    /// `[n, n_actions]`.
    log_probabilities: Var,
    /// `[n, 1]`: of the actions that were taken.
    taken: Var,
    /// `[n, 1]`, without a gradient.
    advantages: Var,
    /// The values and what they should be, `[n, 1]` each.
    values: Option<(Var, Var)>,
    /// The factor of a squared error of the values in `baseline`.
    square_factor: f32,
}

impl Terms {
    fn loss(
        &self,
        ctx: &mut dyn Ctx,
        policy: &SoftmaxPolicy,
        coefficients: Coefficients,
        reduction: Reduction,
    ) -> Result<PolicyLoss, Error> {
        let weighted = ctx.mul(self.taken, self.advantages)?;
        let weighted = reduction.apply(ctx, weighted)?;
        let policy_term = ctx.scale(weighted, -1.0)?;
        let entropies = policy.entropy(ctx, self.log_probabilities)?;
        let entropy = reduction.apply(ctx, entropies)?;
        let bonus = ctx.scale(entropy, coefficients.entropy_coefficient)?;
        let mut loss = ctx.sub(policy_term, bonus)?;
        let mut baseline = None;
        if let Some((values, targets)) = self.values {
            let errors = ctx.sub(values, targets)?;
            let squares = ctx.mul(errors, errors)?;
            let squares = reduction.apply(ctx, squares)?;
            let squares = ctx.scale(squares, self.square_factor)?;
            let counted = ctx.scale(squares, coefficients.baseline_coefficient)?;
            loss = ctx.add(loss, counted)?;
            baseline = Some(squares);
        }
        Ok(PolicyLoss {
            loss,
            policy: policy_term,
            baseline,
            entropy,
        })
    }
}

impl Reduction {
    fn apply(self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        match self {
            Reduction::Mean => Ok(mean(ctx, x)?),
            Reduction::Sum => Ok(ctx.sum_rows(x)?),
        }
    }
}
