//! A multi-layer perceptron.

use shardgraph_autodiff::{Ctx, Params, Var};

use crate::{Error, Initialiser, Linear};

/// Fully connected layers, one behind the other.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::{Initialiser, Mlp};
///
/// let mut params = Params::new();
/// let mlp = Mlp::build(&mut params, "value", 4, &[120, 84, 1], Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let x = ctx.input(Shape::new(8, 4), &[])?;
/// let y = mlp.apply(&mut ctx, x)?;
/// assert_eq!(ctx.shape(y), Shape::new(8, 1));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mlp {
    layers: Vec<Linear>,
    n_inputs: usize,
}

impl Mlp {
    /// Adds the layers `scope/0`, `scope/1`, ... with these widths behind `n_inputs`; without
    /// widths it passes its input on.
    ///
    /// # Errors
    /// When a width is 0 or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        n_inputs: usize,
        widths: &[usize],
        initialiser: Initialiser,
    ) -> Result<Mlp, Error> {
        Mlp::build_with_last(params, scope, n_inputs, widths, initialiser, initialiser)
    }

    /// The same with an initialiser of its own for the last layer.
    pub(crate) fn build_with_last(
        params: &mut Params,
        scope: &str,
        n_inputs: usize,
        widths: &[usize],
        initialiser: Initialiser,
        of_last: Initialiser,
    ) -> Result<Mlp, Error> {
        let mut layers = Vec::with_capacity(widths.len());
        let mut width = n_inputs;
        for (i, &next) in widths.iter().enumerate() {
            let scope = format!("{scope}/{i}");
            let is_last = i + 1 == widths.len();
            let start = if is_last { of_last } else { initialiser };
            layers.push(Linear::build(params, &scope, width, next, start)?);
            width = next;
        }
        Ok(Mlp { layers, n_inputs })
    }

    /// Columns of its input.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Columns of its result.
    pub fn n_outputs(&self) -> usize {
        self.layers.last().map_or(self.n_inputs, Linear::n_outputs)
    }

    /// relu behind every layer but the last.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_outputs]`.
    /// # Errors
    /// Where `x` has another width.
    pub fn apply(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        let Some((last, hidden)) = self.layers.split_last() else {
            return Ok(x);
        };
        let mut h = x;
        for layer in hidden {
            h = layer.apply_relu(ctx, h)?;
        }
        last.apply(ctx, h)
    }

    /// relu behind every layer: features that heads read.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_outputs]`.
    /// # Errors
    /// Where `x` has another width.
    pub fn features(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        let mut h = x;
        for layer in &self.layers {
            h = layer.apply_relu(ctx, h)?;
        }
        Ok(h)
    }
}
