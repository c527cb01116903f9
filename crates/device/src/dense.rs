//! The shape of a dense product: what the vendor's library and the project's own kernels are given.

use crate::{Buffer, Error, checks};

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

impl MatMul {
    /// Checks that the buffers have the elements of this shape.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`].
    pub fn check(
        &self,
        op: &'static str,
        a: &Buffer,
        b: &Buffer,
        out: &Buffer,
    ) -> Result<(), Error> {
        let elements = checks::elements;
        checks::len(op, "a", elements(&[self.rows, self.inner]), a)?;
        checks::len(op, "b", elements(&[self.inner, self.cols]), b)?;
        checks::len(op, "out", elements(&[self.rows, self.cols]), out)
    }
}
