//! The temperature of soft actor-critic: what a nat of the policy's entropy is worth.

use shardgraph_autodiff::{Ctx, ParamId, Params, Shape, Var};

use crate::Error;
use crate::error::Call;
use crate::initialiser::add;
use crate::rows::constant;

/// A temperature that is learned by its logarithm, or a fixed one.
///
/// # Source
/// Haarnoja et al., "Soft actor-critic algorithms and applications", 2018, section 5.
///
/// ```
/// use shardgraph_components::Temperature;
/// use shardgraph_components::autodiff::Params;
///
/// let mut params = Params::new();
/// let temperature = Temperature::build(&mut params, "temperature", 0.5, true)?;
/// assert_eq!(temperature.of_params(&params), 0.5);
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Temperature {
    initial: f32,
    /// Of the logarithm.
    param: Option<ParamId>,
}

impl Temperature {
    /// Adds the parameter `scope/log [1, 1]` where it is learned.
    ///
    /// # Errors
    /// When `initial` is not above 0, or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        initial: f32,
        is_learned: bool,
    ) -> Result<Temperature, Error> {
        let call = Call::new(scope, "Temperature::build");
        call.expect_above_0("the first temperature", initial)?;
        let log = libm::log(f64::from(initial)) as f32;
        let (name, shape) = (format!("{scope}/log"), Shape::new(1, 1));
        let param = is_learned.then(|| add(params, call, &name, shape, &[log]));
        Ok(Temperature {
            initial,
            param: param.transpose()?,
        })
    }

    /// Its value among these parameters.
    pub fn of_params(&self, params: &Params) -> f32 {
        self.param.map_or(self.initial, |id| {
            libm::exp(f64::from(params.values_of(id)[0])) as f32
        })
    }

    /// Its value, as a constant for the gradient.
    ///
    /// # Shapes
    /// `[1, 1]`.
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn value(&self, ctx: &mut dyn Ctx) -> Result<Var, Error> {
        let Some(id) = self.param else {
            return Ok(constant(ctx, Shape::new(1, 1), self.initial)?);
        };
        let log = ctx.param(id)?;
        let value = ctx.exp(log)?;
        Ok(ctx.detach(value)?)
    }

    /// The loss that raises it where the mean entropy is below the target: minus its logarithm times
    /// the mean of `log pi + target_entropy`. `None` for a fixed one.
    ///
    /// # Shapes
    /// Both `[1, 1]`.
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn loss(
        &self,
        ctx: &mut dyn Ctx,
        mean_log_probability: Var,
        target_entropy: f32,
    ) -> Result<Option<Var>, Error> {
        let Some(id) = self.param else {
            return Ok(None);
        };
        let target = constant(ctx, Shape::new(1, 1), target_entropy)?;
        let excess = ctx.add(mean_log_probability, target)?;
        let excess = ctx.detach(excess)?;
        let log = ctx.param(id)?;
        let product = ctx.mul(log, excess)?;
        Ok(Some(ctx.scale(product, -1.0)?))
    }
}
