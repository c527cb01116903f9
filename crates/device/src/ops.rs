//! The arguments of the device operations that have more than their buffers.

use crate::device::length;
use crate::host::Host;
use crate::{Error, ErrorKind};

/// The dimensions of a dense product `out[rows, cols] = op(a)[rows, inner] * op(b)[inner, cols]`, row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul {
    /// Rows of the result.
    pub rows: usize,
    /// The summed dimension.
    pub inner: usize,
    /// Columns of the result.
    pub cols: usize,
    /// Whether `a` is stored as `[inner, rows]`.
    pub transpose_a: bool,
    /// Whether `b` is stored as `[cols, inner]`.
    pub transpose_b: bool,
}

/// An element-wise operation of one buffer.
///
/// # Determinism
/// On the host the results have the same bits on every machine: no function of the platform is called. They are off by at
/// most [`Unary::MAX_ULPS`]; a GPU's own functions may differ from them in the last bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unary {
    /// `e^x`; infinite above 88.72.
    Exp,
    /// The natural logarithm: negative infinity at 0, NaN below.
    Log,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `low` below `low`, `high` above `high`, else `x`; NaN stays NaN.
    Clamp {
        /// The smallest result.
        low: f32,
        /// The largest result, at least `low`.
        high: f32,
    },
}

/// An element-wise operation of two buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// `a` where `b > 0`, else 0: the adjoint of relu, with `b` its result.
    WherePositive,
    /// `a` where `low <= b <= high`, else 0: the adjoint of a clamp, with `b` its operand.
    WhereInside {
        /// The smallest `b` inside.
        low: f32,
        /// The largest `b` inside.
        high: f32,
    },
}

/// A loss that is averaged over the elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// `mean((pred - target)^2)`.
    Mse,
    /// The mean Huber loss: quadratic (`e^2 / 2`) up to `delta`, linear beyond.
    Huber {
        /// Where the loss turns linear: above 0.
        delta: f32,
    },
}

impl Loss {
    /// A delta that is not above 0 bounds nothing: the slope would be clamped between bounds that do not ascend.
    pub(crate) fn check(self, op: &'static str) -> Result<(), Error> {
        match self {
            Loss::Huber { delta } if delta.is_nan() || delta <= 0.0 => {
                let why = format!("the delta {delta} of a Huber loss must be above 0");
                Err(ErrorKind::Invalid { op, why }.into())
            }
            _ => Ok(()),
        }
    }
}

/// The shape of a row operation: `n_rows` rows of `width` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Number of rows.
    pub n_rows: usize,
    /// Elements in a row.
    pub width: usize,
}

/// The constants of one Adam step (Kingma and Ba 2015, algorithm 1), with its step count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Step size.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// The step number, from 1.
    pub step: u64,
}

impl Adam {
    /// The step on values in host memory: what [`crate::Device::adam`] does with buffers.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`] unless all four have one length.
    pub fn apply(
        &self,
        params: &mut [f32],
        grad: &[f32],
        (first, second): (&mut [f32], &mut [f32]),
    ) -> Result<(), Error> {
        let operands = [
            ("params", params.len()),
            ("first", first.len()),
            ("second", second.len()),
        ];
        match operands.into_iter().find(|&(_, len)| len != grad.len()) {
            Some((operand, len)) => Err(length("adam", operand, grad.len(), len)),
            None => {
                Host::new().adam(*self, params, grad, (first, second));
                Ok(())
            }
        }
    }

    /// `1 - beta^step` of both moments. Powers in f64: in f32 the correction of beta2 = 0.999 is off by 1e-4 at the first
    /// step.
    pub(crate) fn corrections(&self) -> (f32, f32) {
        let correction = |beta: f32| 1.0 - f64::from(beta).powi(self.step.min(1 << 30) as i32);
        (correction(self.beta1) as f32, correction(self.beta2) as f32)
    }
}

/// A block of an adjacency matrix as the sparse product reads it.
#[derive(Debug, Clone, Copy)]
pub enum Adjacency<'a> {
    /// Own rows as column lists: row `i` is `columns[row_ptr[i]..row_ptr[i + 1]]`.
    Csr {
        /// Where each row starts, and the end of the last.
        row_ptr: &'a [u64],
        /// Column ids, ascending in each row.
        columns: &'a [u32],
        /// One weight for each column id; absent means 1.
        values: Option<&'a [f32]>,
    },
    /// All rows restricted to the own columns, as bits; by symmetry the transpose of the own rows.
    Bits {
        /// `n_columns * words_per_row` words.
        words: &'a [u64],
        /// Words in one row.
        words_per_row: usize,
    },
    /// A block that is on the device already ([`crate::Device::resident`]).
    Resident(&'a crate::ResidentAdjacency),
}

/// A sparse product `y[own rows] = adjacency[own rows, all] * x[all]` with rows of `width` elements.
#[derive(Debug, Clone, Copy)]
pub struct SparseProduct<'a> {
    /// The adjacency block.
    pub adjacency: Adjacency<'a>,
    /// The number of own rows (rows of `y`).
    pub n_rows: usize,
    /// The number of all rows (rows of `x`).
    pub n_columns: usize,
    /// Elements in a row of `x` and `y`.
    pub width: usize,
}

/// A copy of a rectangle of elements between two row-major matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy2d {
    /// Rows to copy.
    pub rows: usize,
    /// Elements to copy in each row.
    pub width: usize,
    /// Index of the first element in the source.
    pub source_first: usize,
    /// Elements between two rows of the source.
    pub source_stride: usize,
    /// Index of the first element in the target.
    pub target_first: usize,
    /// Elements between two rows of the target.
    pub target_stride: usize,
}

impl Copy2d {
    /// The index behind the last element that a rectangle of this size touches.
    pub(crate) fn end(&self, first: usize, stride: usize) -> usize {
        match self.rows {
            0 => 0,
            // An end that no index can name is past every buffer.
            rows => first
                .saturating_add((rows - 1).saturating_mul(stride))
                .saturating_add(self.width),
        }
    }
}
