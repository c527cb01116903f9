//! What networks are made of beside products: linear layers, element-wise functions, softmax and argmax of rows.

use crate::device::{BackEnd, check, elements};
use crate::memory::{on_host, on_host_mut};
use crate::{Buffer, Device, Error, MatMul, Rows, Unary};

impl Unary {
    /// What a result on the host is off by at most, in units of the last place of the exact one.
    pub const MAX_ULPS: f64 = 3.0;

    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Self::Clamp { low, high } => check_bounds("unary", low, high),
            Self::Exp | Self::Log | Self::Tanh | Self::Sigmoid => Ok(()),
        }
    }
}

/// Whether `low <= high`; neither is NaN then.
pub(crate) fn check_bounds(op: &'static str, low: f32, high: f32) -> Result<(), Error> {
    match low <= high {
        true => Ok(()),
        false => {
            let why = format!("the bounds {low} and {high} must ascend");
            Err(Error::invalid(op, why))
        }
    }
}

impl Device {
    /// `out = op(x) * op(w) + row`, then `max(., 0)` if `relu`: a layer of a network, with the bits of a product, a sum and
    /// a relu one by one.
    ///
    /// # Shapes
    /// As in [`MatMul`] for the factors `x` and `weights.0`; the row `weights.1 [cols]` is added to every row.
    /// # Errors
    /// [`crate::ErrorKind::Length`].
    /// # Complexity
    /// `2 * rows * inner * cols` FLOP; on a GPU, and for large matrices, one more pass over `out`.
    /// # Determinism
    /// As [`Device::matmul`].
    pub fn linear(
        &self,
        shape: MatMul,
        x: &Buffer,
        weights: (&Buffer, &Buffer),
        relu: bool,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (w, row) = weights;
        check("linear", "row", shape.cols, row)?;
        check("linear", "x", elements(&[shape.rows, shape.inner]), x)?;
        check("linear", "w", elements(&[shape.inner, shape.cols]), w)?;
        check("linear", "out", elements(&[shape.rows, shape.cols]), out)?;
        match &self.back_end {
            BackEnd::Gpu(gpu) => {
                gpu.matmul(shape, x, w, out)?;
                gpu.add_row(row, relu, out)
            }
            BackEnd::Host(host) => {
                let factors = (on_host("linear", x)?, on_host("linear", w)?);
                let row = on_host("linear", row)?;
                host.linear(shape, factors, (row, relu), on_host_mut("linear", out)?);
                Ok(())
            }
        }
    }

    /// An element-wise operation of one buffer.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`]; [`crate::ErrorKind::Invalid`] for bounds that do not ascend.
    /// # Determinism
    /// As [`Unary`] says.
    pub fn unary(&self, op: Unary, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check("unary", "out", x.len(), out)?;
        op.check()?;
        match &self.back_end {
            BackEnd::Gpu(gpu) => gpu.unary(op, x, out),
            BackEnd::Host(host) => {
                host.unary(op, on_host("unary", x)?, on_host_mut("unary", out)?);
                Ok(())
            }
        }
    }

    /// The logarithm of each row's softmax; each row's largest value is taken off first, so that no sum overflows.
    ///
    /// A row with NaN or plus infinity, or with nothing but minus infinity, gives NaN; beside a finite number minus infinity stays.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`].
    /// # Determinism
    /// A row's result depends on that row alone. On the host the same bits on every machine; a GPU sums in another order.
    pub fn log_softmax(&self, rows: Rows, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check_rows("log_softmax", rows, x, out)?;
        match &self.back_end {
            BackEnd::Gpu(gpu) => gpu.log_softmax(rows, x, out),
            BackEnd::Host(host) => {
                let x = on_host("log_softmax", x)?;
                host.log_softmax(rows.width, x, on_host_mut("log_softmax", out)?);
                Ok(())
            }
        }
    }

    /// 1 at each row's largest value, 0 elsewhere.
    ///
    /// Of equal values the lowest column is taken. NaN is never taken, unless a row has nothing else: then it is column 0.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`].
    pub fn argmax_rows(&self, rows: Rows, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check_rows("argmax_rows", rows, x, out)?;
        match &self.back_end {
            BackEnd::Gpu(gpu) => gpu.argmax_rows(rows, x, out),
            BackEnd::Host(host) => {
                let x = on_host("argmax_rows", x)?;
                host.argmax_rows(rows.width, x, on_host_mut("argmax_rows", out)?);
                Ok(())
            }
        }
    }
}

fn check_rows(op: &'static str, rows: Rows, x: &Buffer, out: &Buffer) -> Result<(), Error> {
    let wanted = elements(&[rows.n_rows, rows.width]);
    check(op, "x", wanted, x)?;
    check(op, "out", wanted, out)
}
