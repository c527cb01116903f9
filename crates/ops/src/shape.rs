//! Shapes that several operations share.

use shardgraph_device::checks;

/// The shape of a row operation: `n_rows` rows of `width` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Number of rows.
    pub n_rows: usize,
    /// Elements in a row.
    pub width: usize,
}

impl Rows {
    pub(crate) fn n_elements(&self) -> usize {
        checks::elements(&[self.n_rows, self.width])
    }
}
