//! The one trait that layers are written against.

use std::sync::Arc;

use shardgraph_device::{Binary, Loss, Unary};

use crate::{Axis, BatchLayout, Error, Op, ParamId, Propagation, Shape, Var};

/// An interpreter of operations.
///
/// Implementors give [`Ctx::apply`], [`Ctx::input`] and the look-ups; the rest are short names for operations. Every
/// method fails with the operation's name and the shapes where these do not fit.
///
/// ```
/// use shardgraph_autodiff::{Ctx, Params, Shape, ShapeCheck};
/// let params = Params::new();
/// let mut ctx = ShapeCheck::new(&params, 1);
/// let a = ctx.input(Shape::new(8, 5), &[])?;
/// let b = ctx.input(Shape::new(4, 120), &[])?;
/// let error = ctx.matmul(a, b).unwrap_err();
/// assert!(error.to_string().starts_with("matmul: [8, 5] and [4, 120] do not fit"));
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
#[expect(
    clippy::missing_errors_doc,
    reason = "every method has the one error that the trait's documentation states"
)]
pub trait Ctx {
    /// Adds an operation and gives the handle of its result. A parameter has one handle however often it is asked for.
    fn apply(&mut self, op: Op) -> Result<Var, Error>;

    /// A constant. `values` has `shape.len()` elements; an interpreter that only checks shapes ignores it.
    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error>;

    /// The shape of a value.
    fn shape(&self, var: Var) -> Shape;

    /// The operation that made a value.
    fn op(&self, var: Var) -> &Op;

    /// A parameter's value.
    fn param(&mut self, id: ParamId) -> Result<Var, Error> {
        self.apply(Op::Param(id))
    }

    /// `a * b`.
    fn matmul(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.matmul_transposed((a, false), (b, false))
    }

    /// `op(a) * op(b)`; each pair says whether the factor is transposed.
    fn matmul_transposed(&mut self, a: (Var, bool), b: (Var, bool)) -> Result<Var, Error> {
        self.apply(Op::MatMul {
            a: a.0,
            b: b.0,
            transpose_a: a.1,
            transpose_b: b.1,
        })
    }

    /// `x * w + b`, with the one row `b` added to every row.
    fn linear(&mut self, x: Var, w: Var, b: Var) -> Result<Var, Error> {
        let relu = false;
        self.apply(Op::Linear { x, w, b, relu })
    }

    /// `max(x * w + b, 0)`.
    fn linear_relu(&mut self, x: Var, w: Var, b: Var) -> Result<Var, Error> {
        let relu = true;
        self.apply(Op::Linear { x, w, b, relu })
    }

    /// Sharded rows times a replicated matrix (transposed if `w.1`).
    fn shard_matmul(
        &mut self,
        x: Var,
        w: (Var, bool),
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        self.apply(Op::ShardMatMul {
            x,
            w: w.0,
            transpose_w: w.1,
            layout: Arc::clone(layout),
        })
    }

    /// `a + b`.
    fn add(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.apply(Op::Binary {
            op: Binary::Add,
            a,
            b,
        })
    }

    /// `a - b`.
    fn sub(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.apply(Op::Binary {
            op: Binary::Sub,
            a,
            b,
        })
    }

    /// `a * b`, element-wise.
    fn mul(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.apply(Op::Binary {
            op: Binary::Mul,
            a,
            b,
        })
    }

    /// `a / b`, element-wise.
    fn div(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.apply(Op::Binary {
            op: Binary::Div,
            a,
            b,
        })
    }

    /// An element-wise operation of one operand.
    fn unary(&mut self, op: Unary, x: Var) -> Result<Var, Error> {
        self.apply(Op::Unary { op, x })
    }

    /// `e^x`.
    fn exp(&mut self, x: Var) -> Result<Var, Error> {
        self.unary(Unary::Exp, x)
    }

    /// The natural logarithm.
    fn log(&mut self, x: Var) -> Result<Var, Error> {
        self.unary(Unary::Log, x)
    }

    /// The hyperbolic tangent.
    fn tanh(&mut self, x: Var) -> Result<Var, Error> {
        self.unary(Unary::Tanh, x)
    }

    /// `1 / (1 + e^-x)`.
    fn sigmoid(&mut self, x: Var) -> Result<Var, Error> {
        self.unary(Unary::Sigmoid, x)
    }

    /// `x`, but at least `low` and at most `high`.
    fn clamp(&mut self, x: Var, low: f32, high: f32) -> Result<Var, Error> {
        self.unary(Unary::Clamp { low, high }, x)
    }

    /// The logarithm of each row's softmax.
    fn log_softmax(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Op::LogSoftmax { x })
    }

    /// 1 at each row's largest value, 0 elsewhere ([`Op::ArgmaxRows`]).
    fn argmax_rows(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Op::ArgmaxRows { x })
    }

    /// `x`, without a gradient.
    fn detach(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Op::Detach { x })
    }

    /// `factor * x`.
    fn scale(&mut self, x: Var, factor: f32) -> Result<Var, Error> {
        self.apply(Op::Scale { x, factor })
    }

    /// `max(x, 0)`.
    fn relu(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Op::Relu { x })
    }

    /// `b` below (`Axis::Rows`) or beside (`Axis::Cols`) `a`.
    fn concat(&mut self, a: Var, b: Var, axis: Axis) -> Result<Var, Error> {
        self.apply(Op::Concat { a, b, axis })
    }

    /// `len` rows or columns from `start`.
    fn slice(&mut self, x: Var, axis: Axis, start: usize, len: usize) -> Result<Var, Error> {
        self.apply(Op::Slice {
            x,
            axis,
            start,
            len,
        })
    }

    /// Rows by index; `u32::MAX` gives zeros.
    fn gather(&mut self, x: Var, index: Arc<[u32]>) -> Result<Var, Error> {
        self.apply(Op::Gather { x, index })
    }

    /// The sum of all rows.
    fn sum_rows(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Op::SumRows { x })
    }

    /// Adds one row to every row of `x`.
    fn add_row(&mut self, x: Var, row: Var) -> Result<Var, Error> {
        let n_rows = self.shape(x).rows;
        let rows = self.apply(Op::RepeatRow { x: row, n_rows })?;
        self.add(x, rows)
    }

    /// The exact sum of each state's rows over all ranks.
    fn state_sum(&mut self, x: Var, layout: &Arc<BatchLayout>) -> Result<Var, Error> {
        self.apply(Op::StateSum {
            x,
            layout: Arc::clone(layout),
        })
    }

    /// Each own row's state row.
    fn state_broadcast(&mut self, x: Var, layout: &Arc<BatchLayout>) -> Result<Var, Error> {
        self.apply(Op::StateBroadcast {
            x,
            layout: Arc::clone(layout),
        })
    }

    /// The masked sum over neighbours.
    fn propagate(&mut self, x: Var, graphs: &Arc<Propagation>) -> Result<Var, Error> {
        self.apply(Op::Propagate {
            x,
            graphs: Arc::clone(graphs),
        })
    }

    /// The rank-order sum of one summand a rank.
    fn all_reduce(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Op::AllReduce { x })
    }

    /// The averaged loss of replicated predictions.
    fn loss(&mut self, loss: Loss, pred: Var, target: Var) -> Result<Var, Error> {
        self.apply(Op::Loss { loss, pred, target })
    }
}
