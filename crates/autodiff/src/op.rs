//! The closed set of operations, and the handles and shapes that they are made of.

use std::fmt;
use std::sync::Arc;

use shardgraph_device::{Binary, Buffer, Loss, Unary};

use crate::{BatchLayout, ParamId, Propagation};

/// A handle to a value of one interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(pub(crate) u32);

impl Var {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Rows and columns of a row-major matrix; every value is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
}

impl Shape {
    /// A shape of `rows` by `cols`.
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.rows, self.cols)
    }
}

/// Which way two matrices are joined or one is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// One above the other.
    Rows,
    /// Side by side.
    Cols,
}

/// A constant with its values.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Shape of the constant.
    pub shape: Shape,
    /// Its values; an interpreter that only checks shapes never looks at them.
    pub values: Arc<Buffer>,
}

/// An operation with its operands. The set is closed: every interpreter and [`crate::gradient`] matches all of it.
///
/// Where a variant does not say otherwise, the operands are all replicated or all sharded alike, and so is the result.
#[derive(Debug, Clone)]
pub enum Op {
    /// A constant; no gradient flows into it.
    Input(Leaf),
    /// A parameter (replicated).
    Param(ParamId),
    /// `op(a) * op(b)` of replicated matrices, each optionally transposed.
    MatMul {
        /// Left factor.
        a: Var,
        /// Right factor.
        b: Var,
        /// Transpose the left factor.
        transpose_a: bool,
        /// Transpose the right factor.
        transpose_b: bool,
    },
    /// Sharded rows times a replicated matrix, in products whose shapes do not depend on the number of ranks.
    ShardMatMul {
        /// Sharded rows `[layout.n_rows, a]`.
        x: Var,
        /// Replicated matrix `[a, b]`, or `[b, a]` transposed.
        w: Var,
        /// Whether `w` is transposed.
        transpose_w: bool,
        /// Which rows this rank has.
        layout: Arc<BatchLayout>,
    },
    /// `x^T y` summed exactly over all row blocks of all ranks: replicated `[a, b]`.
    ShardOuter {
        /// Sharded rows `[layout.n_rows, a]`.
        x: Var,
        /// Sharded rows `[layout.n_rows, b]`.
        y: Var,
        /// Which rows this rank has.
        layout: Arc<BatchLayout>,
    },
    /// `x * w + b`, then `max(., 0)` if `relu`, of replicated matrices: the bits of these operations one by one.
    Linear {
        /// Left factor `[n, inner]`.
        x: Var,
        /// Right factor `[inner, cols]`.
        w: Var,
        /// The row `[1, cols]` that is added to every row.
        b: Var,
        /// Whether negative results become zero.
        relu: bool,
    },
    /// Element-wise `op(x)`.
    Unary {
        /// Which operation.
        op: Unary,
        /// Operand.
        x: Var,
    },
    /// Element-wise `a op b`.
    Binary {
        /// Which operation.
        op: Binary,
        /// Left operand.
        a: Var,
        /// Right operand.
        b: Var,
    },
    /// `factor * x`.
    Scale {
        /// Operand.
        x: Var,
        /// Factor.
        factor: f32,
    },
    /// `max(x, 0)`.
    Relu {
        /// Operand.
        x: Var,
    },
    /// The logarithm of each row's softmax: `x - log(sum(exp(x)))` by rows, with each row's largest value taken off first.
    LogSoftmax {
        /// Operand.
        x: Var,
    },
    /// 1 at each row's largest value, 0 elsewhere; no gradient flows through.
    ///
    /// Of equal values the lowest column is taken. NaN is never taken, unless a row has nothing else: then it is column 0.
    ArgmaxRows {
        /// Operand.
        x: Var,
    },
    /// The operand itself, but no gradient flows through.
    Detach {
        /// Operand.
        x: Var,
    },
    /// `b` below or beside `a`.
    Concat {
        /// First part.
        a: Var,
        /// Second part.
        b: Var,
        /// Join along rows or columns.
        axis: Axis,
    },
    /// `len` rows or columns from `start`.
    Slice {
        /// Operand.
        x: Var,
        /// Cut along rows or columns.
        axis: Axis,
        /// First row or column.
        start: usize,
        /// Number of rows or columns.
        len: usize,
    },
    /// Zeros around `x`: the adjoint of a slice.
    Pad {
        /// Operand.
        x: Var,
        /// Pad along rows or columns.
        axis: Axis,
        /// Where `x` starts in the result.
        start: usize,
        /// Rows or columns of the result.
        total: usize,
    },
    /// Rows of `x` by index; `u32::MAX` gives zeros.
    Gather {
        /// Table.
        x: Var,
        /// Row numbers.
        index: Arc<[u32]>,
    },
    /// Rows added into a table of `n_rows` zero rows: the adjoint of a gather.
    Scatter {
        /// Rows to add.
        x: Var,
        /// Where each goes; `u32::MAX` is left out.
        index: Arc<[u32]>,
        /// Rows of the table.
        n_rows: usize,
    },
    /// The sum of all rows, as one row.
    SumRows {
        /// Operand.
        x: Var,
    },
    /// One row, `n_rows` times.
    RepeatRow {
        /// A single row.
        x: Var,
        /// How often.
        n_rows: usize,
    },
    /// For each state the exact sum of its rows over all ranks: sharded `[n_rows, k]` to replicated `[n_states, k]`.
    StateSum {
        /// Sharded rows.
        x: Var,
        /// Which rows this rank has.
        layout: Arc<BatchLayout>,
    },
    /// For each own row its state's row: replicated `[n_states, k]` to sharded `[n_rows, k]`.
    StateBroadcast {
        /// Replicated rows, one a state.
        x: Var,
        /// Which rows this rank has.
        layout: Arc<BatchLayout>,
    },
    /// The masked, scaled sum over neighbours of sharded rows; rows of other ranks come by an all-gather, or as their blocks ask.
    Propagate {
        /// Sharded rows.
        x: Var,
        /// The graphs, masks and scales.
        graphs: Arc<Propagation>,
    },
    /// The rank-order sum of a partial value: one summand on each rank, replicated afterwards.
    AllReduce {
        /// This rank's summand.
        x: Var,
    },
    /// A replicated value handed to work that differs by rank: itself; its adjoint sums over ranks.
    Enter {
        /// Replicated value.
        x: Var,
    },
    /// The rows of all ranks, one rank below the other; the result is used by work that differs by rank.
    AllGather {
        /// Own rows.
        x: Var,
        /// Rows of each rank.
        counts: Arc<[usize]>,
    },
    /// The sum over ranks of whole tables, of which each rank keeps its own rows: the adjoint of an all-gather.
    ReduceScatter {
        /// A table with the rows of all ranks.
        x: Var,
        /// Rows of each rank.
        counts: Arc<[usize]>,
    },
    /// The averaged loss of replicated predictions, `[1, 1]`; no gradient flows into the target.
    Loss {
        /// Which loss.
        loss: Loss,
        /// Predictions.
        pred: Var,
        /// Targets of the same shape.
        target: Var,
    },
    /// The derivative of a loss by its predictions, times `upstream [1, 1]`.
    LossGrad {
        /// Which loss.
        loss: Loss,
        /// Predictions.
        pred: Var,
        /// Targets.
        target: Var,
        /// The derivative by the loss.
        upstream: Var,
    },
}

impl Op {
    /// The operation's name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Param(_) => "param",
            Self::MatMul { .. } => "matmul",
            Self::ShardMatMul { .. } => "shard_matmul",
            Self::ShardOuter { .. } => "shard_outer",
            Self::Linear { .. } => "linear",
            Self::Unary { op, .. } => unary_name(*op),
            Self::Binary { op, .. } => binary_name(*op),
            Self::Scale { .. } => "scale",
            Self::Relu { .. } => "relu",
            Self::LogSoftmax { .. } => "log_softmax",
            Self::ArgmaxRows { .. } => "argmax_rows",
            Self::Detach { .. } => "detach",
            Self::Concat { .. } => "concat",
            Self::Slice { .. } => "slice",
            Self::Pad { .. } => "pad",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::SumRows { .. } => "sum_rows",
            Self::RepeatRow { .. } => "repeat_row",
            Self::StateSum { .. } => "state_sum",
            Self::StateBroadcast { .. } => "state_broadcast",
            Self::Propagate { .. } => "propagate",
            Self::AllReduce { .. } => "all_reduce",
            Self::Enter { .. } => "enter",
            Self::AllGather { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter",
            Self::Loss { .. } => "loss",
            Self::LossGrad { .. } => "loss_grad",
        }
    }

    /// The variables that this operation reads.
    pub fn operands(&self) -> Vec<Var> {
        match self {
            Self::Input(_) | Self::Param(_) => vec![],
            Self::MatMul { a, b, .. } | Self::Binary { a, b, .. } | Self::Concat { a, b, .. } => {
                vec![*a, *b]
            }
            Self::Linear { x, w, b, .. } => vec![*x, *w, *b],
            Self::ShardMatMul { x, w, .. } => vec![*x, *w],
            Self::ShardOuter { x, y, .. } => vec![*x, *y],
            Self::Loss { pred, target, .. } => vec![*pred, *target],
            Self::LossGrad {
                pred,
                target,
                upstream,
                ..
            } => vec![*pred, *target, *upstream],
            Self::Scale { x, .. }
            | Self::Relu { x }
            | Self::Unary { x, .. }
            | Self::LogSoftmax { x }
            | Self::ArgmaxRows { x }
            | Self::Detach { x }
            | Self::Slice { x, .. }
            | Self::Pad { x, .. }
            | Self::Gather { x, .. }
            | Self::Scatter { x, .. }
            | Self::SumRows { x }
            | Self::RepeatRow { x, .. }
            | Self::StateSum { x, .. }
            | Self::StateBroadcast { x, .. }
            | Self::Propagate { x, .. }
            | Self::AllReduce { x }
            | Self::Enter { x }
            | Self::AllGather { x, .. }
            | Self::ReduceScatter { x, .. } => vec![*x],
        }
    }
}

fn unary_name(op: Unary) -> &'static str {
    match op {
        Unary::Exp => "exp",
        Unary::Log => "log",
        Unary::Tanh => "tanh",
        Unary::Sigmoid => "sigmoid",
        Unary::Clamp { .. } => "clamp",
    }
}

fn binary_name(op: Binary) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div => "div",
        Binary::WherePositive => "where_positive",
        Binary::WhereInside { .. } => "where_inside",
    }
}
