//! The policy network of soft actor-critic.

use shardgraph_autodiff::{Ctx, Params, Shape, Var};

use crate::error::Call;
use crate::gaussian_policy::n_elements;
use crate::rows::{constant, row_sums};
use crate::spaces::{EnvironmentSpaces, n_actions, n_features};
use crate::{Error, Initialiser, Mlp, SoftmaxPolicy, SquashedGaussian};

/// Hidden layers, and the distribution over actions that their row of numbers stands for.
///
/// ```
/// use shardgraph_components::autodiff::Params;
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EnvironmentSpaces, Initialiser, SacPolicy};
///
/// let (observation, action) = (Space::boxed(&[3], -1.0, 1.0)?, Space::boxed(&[2], -1.0, 1.0)?);
/// let spaces = EnvironmentSpaces::new(&observation, &action);
/// let mut params = Params::new();
/// let policy = SacPolicy::build(&mut params, "policy", spaces, &[16], Initialiser::default())?;
/// assert_eq!((policy.n_columns(), policy.n_noise_columns()), (4, 2));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SacPolicy {
    network: Mlp,
    distribution: SacDistribution,
}

/// The distribution over actions.
#[derive(Debug, Clone)]
pub enum SacDistribution {
    /// Of a box with finite bounds.
    Squashed(SquashedGaussian),
    /// Of discrete actions.
    Softmax(SoftmaxPolicy),
}

/// Actions of the policy for a batch of observations, as functions of its weights.
#[derive(Debug, Clone, Copy)]
pub enum SacDraw {
    /// An action for each observation.
    Drawn {
        /// `[n, w]`: elements between -1 and 1.
        actions: Var,
        /// `[n, 1]`: logarithms of their densities.
        log_density: Var,
    },
    /// All actions, with their probabilities.
    All {
        /// `[n, n_actions]`.
        probabilities: Var,
        /// `[n, n_actions]`.
        log_probabilities: Var,
    },
}

impl SacPolicy {
    /// Adds the parameters of `scope`, with hidden layers of these widths.
    ///
    /// # Errors
    /// When the observation has no fixed width, the action is neither discrete nor a box with finite
    /// bounds, a width is 0 or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        spaces: EnvironmentSpaces<'_>,
        hidden: &[usize],
        initialiser: Initialiser,
    ) -> Result<SacPolicy, Error> {
        let call = Call::new(scope, "SacPolicy::build");
        let distribution = match n_elements(spaces.action) {
            Some(_) => SacDistribution::Squashed(SquashedGaussian::build(scope, spaces.action)?),
            None => {
                n_actions(call, spaces.action)?; // a tuple of discrete ones has no such critic
                SacDistribution::Softmax(SoftmaxPolicy::build(scope, spaces.action)?)
            }
        };
        let n_inputs = n_features(call, spaces.observation)?;
        let widths = [hidden, &[distribution.n_columns()]].concat();
        Ok(SacPolicy {
            network: Mlp::build(params, scope, n_inputs, &widths, initialiser)?,
            distribution,
        })
    }

    /// Columns of an observation.
    pub fn n_inputs(&self) -> usize {
        self.network.n_inputs()
    }

    /// Columns of its rows: logits, or means and logarithms of deviations.
    pub fn n_columns(&self) -> usize {
        self.distribution.n_columns()
    }

    /// Columns of the noise that [`SacPolicy::draw`] takes: 0 for discrete actions.
    pub fn n_noise_columns(&self) -> usize {
        match &self.distribution {
            SacDistribution::Squashed(policy) => policy.n_elements(),
            SacDistribution::Softmax(_) => 0,
        }
    }

    /// The distribution that a row stands for.
    pub fn distribution(&self) -> &SacDistribution {
        &self.distribution
    }

    /// The rows of observations.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_columns]`.
    /// # Errors
    /// Where the observations have another width.
    pub fn rows(&self, ctx: &mut dyn Ctx, observations: Var) -> Result<Var, Error> {
        self.network.apply(ctx, observations)
    }

    /// The actions that noise draws, or all discrete ones, which take none.
    ///
    /// # Shapes
    /// `[n, n_inputs]` and `[n, n_noise_columns]`.
    /// # Errors
    /// Where the shapes do not fit, or there is no noise where it is needed.
    pub fn draw(
        &self,
        ctx: &mut dyn Ctx,
        observations: Var,
        noise: Option<Var>,
    ) -> Result<SacDraw, Error> {
        let rows = self.rows(ctx, observations)?;
        match (&self.distribution, noise) {
            (SacDistribution::Squashed(policy), Some(noise)) => {
                let draw = policy.draw(ctx, rows, noise)?;
                Ok(SacDraw::Drawn {
                    actions: draw.actions,
                    log_density: draw.log_density,
                })
            }
            (SacDistribution::Softmax(policy), None) => {
                let log_probabilities = policy.log_probabilities(ctx, rows)?;
                Ok(SacDraw::All {
                    probabilities: ctx.exp(log_probabilities)?,
                    log_probabilities,
                })
            }
            (_, noise) => {
                let call = Call::new("policy", "SacPolicy::draw");
                let expected = format!("{} columns", self.n_noise_columns());
                let given = noise.map_or("none".to_owned(), |noise| ctx.shape(noise).to_string());
                Err(call.mismatch("the noise", expected, given))
            }
        }
    }
}

impl SacDistribution {
    /// Columns of a row.
    pub fn n_columns(&self) -> usize {
        match self {
            SacDistribution::Squashed(policy) => policy.n_columns(),
            SacDistribution::Softmax(policy) => policy.n_actions(),
        }
    }
}

impl SacDraw {
    /// The actions, as a critic reads them.
    pub fn actions(&self) -> Option<Var> {
        match *self {
            SacDraw::Drawn { actions, .. } => Some(actions),
            SacDraw::All { .. } => None,
        }
    }

    /// The logarithms of densities or probabilities.
    pub fn log_probabilities(&self) -> Var {
        match *self {
            SacDraw::Drawn { log_density, .. } => log_density,
            SacDraw::All {
                log_probabilities, ..
            } => log_probabilities,
        }
    }

    /// What each observation's actions give of `x`: its value at the one drawn, or its expectation
    /// over all.
    ///
    /// # Shapes
    /// Those of [`SacDraw::log_probabilities`] to `[n, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn expectation(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        match *self {
            SacDraw::Drawn { .. } => Ok(x),
            SacDraw::All { probabilities, .. } => {
                let parts = ctx.mul(probabilities, x)?;
                Ok(row_sums(ctx, parts)?)
            }
        }
    }
}

/// A number as a matrix of one shape.
pub(crate) fn spread(ctx: &mut dyn Ctx, number: Var, shape: Shape) -> Result<Var, Error> {
    let column = ctx.repeat_row(number, shape.rows)?;
    match shape.cols {
        1 => Ok(column),
        n => Ok(ctx.broadcast_column(column, n)?),
    }
}

/// Noise for `n` rows, as an input of zeros; `None` where a policy takes none.
pub(crate) fn noise_input(
    ctx: &mut dyn Ctx,
    n: usize,
    policy: &SacPolicy,
) -> Result<Option<Var>, Error> {
    match policy.n_noise_columns() {
        0 => Ok(None),
        width => Ok(Some(constant(ctx, Shape::new(n, width), 0.0)?)),
    }
}
