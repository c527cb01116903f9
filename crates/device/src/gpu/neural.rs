//! Launches for linear layers, element-wise functions, softmax and argmax; lengths have been checked by [`crate::Device`].

use super::Gpu;
use super::ops::BLOCK;
use crate::{Arg, Buffer, Error, Launch, Rows, Unary};

/// Threads that share a row.
const WARP: usize = 32;

impl Gpu {
    /// Adds a row to every row of `out`, then takes `max(., 0)` if `relu`.
    pub(crate) fn add_row(&self, row: &Buffer, relu: bool, out: &mut Buffer) -> Result<(), Error> {
        let n = out.len();
        let args = [
            Arg::read(row),
            Arg::u64(row.len() as u64),
            Arg::u32(relu.into()),
            Arg::write(out),
            Arg::u64(n as u64),
        ];
        // SAFETY: out has n elements, and the kernel reads row below its length.
        unsafe { self.launch("add_row_fwd", Launch::threads(n, BLOCK), &args) }
    }

    pub(crate) fn unary(&self, op: Unary, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        let (code, low, high) = match op {
            Unary::Exp => (0, 0.0, 0.0),
            Unary::Log => (1, 0.0, 0.0),
            Unary::Tanh => (2, 0.0, 0.0),
            Unary::Sigmoid => (3, 0.0, 0.0),
            Unary::Clamp { low, high } => (4, low, high),
        };
        let n = out.len();
        let args = [
            Arg::read(x),
            Arg::write(out),
            Arg::u64(n as u64),
            Arg::u32(code),
            Arg::f32(low),
            Arg::f32(high),
        ];
        // SAFETY: the kernel touches elements below n, which is the length of both buffers.
        unsafe { self.launch("unary_fwd", Launch::threads(n, BLOCK), &args) }
    }

    pub(crate) fn log_softmax(
        &self,
        rows: Rows,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.by_rows("log_softmax_fwd", rows, x, out)
    }

    pub(crate) fn argmax_rows(
        &self,
        rows: Rows,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.by_rows("argmax_rows_fwd", rows, x, out)
    }

    /// A kernel with a warp for each row.
    fn by_rows(&self, kernel: &str, rows: Rows, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let args = [
            Arg::read(x),
            Arg::write(out),
            Arg::u64(rows.n_rows as u64),
            Arg::u64(rows.width as u64),
        ];
        let shape = Launch::threads(rows.n_rows * WARP, BLOCK);
        // SAFETY: both buffers have n_rows rows of `width` elements.
        unsafe { self.launch(kernel, shape, &args) }
    }
}
