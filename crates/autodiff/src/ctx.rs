//! The one trait that layers are written against.

use std::sync::Arc;

use shardgraph_ops::{Binary, Loss, Unary};

use crate::operations::{
    AllGather, AllReduce, ArgmaxRows, AverageLoss, BroadcastColumn, Concat, CopyToRanks, Detach,
    Elementwise, Function, Gather, Linear, LogSoftmax, LossGrad, MatMul, Pad, ReduceScatter, Relu,
    RepeatRow, RowSums, Scale, Scatter, Slice, SumRows,
};
use crate::{Axis, Error, Op, Operation, ParamId, Shape, Var};

/// An interpreter of operations.
///
/// Implementors give [`Ctx::push`], [`Ctx::input`] and the look-ups; the rest are short names for operations. Every
/// method fails with the operation's name and the shapes where these do not fit.
///
/// ```
/// use shardgraph_autodiff::{Ctx, Params, Recorder, Shape};
/// let params = Params::new();
/// let mut ctx = Recorder::new(&params, 0, 1);
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
    /// Adds a node and gives the handle of its value. A parameter has one handle however often it is asked for.
    fn push(&mut self, op: Op) -> Result<Var, Error>;

    /// A constant. `values` has `shape.len()` elements; a recorder takes none too, for a value that is set later.
    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error>;

    /// The shape of a value.
    fn shape(&self, var: Var) -> Shape;

    /// The operation that made a value.
    fn op(&self, var: Var) -> &Op;

    /// The result of an operation on these operands.
    fn apply(&mut self, operation: Arc<dyn Operation>, operands: &[Var]) -> Result<Var, Error> {
        let operands = operands.to_vec();
        self.push(Op::Apply {
            operation,
            operands,
        })
    }

    /// A parameter's value.
    fn param(&mut self, id: ParamId) -> Result<Var, Error> {
        self.push(Op::Param(id))
    }

    /// `a * b`.
    fn matmul(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.matmul_transposed((a, false), (b, false))
    }

    /// `op(a) * op(b)`; each pair says whether the factor is transposed.
    fn matmul_transposed(&mut self, a: (Var, bool), b: (Var, bool)) -> Result<Var, Error> {
        let (transpose_a, transpose_b) = (a.1, b.1);
        let operation = MatMul {
            transpose_a,
            transpose_b,
        };
        self.apply(Arc::new(operation), &[a.0, b.0])
    }

    /// `x * w + b`, with the one row `b` added to every row.
    fn linear(&mut self, x: Var, w: Var, b: Var) -> Result<Var, Error> {
        self.apply(Arc::new(Linear { relu: false }), &[x, w, b])
    }

    /// `max(x * w + b, 0)`.
    fn linear_relu(&mut self, x: Var, w: Var, b: Var) -> Result<Var, Error> {
        self.apply(Arc::new(Linear { relu: true }), &[x, w, b])
    }

    /// An element-wise operation of two operands.
    fn binary(&mut self, op: Binary, a: Var, b: Var) -> Result<Var, Error> {
        self.apply(Arc::new(Elementwise(op)), &[a, b])
    }

    /// `a + b`.
    fn add(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`.
    fn sub(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.binary(Binary::Sub, a, b)
    }

    /// `a * b`, element-wise.
    fn mul(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.binary(Binary::Mul, a, b)
    }

    /// `a / b`, element-wise.
    fn div(&mut self, a: Var, b: Var) -> Result<Var, Error> {
        self.binary(Binary::Div, a, b)
    }

    /// An element-wise operation of one operand.
    fn unary(&mut self, op: Unary, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(Function(op)), &[x])
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

    /// The square root.
    fn sqrt(&mut self, x: Var) -> Result<Var, Error> {
        self.unary(Unary::Sqrt, x)
    }

    /// `x`, but at least `low` and at most `high`.
    fn clamp(&mut self, x: Var, low: f32, high: f32) -> Result<Var, Error> {
        self.unary(Unary::Clamp { low, high }, x)
    }

    /// The logarithm of each row's softmax.
    fn log_softmax(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(LogSoftmax), &[x])
    }

    /// 1 at each row's largest value, 0 elsewhere ([`ArgmaxRows`]).
    fn argmax_rows(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(ArgmaxRows), &[x])
    }

    /// `x`, without a gradient.
    fn detach(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(Detach), &[x])
    }

    /// `factor * x`.
    fn scale(&mut self, x: Var, factor: f32) -> Result<Var, Error> {
        self.apply(Arc::new(Scale { factor }), &[x])
    }

    /// `max(x, 0)`.
    fn relu(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(Relu), &[x])
    }

    /// `b` below (`Axis::Rows`) or beside (`Axis::Cols`) `a`.
    fn concat(&mut self, a: Var, b: Var, axis: Axis) -> Result<Var, Error> {
        self.apply(Arc::new(Concat { axis }), &[a, b])
    }

    /// `len` rows or columns from `start`.
    fn slice(&mut self, x: Var, axis: Axis, start: usize, len: usize) -> Result<Var, Error> {
        self.apply(Arc::new(Slice { axis, start, len }), &[x])
    }

    /// Zeros before `start` and behind `x`, so that it has `total` rows or columns.
    fn pad(&mut self, x: Var, axis: Axis, start: usize, total: usize) -> Result<Var, Error> {
        self.apply(Arc::new(Pad { axis, start, total }), &[x])
    }

    /// Rows by index; `u32::MAX` gives zeros.
    fn gather(&mut self, x: Var, index: Arc<[u32]>) -> Result<Var, Error> {
        self.apply(Arc::new(Gather { index }), &[x])
    }

    /// Rows added into a table of `n_rows` zero rows; `u32::MAX` is left out.
    fn scatter(&mut self, x: Var, index: Arc<[u32]>, n_rows: usize) -> Result<Var, Error> {
        self.apply(Arc::new(Scatter { index, n_rows }), &[x])
    }

    /// The sum of all rows.
    fn sum_rows(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(SumRows), &[x])
    }

    /// One row, `n_rows` times.
    fn repeat_row(&mut self, x: Var, n_rows: usize) -> Result<Var, Error> {
        self.apply(Arc::new(RepeatRow { n_rows }), &[x])
    }

    /// Adds one row to every row of `x`.
    fn add_row(&mut self, x: Var, row: Var) -> Result<Var, Error> {
        let n_rows = self.shape(x).rows;
        let rows = self.repeat_row(row, n_rows)?;
        self.add(x, rows)
    }

    /// The sum of each row, as one column.
    fn row_sums(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(RowSums), &[x])
    }

    /// One column, `n_cols` times side by side.
    fn broadcast_column(&mut self, x: Var, n_cols: usize) -> Result<Var, Error> {
        self.apply(Arc::new(BroadcastColumn { n_cols }), &[x])
    }

    /// The rank-order sum of one summand a rank.
    fn all_reduce(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(AllReduce), &[x])
    }

    /// A replicated value for work that differs by rank; its adjoint sums over ranks.
    fn copy_to_ranks(&mut self, x: Var) -> Result<Var, Error> {
        self.apply(Arc::new(CopyToRanks), &[x])
    }

    /// The rows of all ranks, of which each has `counts[rank]`.
    fn all_gather(&mut self, x: Var, counts: Arc<[usize]>) -> Result<Var, Error> {
        self.apply(Arc::new(AllGather { counts }), &[x])
    }

    /// This rank's `counts[rank]` rows of the sum of all ranks' tables.
    fn reduce_scatter(&mut self, x: Var, counts: Arc<[usize]>) -> Result<Var, Error> {
        self.apply(Arc::new(ReduceScatter { counts }), &[x])
    }

    /// The averaged loss of replicated predictions.
    fn loss(&mut self, loss: Loss, pred: Var, target: Var) -> Result<Var, Error> {
        self.apply(Arc::new(AverageLoss(loss)), &[pred, target])
    }

    /// The derivative of [`Ctx::loss`] by the predictions, times `upstream [1, 1]`.
    fn loss_grad(
        &mut self,
        loss: Loss,
        pred: Var,
        target: Var,
        upstream: Var,
    ) -> Result<Var, Error> {
        self.apply(Arc::new(LossGrad(loss)), &[pred, target, upstream])
    }
}
