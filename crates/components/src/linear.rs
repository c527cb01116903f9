//! One fully connected layer.

use shardgraph_autodiff::{Ctx, Error as AutodiffError, ParamId, Params, Shape, Var};

use crate::error::Call;
use crate::initialiser::add;
use crate::{Error, Initialiser};

/// `x w + b`, with relu behind it where asked for.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::{Initialiser, Linear};
///
/// let mut params = Params::new();
/// let layer = Linear::build(&mut params, "head", 4, 2, Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let x = ctx.input(Shape::new(8, 5), &[])?;
/// let error = layer.apply(&mut ctx, x).unwrap_err();
/// assert_eq!(error.to_string(), "component `head`, Linear::apply: the input: expected 4 columns, given [8, 5]");
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Linear {
    scope: String,
    n_inputs: usize,
    n_outputs: usize,
    w: ParamId,
    b: ParamId,
}

impl Linear {
    /// Adds the parameters `scope/w [n_inputs, n_outputs]` and `scope/b [1, n_outputs]`.
    ///
    /// # Errors
    /// When a width is 0, the scope is taken or a gain is negative or not finite.
    pub fn build(
        params: &mut Params,
        scope: &str,
        n_inputs: usize,
        n_outputs: usize,
        initialiser: Initialiser,
    ) -> Result<Linear, Error> {
        let call = Call::new(scope, "Linear::build");
        call.expect_positive("the number of inputs", n_inputs)?;
        call.expect_positive("the number of outputs", n_outputs)?;
        initialiser.check(call)?;
        let (w, b) = (format!("{scope}/w"), format!("{scope}/b"));
        let shape = Shape::new(n_inputs, n_outputs);
        let weights = initialiser.weights(&w, shape, n_inputs);
        let biases = initialiser.biases(&b, n_outputs, n_inputs);
        Ok(Linear {
            scope: scope.to_string(),
            n_inputs,
            n_outputs,
            w: add(params, call, &w, shape, &weights)?,
            b: add(params, call, &b, Shape::new(1, n_outputs), &biases)?,
        })
    }

    /// Columns of its input.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Columns of its result.
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// `x w + b`.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_outputs]`.
    /// # Errors
    /// Where `x` has another width.
    pub fn apply(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "Linear::apply");
        call.expect_width(ctx, "the input", x, self.n_inputs)?;
        let (w, b) = self.params(ctx)?;
        Ok(ctx.linear(x, w, b)?)
    }

    /// `max(x w + b, 0)`.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_outputs]`.
    /// # Errors
    /// Where `x` has another width.
    pub fn apply_relu(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "Linear::apply_relu");
        call.expect_width(ctx, "the input", x, self.n_inputs)?;
        let (w, b) = self.params(ctx)?;
        Ok(ctx.linear_relu(x, w, b)?)
    }

    fn params(&self, ctx: &mut dyn Ctx) -> Result<(Var, Var), AutodiffError> {
        Ok((ctx.param(self.w)?, ctx.param(self.b)?))
    }
}
