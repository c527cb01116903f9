//! A gated recurrent unit.

use shardgraph_autodiff::{Axis, Ctx, ParamId, Params, Shape, Var};

use crate::error::Call;
use crate::recurrent::{CellParams, CellSize};
use crate::{Error, Initialiser};

/// A cell whose state is also its result.
///
/// With `u = x w_x + b_x` and `v = h w_h + b_h` in three blocks of columns (reset, update,
/// candidate): `r = sigmoid(u_r + v_r)`, `z = sigmoid(u_z + v_z)`, `n = tanh(u_n + r v_n)`, and the
/// next state is `(1 - z) n + z h`.
///
/// # Source
/// Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
/// translation" (2014), in the form of PyTorch's `GRUCell`, where the reset gate stands behind the
/// product.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::{Gru, Initialiser};
///
/// let mut params = Params::new();
/// let gru = Gru::build(&mut params, "update", 6, 8, Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let x = ctx.input(Shape::new(3, 6), &[])?;
/// let h = ctx.input(Shape::new(3, 8), &[])?;
/// let next = gru.step(&mut ctx, x, h)?;
/// assert_eq!(ctx.shape(next), Shape::new(3, 8));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gru {
    scope: String,
    n_inputs: usize,
    n_hidden: usize,
    w_x: ParamId,
    w_h: ParamId,
    b_x: ParamId,
    b_h: ParamId,
}

impl Gru {
    /// Adds the parameters `scope/w_x [n_inputs, 3 n_hidden]`, `scope/w_h [n_hidden, 3 n_hidden]`,
    /// `scope/b_x` and `scope/b_h`.
    ///
    /// # Errors
    /// When a width is 0, the scope is taken or a gain is negative or not finite.
    pub fn build(
        params: &mut Params,
        scope: &str,
        n_inputs: usize,
        n_hidden: usize,
        initialiser: Initialiser,
    ) -> Result<Gru, Error> {
        let size = CellSize {
            n_inputs,
            n_hidden,
            n_blocks: 3,
        };
        let call = Call::new(scope, "Gru::build");
        let mut cell = CellParams::new(params, call, size, initialiser)?;
        let (w_x, w_h) = cell.add_weights()?;
        Ok(Gru {
            scope: scope.to_string(),
            n_inputs,
            n_hidden,
            w_x,
            w_h,
            b_x: cell.add_biases("b_x", |_| ())?,
            b_h: cell.add_biases("b_h", |_| ())?,
        })
    }

    /// Columns of its input.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Columns of its state.
    pub fn n_hidden(&self) -> usize {
        self.n_hidden
    }

    /// The next states.
    ///
    /// # Shapes
    /// `x [n, n_inputs]` and `h [n, n_hidden]` to `[n, n_hidden]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn step(&self, ctx: &mut dyn Ctx, x: Var, h: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "Gru::step");
        call.expect_width(ctx, "the input", x, self.n_inputs)?;
        let of_state = Shape::new(ctx.shape(x).rows, self.n_hidden);
        call.expect_shape(ctx, "the state", h, of_state)?;
        let n = self.n_hidden;
        let (w_x, b_x) = (ctx.param(self.w_x)?, ctx.param(self.b_x)?);
        let (w_h, b_h) = (ctx.param(self.w_h)?, ctx.param(self.b_h)?);
        let (u, v) = (ctx.linear(x, w_x, b_x)?, ctx.linear(h, w_h, b_h)?);
        let u_gates = ctx.slice(u, Axis::Cols, 0, 2 * n)?;
        let v_gates = ctx.slice(v, Axis::Cols, 0, 2 * n)?;
        let gates = ctx.add(u_gates, v_gates)?;
        let gates = ctx.sigmoid(gates)?;
        let reset = ctx.slice(gates, Axis::Cols, 0, n)?;
        let update = ctx.slice(gates, Axis::Cols, n, n)?;
        let u_candidate = ctx.slice(u, Axis::Cols, 2 * n, n)?;
        let v_candidate = ctx.slice(v, Axis::Cols, 2 * n, n)?;
        let v_candidate = ctx.mul(reset, v_candidate)?;
        let candidate = ctx.add(u_candidate, v_candidate)?;
        let candidate = ctx.tanh(candidate)?;
        // (1 - z) n + z h = n + z (h - n)
        let change = ctx.sub(h, candidate)?;
        let kept = ctx.mul(update, change)?;
        Ok(ctx.add(candidate, kept)?)
    }
}
