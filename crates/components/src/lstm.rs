//! A long short-term memory over time steps.

use shardgraph_autodiff::{Axis, Ctx, ParamId, Params, Shape, Var};

use crate::error::Call;
use crate::recurrent::{CellParams, CellSize};
use crate::rows::{constant, join, steps};
use crate::{Error, Initialiser, Sequences};

/// The state of a memory cell between two time steps.
///
/// # Shapes
/// Both `[B, n_hidden]`.
#[derive(Debug, Clone, Copy)]
pub struct LstmState {
    /// The hidden state, which is also the result of a step.
    pub hidden: Var,
    /// The cell state.
    pub cell: Var,
}

/// A memory cell, unrolled over time.
///
/// With `z = x w_x + h w_h + b` in four blocks of columns: `c' = sigmoid(z_f) c + sigmoid(z_i)
/// tanh(z_g)` and `h' = sigmoid(z_o) tanh(c')`. The blocks stand in the order input, forget,
/// output, candidate, so that one operation makes all three gates.
///
/// # Source
/// Hochreiter and Schmidhuber (1997) with the forget gate of Gers, Schmidhuber and Cummins (2000),
/// as PyTorch's `LSTM`; the forget gate's first bias is 1 higher than the others, after Jozefowicz,
/// Zaremba and Sutskever (2015). State that begins again inside a sequence: Espeholt et al.,
/// "IMPALA" (2018).
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::{Initialiser, Lstm, Sequences};
///
/// let mut params = Params::new();
/// let lstm = Lstm::build(&mut params, "core", 6, 8, Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let x = ctx.input(Shape::new(5 * 3, 6), &[])?; // 5 time steps of 3 sequences
/// let begins = ctx.input(Shape::new(5 * 3, 1), &[])?;
/// let state = lstm.zero_state(&mut ctx, 3)?;
/// let (outputs, state) = lstm.unroll(&mut ctx, x, begins, state, Sequences::time_major(5, 3))?;
/// assert_eq!(ctx.shape(outputs), Shape::new(5 * 3, 8));
/// assert_eq!(ctx.shape(state.cell), Shape::new(3, 8));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Lstm {
    scope: String,
    n_inputs: usize,
    n_hidden: usize,
    w_x: ParamId,
    w_h: ParamId,
    b: ParamId,
}

impl Lstm {
    /// The constant part of the forget gate's first bias.
    const FORGET_BIAS: f32 = 1.0;

    /// Adds the parameters `scope/w_x [n_inputs, 4 n_hidden]`, `scope/w_h [n_hidden, 4 n_hidden]`
    /// and `scope/b`.
    ///
    /// # Errors
    /// When a width is 0, the scope is taken or a gain is negative or not finite.
    pub fn build(
        params: &mut Params,
        scope: &str,
        n_inputs: usize,
        n_hidden: usize,
        initialiser: Initialiser,
    ) -> Result<Lstm, Error> {
        let size = CellSize {
            n_inputs,
            n_hidden,
            n_blocks: 4,
        };
        let call = Call::new(scope, "Lstm::build");
        let mut cell = CellParams::new(params, call, size, initialiser)?;
        let (w_x, w_h) = cell.add_weights()?;
        Ok(Lstm {
            scope: scope.to_string(),
            n_inputs,
            n_hidden,
            w_x,
            w_h,
            b: cell.add_biases("b", |biases| {
                for bias in &mut biases[n_hidden..2 * n_hidden] {
                    *bias += Self::FORGET_BIAS;
                }
            })?,
        })
    }

    /// Columns of its input.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Columns of its state and its result.
    pub fn n_hidden(&self) -> usize {
        self.n_hidden
    }

    /// The state in which every sequence begins: zeros.
    ///
    /// # Errors
    /// Where the interpreter has no memory left.
    pub fn zero_state(&self, ctx: &mut dyn Ctx, n_batch: usize) -> Result<LstmState, Error> {
        let shape = Shape::new(n_batch, self.n_hidden);
        Ok(LstmState {
            hidden: constant(ctx, shape, 0.0)?,
            cell: constant(ctx, shape, 0.0)?,
        })
    }

    /// The hidden states of all time steps, and the state after the last.
    ///
    /// `begins` is 1 where an episode begins with this row: the state before it is forgotten. It is
    /// 0 elsewhere.
    ///
    /// # Shapes
    /// `x [T * B, n_inputs]` and `begins [T * B, 1]` in the order of `rows`, the state of B
    /// sequences, to `[T * B, n_hidden]` in the same order.
    /// # Errors
    /// Where the shapes do not fit.
    /// # Complexity
    /// One product for all inputs, and one of B rows for each time step.
    pub fn unroll(
        &self,
        ctx: &mut dyn Ctx,
        x: Var,
        begins: Var,
        state: LstmState,
        rows: Sequences,
    ) -> Result<(Var, LstmState), Error> {
        self.check(ctx, x, begins, state, rows)?;
        let (w_x, b) = (ctx.param(self.w_x)?, ctx.param(self.b)?);
        let w_h = ctx.param(self.w_h)?;
        let from_inputs = ctx.linear(x, w_x, b)?;
        let carried = self.carried(ctx, begins)?;
        let from_inputs = steps(ctx, from_inputs, rows.n_batch)?;
        let carried = steps(ctx, carried, rows.n_batch)?;
        let mut state = state;
        let mut outputs = Vec::with_capacity(from_inputs.len());
        for (z, carried) in from_inputs.into_iter().zip(carried) {
            state = self.step(ctx, z, carried, state, w_h)?;
            outputs.push(state.hidden);
        }
        let outputs = join(ctx, &outputs)?;
        Ok((outputs, state))
    }

    fn check(
        &self,
        ctx: &dyn Ctx,
        x: Var,
        begins: Var,
        state: LstmState,
        rows: Sequences,
    ) -> Result<(), Error> {
        let call = Call::new(&self.scope, "Lstm::unroll");
        rows.expect(call, ctx, "the input", x, self.n_inputs)?;
        rows.expect(call, ctx, "the begins", begins, 1)?;
        let of_state = Shape::new(rows.n_batch, self.n_hidden);
        call.expect_shape(ctx, "the hidden state", state.hidden, of_state)?;
        call.expect_shape(ctx, "the cell state", state.cell, of_state)
    }

    /// `[T * B, n_hidden]`: 0 where an episode begins, 1 elsewhere.
    fn carried(&self, ctx: &mut dyn Ctx, begins: Var) -> Result<Var, Error> {
        let shape = ctx.shape(begins);
        let ones = constant(ctx, shape, 1.0)?;
        let carried = ctx.sub(ones, begins)?;
        let everywhere = constant(ctx, Shape::new(1, self.n_hidden), 1.0)?;
        Ok(ctx.matmul(carried, everywhere)?)
    }

    /// One time step; `z` is `x w_x + b`.
    fn step(
        &self,
        ctx: &mut dyn Ctx,
        z: Var,
        carried: Var,
        state: LstmState,
        w_h: Var,
    ) -> Result<LstmState, Error> {
        let n = self.n_hidden;
        let (hidden, cell) = (
            ctx.mul(state.hidden, carried)?,
            ctx.mul(state.cell, carried)?,
        );
        let from_hidden = ctx.matmul(hidden, w_h)?;
        let z = ctx.add(z, from_hidden)?;
        let gates = ctx.slice(z, Axis::Cols, 0, 3 * n)?;
        let gates = ctx.sigmoid(gates)?;
        let candidate = ctx.slice(z, Axis::Cols, 3 * n, n)?;
        let candidate = ctx.tanh(candidate)?;
        let input = ctx.slice(gates, Axis::Cols, 0, n)?;
        let forget = ctx.slice(gates, Axis::Cols, n, n)?;
        let output = ctx.slice(gates, Axis::Cols, 2 * n, n)?;
        let (kept, new) = (ctx.mul(forget, cell)?, ctx.mul(input, candidate)?);
        let cell = ctx.add(kept, new)?;
        let squashed = ctx.tanh(cell)?;
        let hidden = ctx.mul(output, squashed)?;
        Ok(LstmState { hidden, cell })
    }
}
