//! One step of a policy gradient, whatever the policy.

use shardgraph_autodiff::{Ctx, Eager, Gradient, Params, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{Optimiser, PolicyLoss};
use shardgraph_device::Device;

use crate::error::Error;

/// What a step was like, before it was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyUpdate {
    /// What was descended.
    pub loss: f32,
    /// Its policy term.
    pub policy: f32,
    /// The baseline's squared errors, where there is a baseline.
    pub baseline: Option<f32>,
    /// The policy's entropy, in nats.
    pub entropy: f32,
    /// The gradient's norm before it was cut.
    pub gradient_norm: f32,
}

/// One step of the optimiser on a loss that the caller makes, of a policy of its own: a multi-layer perceptron on observations, or a decoder
/// over a graph.
///
/// It runs eagerly, because episodes and contexts differ in size from step to step.
///
/// # Errors
/// Of the loss, or when the gradient is not finite; the parameters stay as they were.
/// # Determinism
/// Depends on the parameters, the optimiser and the loss alone.
///
/// A contextual bandit, whose episodes have one step:
///
/// ```
/// use shardgraph_agents::{policy_step, rewards};
/// use shardgraph_autodiff::{Ctx, Params, Shape};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{Initialiser, Linear, Optimiser, OptimiserConfig, OptimiserRule, Reinforce, SoftmaxPolicy};
/// use shardgraph_device::Device;
/// use shardgraph_random::KeyedRng;
///
/// let mut params = Params::new();
/// let scores = Linear::build(&mut params, "scores", 1, 3, Initialiser::default())?;
/// let policy = SoftmaxPolicy::build("policy", &Space::discrete(3)?)?;
/// let rule = OptimiserRule::ADAM;
/// let config = OptimiserConfig { rule, learning_rate: 0.1, max_gradient_norm: Some(10.0) };
/// let mut optimiser = Optimiser::new(config, params.trained_len())?;
/// let mut taken = Vec::new();
/// for update in 0..60 {
///     let logits = params.flat()[..3].iter().zip(&params.flat()[3..]).map(|(w, b)| w + b).collect::<Vec<f32>>();
///     taken.clear();
///     policy.sample_into(&logits.repeat(16), &mut KeyedRng::new(7, "actions", update), &mut taken)?;
///     let earned = rewards(16, 2, &|job| Ok::<f32, String>(f32::from(taken[job] == 2)))?;
///     let one_hot: Vec<f32> = taken.iter().flat_map(|&a| [0, 1, 2].map(|b| f32::from(a == b))).collect();
///     policy_step(&Device::host(), &mut params, &mut optimiser, |ctx| {
///         let context = ctx.input(Shape::new(16, 1), &[1.0; 16])?;
///         let logits = scores.apply(ctx, context)?;
///         let actions = ctx.input(Shape::new(16, 3), &one_hot)?;
///         let returns = ctx.input(Shape::new(16, 1), &earned)?;
///         Reinforce { normalise: true, ..Reinforce::default() }.apply(ctx, &policy, logits, None, actions, returns)
///     })?;
/// }
/// assert!(taken.iter().filter(|&&action| action == 2).count() >= 12); // it has learned which one pays
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn policy_step(
    device: &Device,
    params: &mut Params,
    optimiser: &mut Optimiser,
    loss: impl FnOnce(&mut dyn Ctx) -> Result<PolicyLoss, shardgraph_components::Error>,
) -> Result<PolicyUpdate, Error> {
    let mut comm = Comm::solo();
    let mut ctx = Eager::new(device, &mut comm, params);
    let parts = loss(&mut ctx)?;
    let (mut update, mut gradient) = policy_gradient(&mut ctx, &parts)?;
    update.gradient_norm = optimiser.step_with(device, params, &mut gradient)?;
    Ok(update)
}

/// The numbers of a loss that was made, and the derivatives by the parameters, for an optimiser's step: of callers who read values, the
/// logits that actions are drawn from say, between the network and the loss. The gradient's norm is not known yet and 0.
///
/// # Errors
/// Where a value or the gradient cannot be had.
pub fn policy_gradient(
    ctx: &mut Eager<'_>,
    parts: &PolicyLoss,
) -> Result<(PolicyUpdate, Gradient), Error> {
    let scalar = |var: Var| Ok::<f32, Error>(ctx.values(var)?[0]);
    let update = PolicyUpdate {
        loss: scalar(parts.loss)?,
        policy: scalar(parts.policy)?,
        baseline: parts.baseline.map(scalar).transpose()?,
        entropy: scalar(parts.entropy)?,
        gradient_norm: 0.0,
    };
    Ok((update, ctx.resident_gradient(parts.loss)?))
}
