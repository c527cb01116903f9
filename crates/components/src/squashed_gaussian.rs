//! The policy of soft actor-critic: normal distributions that tanh squashes into a box.

use shardgraph_autodiff::{Axis, Ctx, Shape, Var};
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use crate::error::Call;
use crate::gaussian_policy::LN_2_PI;
use crate::rows::{constant, row_sums};
use crate::{Error, GaussianPolicy};

/// A squashed normal distribution for each element of a box with finite bounds: mean and deviation
/// by state.
///
/// A row of its parameters has the w means, then the w logarithms of the deviations, which count
/// from -20 to 2. Drawn elements `tanh(mean + deviation noise)` lie between -1 and 1, in units of
/// half the box around its middle.
///
/// # Source
/// Haarnoja et al., "Soft actor-critic", 2018, appendix C, with the bounds of the logarithm and the
/// 1e-6 inside of it that the authors' code and stable-baselines3 have.
///
/// ```
/// use shardgraph_components::SquashedGaussian;
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_random::KeyedRng;
///
/// let policy = SquashedGaussian::build("policy", &Space::boxed(&[1], -2.0, 2.0)?)?;
/// let (mut drawn, mut actions) = (Vec::new(), Vec::new());
/// policy.sample_into(&[9.0, 0.0], &mut KeyedRng::new(7, "act", 0), &mut drawn)?;
/// policy.actions_into(&drawn, &mut actions);
/// assert!((1.99..=2.0).contains(&actions[0]));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SquashedGaussian {
    scope: String,
    of_box: GaussianPolicy,
}

/// The results of [`SquashedGaussian::draw`].
#[derive(Debug, Clone, Copy)]
pub struct SquashedDraw {
    /// `[n, w]`: elements between -1 and 1.
    pub actions: Var,
    /// `[n, 1]`: the logarithms of their densities, in these units.
    pub log_density: Var,
}

/// The bounds of the logarithm of a deviation.
const LOG_DEVIATION: (f32, f32) = (-20.0, 2.0);
/// What keeps the logarithm of `1 - tanh^2` finite.
const EPSILON: f32 = 1e-6;

impl SquashedGaussian {
    /// Over the actions of this space.
    ///
    /// # Errors
    /// When the space is no box, or an element has no finite bounds.
    pub fn build(scope: &str, action: &Space) -> Result<SquashedGaussian, Error> {
        let of_box = GaussianPolicy::build(scope, action)?;
        if !of_box.is_bounded() {
            let call = Call::new(scope, "SquashedGaussian::build");
            let given = format!("{:?}", action.kind());
            return Err(call.mismatch("the action space", "a box with finite bounds", given));
        }
        Ok(SquashedGaussian {
            scope: scope.to_string(),
            of_box,
        })
    }

    /// w, the elements of an action.
    pub fn n_elements(&self) -> usize {
        self.of_box.n_elements()
    }

    /// Columns of a row of parameters: 2 w.
    pub fn n_columns(&self) -> usize {
        self.of_box.n_columns()
    }

    /// The actions that standard normal noise draws, and their densities, as functions of the
    /// parameters: the reparameterised sample of the policy's loss.
    ///
    /// # Shapes
    /// `[n, 2 w]` and `[n, w]` to `[n, w]` and `[n, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn draw(
        &self,
        ctx: &mut dyn Ctx,
        parameters: Var,
        noise: Var,
    ) -> Result<SquashedDraw, Error> {
        let call = Call::new(&self.scope, "SquashedGaussian::draw");
        call.expect_width(ctx, "the parameters", parameters, self.n_columns())?;
        let n = self.n_elements();
        let means = ctx.slice(parameters, Axis::Cols, 0, n)?;
        call.expect_shape(ctx, "the noise", noise, ctx.shape(means))?;
        let logs = ctx.slice(parameters, Axis::Cols, n, n)?;
        let logs = ctx.clamp(logs, LOG_DEVIATION.0, LOG_DEVIATION.1)?;
        let deviations = ctx.exp(logs)?;
        let distances = ctx.mul(deviations, noise)?;
        let drawn = ctx.add(means, distances)?;
        let actions = ctx.tanh(drawn)?;

        let squares = ctx.mul(noise, noise)?;
        let halves = ctx.scale(squares, -0.5)?;
        let normal = ctx.sub(halves, logs)?;
        let squares = ctx.mul(actions, actions)?;
        let shape = ctx.shape(squares);
        let one = constant(ctx, shape, 1.0 + EPSILON)?;
        let slopes = ctx.sub(one, squares)?;
        let squash = ctx.log(slopes)?;
        let terms = ctx.sub(normal, squash)?;
        let sums = row_sums(ctx, terms)?;
        let shape: Shape = ctx.shape(sums);
        let rest = constant(ctx, shape, -0.5 * LN_2_PI * n as f32)?;
        Ok(SquashedDraw {
            actions,
            log_density: ctx.add(sums, rest)?,
        })
    }

    /// Draws the elements of an action for each row of parameters, behind those in `drawn`.
    ///
    /// # Errors
    /// When the parameters are no whole number of rows, or one is not finite.
    /// # Determinism
    /// Equal parameters and streams give equal elements on every machine.
    pub fn sample_into(
        &self,
        parameters: &[f32],
        stream: &mut KeyedRng,
        drawn: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let n = self.n_elements();
        let mut bounded = parameters.to_vec();
        for row in bounded.chunks_exact_mut(2 * n) {
            for log in &mut row[n..] {
                *log = log.clamp(LOG_DEVIATION.0, LOG_DEVIATION.1);
            }
        }
        let first = drawn.len();
        self.of_box.sample_into(&bounded, stream, drawn)?;
        squash(&mut drawn[first..]);
        Ok(())
    }

    /// The squashed means of each row of parameters, behind those in `means`.
    ///
    /// # Panics
    /// When the parameters are no whole number of rows.
    pub fn means_into(&self, parameters: &[f32], means: &mut Vec<f32>) {
        let first = means.len();
        self.of_box.means_into(parameters, means);
        squash(&mut means[first..]);
    }

    /// Elements of the box for drawn ones, behind those in `actions`.
    ///
    /// # Panics
    /// When they are no whole number of actions.
    pub fn actions_into(&self, drawn: &[f32], actions: &mut Vec<f32>) {
        self.of_box.actions_into(drawn, actions);
    }

    /// The drawn elements that actions of the box come of, behind those in `drawn`.
    ///
    /// # Panics
    /// When they are no whole number of actions.
    pub fn drawn_into(&self, actions: &[f32], drawn: &mut Vec<f32>) {
        self.of_box.drawn_into(actions, drawn);
    }
}

fn squash(elements: &mut [f32]) {
    for element in elements {
        *element = libm::tanh(f64::from(*element)) as f32;
    }
}
