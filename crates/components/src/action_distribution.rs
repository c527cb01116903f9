//! The distribution over actions that a policy's row of numbers stands for, by the action space.

use shardgraph_autodiff::{Ctx, Shape, Var};
use shardgraph_environments::space::Space;

use crate::error::Call;
use crate::gaussian_policy::n_elements;
use crate::rows::constant;
use crate::{Error, GaussianPolicy, SoftmaxPolicy};

/// A softmax over discrete actions, or normal distributions over the elements of a box.
///
/// ```
/// use shardgraph_components::ActionDistribution;
/// use shardgraph_components::environments::space::Space;
///
/// let discrete = ActionDistribution::build("policy", &Space::discrete(3)?)?;
/// let continuous = ActionDistribution::build("policy", &Space::boxed(&[3], -1.0, 1.0)?)?;
/// assert_eq!((discrete.n_columns(), continuous.n_columns()), (3, 6));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum ActionDistribution {
    /// Of a discrete space, or a tuple of them: rows of logits.
    Softmax(SoftmaxPolicy),
    /// Of a box: rows of means and logarithms of deviations.
    Gaussian(GaussianPolicy),
}

/// The results of [`ActionDistribution::evaluate`], each `[n, 1]`.
#[derive(Debug, Clone, Copy)]
pub struct Evaluated {
    /// Log-probabilities or log-densities of the actions.
    pub log_probability: Var,
    /// Entropies, in nats.
    pub entropy: Var,
}

impl ActionDistribution {
    /// Over the actions of this space.
    ///
    /// # Errors
    /// When the space is neither discrete, a tuple of discrete ones, nor a box.
    pub fn build(scope: &str, action: &Space) -> Result<ActionDistribution, Error> {
        match n_elements(action) {
            Some(_) => GaussianPolicy::build(scope, action).map(ActionDistribution::Gaussian),
            None => SoftmaxPolicy::build(scope, action).map(ActionDistribution::Softmax),
        }
    }

    /// Columns of a policy's row.
    pub fn n_columns(&self) -> usize {
        match self {
            ActionDistribution::Softmax(policy) => policy.n_actions(),
            ActionDistribution::Gaussian(policy) => policy.n_columns(),
        }
    }

    /// Columns of an action in a batch: one-hot for each part of a discrete one, else its elements.
    pub fn n_action_columns(&self) -> usize {
        match self {
            ActionDistribution::Softmax(policy) => policy.n_actions(),
            ActionDistribution::Gaussian(policy) => policy.n_elements(),
        }
    }

    /// What the policy's rows say about actions; `mask` is added to logits.
    ///
    /// # Shapes
    /// `[n, n_columns]`, `[n, n_columns]` and `[n, n_action_columns]` to `[n, 1]`.
    /// # Errors
    /// Where the shapes do not fit, or there is a mask for continuous actions.
    pub fn evaluate(
        &self,
        ctx: &mut dyn Ctx,
        rows: Var,
        mask: Option<Var>,
        actions: Var,
    ) -> Result<Evaluated, Error> {
        match (self, mask) {
            (ActionDistribution::Softmax(policy), mask) => {
                let logits = match mask {
                    None => rows,
                    Some(mask) => ctx.add(rows, mask)?,
                };
                let all = policy.log_probabilities(ctx, logits)?;
                Ok(Evaluated {
                    log_probability: policy.of_actions(ctx, all, actions)?,
                    entropy: policy.entropy(ctx, all)?,
                })
            }
            (ActionDistribution::Gaussian(policy), None) => Ok(Evaluated {
                log_probability: policy.log_density(ctx, rows, actions)?,
                entropy: policy.entropy(ctx, rows)?,
            }),
            (ActionDistribution::Gaussian(_), Some(_)) => {
                let call = Call::new("policy", "ActionDistribution::evaluate");
                Err(call.mismatch("the mask", "none for continuous actions", "one"))
            }
        }
    }

    /// An input of zeros for `n` actions.
    pub(crate) fn action_input(&self, ctx: &mut dyn Ctx, n: usize) -> Result<Var, Error> {
        Ok(constant(ctx, Shape::new(n, self.n_action_columns()), 0.0)?)
    }
}
