//! The loss of deep Q learning: plain and double, one and more steps, with importance weights.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{Ctx, Shape, Var};

use crate::error::Call;
use crate::rows::{constant, mean, row_sums};
use crate::{Error, QNetwork};

/// The cost of a TD error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TdLoss {
    /// `e^2`.
    Mse,
    /// `e^2 / 2` up to `delta`, linear beyond.
    Huber {
        /// The error at which the loss turns linear: above 0.
        delta: f32,
    },
}

/// The mean over a batch of what the TD error `Q(s, a) - (r + discount * Q'(s', a'))` costs, times
/// the importance weight.
///
/// `a'` is the best action by the target network `Q'`, or by the online network `Q` if `double`.
/// Rewards and discounts come as inputs: with the folded reward of n steps and `gamma^n` (0 after a
/// terminated episode) it is the n-step loss.
///
/// # Source
/// Mnih et al. (2015); van Hasselt, Guez and Silver (2016) for `double`; Schaul et al. (2016) for
/// the weights.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Recorder};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EnvironmentSpaces, DqnBatch, DqnLoss, Initialiser, QNetwork, QNetworkShape, TdLoss};
///
/// let (observation, action) = (Space::boxed(&[4], -1.0, 1.0)?, Space::discrete(2)?);
/// let spaces = EnvironmentSpaces::new(&observation, &action);
/// let mut params = Params::new();
/// let mut build = |scope: &str, params: &mut Params| {
///     QNetwork::build(params, scope, spaces, &QNetworkShape::default(), Initialiser::default())
/// };
/// let online = build("online", &mut params)?;
/// params.freeze_rest();
/// let target = build("target", &mut params)?;
/// let mut record = Recorder::new(&params, 0, 1);
/// let batch = DqnBatch::inputs(&mut record, 32, &online, true)?;
/// let loss = DqnLoss { td_loss: TdLoss::Huber { delta: 1.0 }, double: true };
/// let out = loss.of_networks(&mut record, &online, &target, &batch)?;
/// record.output("td_errors", out.td_errors); // the new priorities
/// record.output_param_gradient(out.loss)?; // of the online network alone
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DqnLoss {
    /// The cost of an error.
    pub td_loss: TdLoss,
    /// True if the online network chooses the next action.
    pub double: bool,
}

/// A batch of transitions.
#[derive(Debug, Clone, Copy)]
pub struct DqnBatch {
    /// `[n, n_inputs]`.
    pub observations: Var,
    /// `[n, n_actions]`: 1 for the action that was taken, 0 elsewhere.
    pub actions: Var,
    /// `[n, 1]`: the reward, of one step or of several.
    pub rewards: Var,
    /// `[n, 1]`: what the next state's value counts; 0 where the episode terminated. A truncated
    /// one keeps its discount, with the observation that ended it as the next.
    pub discounts: Var,
    /// `[n, n_inputs]`.
    pub next_observations: Var,
    /// `[n, 1]`: importance weights of a prioritised memory.
    pub weights: Option<Var>,
    /// `[n, n_actions]`: 0 for the actions that the next state allows, a large negative number, such
    /// as -1e9, for the others. `None` where all are allowed.
    pub next_mask: Option<Var>,
}

/// The results of a [`DqnLoss`].
#[derive(Debug, Clone, Copy)]
pub struct DqnOutput {
    /// `[1, 1]`.
    pub loss: Var,
    /// `[n, 1]`: prediction less target, with its sign; priorities are made of the magnitude.
    pub td_errors: Var,
    /// `[n, 1]`: the predictions `Q(s, a)`.
    pub predictions: Var,
}

impl DqnBatch {
    /// Inputs of zeros for `n` transitions, whose values a program is given for each run.
    ///
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn inputs(
        ctx: &mut dyn Ctx,
        n: usize,
        network: &QNetwork,
        is_weighted: bool,
    ) -> Result<DqnBatch, Error> {
        let mut zeros = |width: usize| constant(ctx, Shape::new(n, width), 0.0);
        Ok(DqnBatch {
            observations: zeros(network.n_inputs())?,
            actions: zeros(network.n_actions())?,
            rewards: zeros(1)?,
            discounts: zeros(1)?,
            next_observations: zeros(network.n_inputs())?,
            weights: is_weighted.then(|| zeros(1)).transpose()?,
            next_mask: None,
        })
    }

    /// The same with an input for the masks of the next states.
    ///
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn with_next_mask(self, ctx: &mut dyn Ctx, network: &QNetwork) -> Result<DqnBatch, Error> {
        let shape = Shape::new(ctx.shape(self.rewards).rows, network.n_actions());
        Ok(DqnBatch {
            next_mask: Some(constant(ctx, shape, 0.0)?),
            ..self
        })
    }
}

impl DqnLoss {
    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When `delta` is not above 0.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("dqn_loss", "DqnLoss::check");
        self.td_loss.check(call)
    }

    /// The loss of an online and a target network.
    ///
    /// # Errors
    /// Where the batch does not fit the networks.
    pub fn of_networks(
        &self,
        ctx: &mut dyn Ctx,
        online: &QNetwork,
        target: &QNetwork,
        batch: &DqnBatch,
    ) -> Result<DqnOutput, Error> {
        let next = batch.next_observations;
        let next_values = target.q_values(ctx, next)?;
        let chooser = match self.double {
            true => online.q_values(ctx, next)?,
            false => next_values,
        };
        let targets = self.targets(ctx, next_values, chooser, batch)?;
        let q = online.q_values(ctx, batch.observations)?;
        self.of_values(ctx, q, targets, batch)
    }

    /// `r + discount * Q'(s', a')`, without a gradient, where `a'` is the best action by the second
    /// matrix of values, among those that the next state's mask allows.
    ///
    /// # Shapes
    /// Twice `[n, n_actions]` to `[n, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn targets(
        &self,
        ctx: &mut dyn Ctx,
        next_values: Var,
        chooser: Var,
        batch: &DqnBatch,
    ) -> Result<Var, Error> {
        let call = Call::new("dqn_loss", "DqnLoss::targets");
        let column = Shape::new(ctx.shape(next_values).rows, 1);
        call.expect_shape(ctx, "the chooser", chooser, ctx.shape(next_values))?;
        call.expect_shape(ctx, "the rewards", batch.rewards, column)?;
        call.expect_shape(ctx, "the discounts", batch.discounts, column)?;
        let chooser = match batch.next_mask {
            None => chooser,
            Some(mask) => {
                call.expect_shape(ctx, "the mask", mask, ctx.shape(next_values))?;
                ctx.add(chooser, mask)?
            }
        };
        let best = ctx.argmax_rows(chooser)?;
        let best = ctx.mul(next_values, best)?;
        let best = row_sums(ctx, best)?;
        let future = ctx.mul(batch.discounts, best)?;
        let targets = ctx.add(batch.rewards, future)?;
        Ok(ctx.detach(targets)?)
    }

    /// The loss of action values against targets, by whatever network they were made. No gradient
    /// flows into the targets.
    ///
    /// # Shapes
    /// `q [n, n_actions]`, `targets [n, 1]`.
    /// # Errors
    /// Where the shapes do not fit, or a setting cannot be right.
    pub fn of_values(
        &self,
        ctx: &mut dyn Ctx,
        q: Var,
        targets: Var,
        batch: &DqnBatch,
    ) -> Result<DqnOutput, Error> {
        self.check()?;
        let call = Call::new("dqn_loss", "DqnLoss::of_values");
        let column = Shape::new(ctx.shape(q).rows, 1);
        call.expect_shape(ctx, "the actions", batch.actions, ctx.shape(q))?;
        call.expect_shape(ctx, "the targets", targets, column)?;
        let targets = ctx.detach(targets)?;
        let taken = ctx.mul(q, batch.actions)?;
        let predictions = row_sums(ctx, taken)?;
        let td_errors = ctx.sub(predictions, targets)?;
        let loss = match batch.weights {
            None => self.td_loss.mean(ctx, predictions, targets)?,
            Some(weights) => {
                call.expect_shape(ctx, "the importance weights", weights, column)?;
                let costs = self.td_loss.of_errors(ctx, td_errors)?;
                let costs = ctx.mul(costs, weights)?;
                mean(ctx, costs)?
            }
        };
        Ok(DqnOutput {
            loss,
            td_errors,
            predictions,
        })
    }
}

impl TdLoss {
    /// The mean of what predictions cost against targets, for networks that score the chosen
    /// actions alone.
    ///
    /// # Shapes
    /// Twice `[n, 1]` to `[1, 1]`.
    /// # Errors
    /// Where the shapes do not fit, or `delta` is not above 0.
    pub fn mean(self, ctx: &mut dyn Ctx, predictions: Var, targets: Var) -> Result<Var, Error> {
        let call = Call::new("td_loss", "TdLoss::mean");
        self.check(call)?;
        call.expect_shape(ctx, "the targets", targets, ctx.shape(predictions))?;
        let loss = match self {
            TdLoss::Mse => Loss::Mse,
            TdLoss::Huber { delta } => Loss::Huber { delta },
        };
        Ok(ctx.loss(loss, predictions, targets)?)
    }

    fn check(self, call: Call<'_>) -> Result<(), Error> {
        match self {
            TdLoss::Mse => Ok(()),
            TdLoss::Huber { delta } => call.expect_above_0("delta", delta),
        }
    }

    /// The cost of each error, element-wise.
    fn of_errors(self, ctx: &mut dyn Ctx, errors: Var) -> Result<Var, Error> {
        let TdLoss::Huber { delta } = self else {
            return Ok(ctx.mul(errors, errors)?);
        };
        // With c = clamp(e, -delta, delta), c (e - c / 2) is e^2 / 2 inside and delta (|e| - delta
        // / 2) outside.
        let clamped = ctx.clamp(errors, -delta, delta)?;
        let half = ctx.scale(clamped, 0.5)?;
        let rest = ctx.sub(errors, half)?;
        Ok(ctx.mul(clamped, rest)?)
    }
}
