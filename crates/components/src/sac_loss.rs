//! The losses of soft actor-critic: critics, policy and temperature.

use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{Ctx, Shape, Var};

use crate::error::Call;
use crate::rows::{constant, mean, minimum, row_sums};
use crate::sac_policy::{noise_input, spread};
use crate::{Error, SacDraw, SacPolicy, Temperature, TwinCritic};

/// The losses of soft actor-critic, for actions of a box or discrete ones.
///
/// With the temperature `alpha`, both critics `Q_i` and their slow copies `Q'_i`:
/// - target `y = r + discount (min Q'_i(s', a') - alpha log pi(a' | s'))`, with `a'` drawn from the
///   policy, or the expectation over all discrete actions;
/// - critics: half the mean of `(Q_i(s, a) - y)^2`, summed over both;
/// - policy: mean of `alpha log pi(a | s) - min Q_i(s, a)`, with `a` a function of noise and the
///   policy's weights, or the expectation; the critics' weights are constants in it;
/// - temperature: minus its logarithm times the mean of `log pi(a | s) + target_entropy`.
///
/// The three sum to one loss, whose gradient by each part's weights is that of the part's own. All
/// are taken at the same weights, as in Acme's and Brax's implementations.
///
/// # Source
/// Haarnoja et al., "Soft actor-critic algorithms and applications", 2018; for discrete actions
/// Christodoulou, "Soft actor-critic for discrete action settings", 2019.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Recorder};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EnvironmentSpaces,
///     Initialiser, SacBatch, SacLoss, SacNetworks, SacPolicy, Temperature, TwinCritic,
/// };
///
/// let (observation, action) = (Space::boxed(&[3], -1.0, 1.0)?, Space::boxed(&[1], -2.0, 2.0)?);
/// let spaces = EnvironmentSpaces::new(&observation, &action);
/// let (mut params, first) = (Params::new(), Initialiser::default());
/// let policy = SacPolicy::build(&mut params, "policy", spaces, &[16], first)?;
/// let temperature = Temperature::build(&mut params, "temperature", 1.0, true)?;
/// let critics = TwinCritic::build(&mut params, "critics", spaces, &[16], first)?;
/// params.freeze_rest();
/// let targets = TwinCritic::build(&mut params, "targets", spaces, &[16], first)?;
/// let networks = SacNetworks { policy: &policy, temperature: &temperature, critics: &critics, targets: &targets };
/// let mut record = Recorder::new(&params, 0, 1);
/// let batch = SacBatch::inputs(&mut record, 32, &networks, 1)?;
/// let out = SacLoss { target_entropy: -1.0 }.of_networks(&mut record, &networks, &batch)?;
/// record.output_param_gradient(out.loss)?;
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SacLoss {
    /// The entropy that the temperature holds the policy at, in nats: the negative number of
    /// elements of an action in the paper.
    pub target_entropy: f32,
}

/// The parts that are learned, and the slow copies of the critics.
#[derive(Debug, Clone, Copy)]
pub struct SacNetworks<'a> {
    /// The policy.
    pub policy: &'a SacPolicy,
    /// The factor of its entropy.
    pub temperature: &'a Temperature,
    /// The critics.
    pub critics: &'a TwinCritic,
    /// Their slow copies.
    pub targets: &'a TwinCritic,
}

/// A batch of transitions.
#[derive(Debug, Clone, Copy)]
pub struct SacBatch {
    /// `[n, n_inputs]`.
    pub observations: Var,
    /// `[n, w]`: elements between -1 and 1; of discrete actions `[n, n_actions]`, 1 for the one that
    /// was taken and 0 elsewhere.
    pub actions: Var,
    /// `[n, 1]`.
    pub rewards: Var,
    /// `[n, 1]`: what the next state's value counts; 0 where the episode terminated.
    pub discounts: Var,
    /// `[n, n_inputs]`.
    pub next_observations: Var,
    /// `[n, w]`: standard normal numbers that draw the policy's actions; `None` for discrete ones.
    pub noise: Option<Var>,
    /// The same for the next observations.
    pub next_noise: Option<Var>,
}

/// The results of a [`SacLoss`], each `[1, 1]`.
#[derive(Debug, Clone, Copy)]
pub struct SacOutput {
    /// The sum of all parts.
    pub loss: Var,
    /// Of both critics.
    pub critic: Var,
    /// Of the policy.
    pub policy: Var,
    /// Estimate of the policy's entropy, in nats.
    pub entropy: Var,
    /// Mean of the first critic's values of the actions that were taken.
    pub q_mean: Var,
}

impl SacBatch {
    /// Inputs of zeros for `n` transitions, whose actions have so many columns.
    ///
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn inputs(
        ctx: &mut dyn Ctx,
        n: usize,
        networks: &SacNetworks<'_>,
        n_action_columns: usize,
    ) -> Result<SacBatch, Error> {
        let n_inputs = networks.policy.n_inputs();
        let mut zeros = |width: usize| constant(ctx, Shape::new(n, width), 0.0);
        Ok(SacBatch {
            observations: zeros(n_inputs)?,
            actions: zeros(n_action_columns)?,
            rewards: zeros(1)?,
            discounts: zeros(1)?,
            next_observations: zeros(n_inputs)?,
            noise: noise_input(ctx, n, networks.policy)?,
            next_noise: noise_input(ctx, n, networks.policy)?,
        })
    }
}

impl SacLoss {
    /// The losses of these networks.
    ///
    /// # Errors
    /// Where the batch does not fit the networks.
    pub fn of_networks(
        &self,
        ctx: &mut dyn Ctx,
        networks: &SacNetworks<'_>,
        batch: &SacBatch,
    ) -> Result<SacOutput, Error> {
        let temperature = networks.temperature.value(ctx)?;
        let targets = targets(ctx, networks, temperature, batch)?;
        let (critic, q_mean) = critic_loss(ctx, networks.critics, targets, batch)?;

        let draw = networks.policy.draw(ctx, batch.observations, batch.noise)?;
        let critics = networks.critics;
        let values = critics.minimum_of_constants(ctx, batch.observations, draw.actions())?;
        let gains = soft_values(ctx, &draw, values, temperature)?;
        let gain = mean(ctx, gains)?;
        let policy = ctx.scale(gain, -1.0)?;

        let logs = draw.expectation(ctx, draw.log_probabilities())?;
        let log_probability = mean(ctx, logs)?;
        let of_temperature =
            networks
                .temperature
                .loss(ctx, log_probability, self.target_entropy)?;
        let loss = ctx.add(critic, policy)?;
        let loss = match of_temperature {
            None => loss,
            Some(of_temperature) => ctx.add(loss, of_temperature)?,
        };
        Ok(SacOutput {
            loss,
            critic,
            policy,
            entropy: ctx.scale(log_probability, -1.0)?,
            q_mean,
        })
    }
}

/// `Q - alpha log pi` at the drawn action, or its expectation over all: `[n, 1]`.
fn soft_values(
    ctx: &mut dyn Ctx,
    draw: &SacDraw,
    values: Var,
    temperature: Var,
) -> Result<Var, Error> {
    let logs = draw.log_probabilities();
    let shape = ctx.shape(logs);
    let temperature = spread(ctx, temperature, shape)?;
    let costs = ctx.mul(temperature, logs)?;
    let soft = ctx.sub(values, costs)?;
    draw.expectation(ctx, soft)
}

/// What the critics shall say of the actions that were taken: `[n, 1]`, without a gradient.
fn targets(
    ctx: &mut dyn Ctx,
    networks: &SacNetworks<'_>,
    temperature: Var,
    batch: &SacBatch,
) -> Result<Var, Error> {
    let call = Call::new("sac_loss", "SacLoss::of_networks");
    let column = Shape::new(ctx.shape(batch.next_observations).rows, 1);
    call.expect_shape(ctx, "the rewards", batch.rewards, column)?;
    call.expect_shape(ctx, "the discounts", batch.discounts, column)?;
    let next = batch.next_observations;
    let draw = networks.policy.draw(ctx, next, batch.next_noise)?;
    let [first, second] = networks.targets.values(ctx, next, draw.actions())?;
    let values = minimum(ctx, first, second)?;
    let values = soft_values(ctx, &draw, values, temperature)?;
    let future = ctx.mul(batch.discounts, values)?;
    let targets = ctx.add(batch.rewards, future)?;
    Ok(ctx.detach(targets)?)
}

/// The loss of both critics, and the mean of the first one's values.
fn critic_loss(
    ctx: &mut dyn Ctx,
    critics: &TwinCritic,
    targets: Var,
    batch: &SacBatch,
) -> Result<(Var, Var), Error> {
    let observations = batch.observations;
    let values = match critics.reads_actions() {
        true => critics.values(ctx, observations, Some(batch.actions))?,
        false => {
            let call = Call::new("sac_loss", "SacLoss::of_networks");
            let [first, second] = critics.values(ctx, observations, None)?;
            call.expect_shape(ctx, "the actions", batch.actions, ctx.shape(first))?;
            let mut taken = |values: Var| {
                let taken = ctx.mul(values, batch.actions)?;
                row_sums(ctx, taken)
            };
            [taken(first)?, taken(second)?]
        }
    };
    let [first, second] = values;
    let of_first = ctx.loss(Loss::Mse, first, targets)?;
    let of_second = ctx.loss(Loss::Mse, second, targets)?;
    let sum = ctx.add(of_first, of_second)?;
    Ok((ctx.scale(sum, 0.5)?, mean(ctx, first)?))
}
