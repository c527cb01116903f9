//! The order of sequences as the rows of a matrix, which every reader of such rows checks.

use shardgraph_autodiff::{Ctx, Shape, Var};

use crate::Error;
use crate::error::Call;

/// B sequences of T steps as the rows of a matrix with time first, `[T * B, width]`: the rows of step 0 of all sequences, then those of
/// step 1. Components over time take it beside their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequences {
    /// T: how many steps each has, at least 1.
    pub n_steps: usize,
    /// B: how many there are, at least 1.
    pub n_batch: usize,
}

impl Sequences {
    /// With time first, `[T * B, width]`.
    pub fn time_major(n_steps: usize, n_batch: usize) -> Sequences {
        Sequences { n_steps, n_batch }
    }

    /// `T * B`.
    ///
    /// # Errors
    /// When one is 0, or the product beyond 32 bits.
    pub fn n_rows(&self) -> Result<usize, Error> {
        let product = self.n_steps.checked_mul(self.n_batch);
        let fits = |&n: &usize| n > 0 && u32::try_from(n).is_ok();
        product.filter(fits).ok_or_else(|| {
            let given = format!("{} steps of {} sequences", self.n_steps, self.n_batch);
            let expected = "one or more of each, and less than 2^32 rows";
            Call::new("sequences", "Sequences::n_rows").mismatch("the rows", expected, given)
        })
    }

    /// Checks that `x` has these rows, and this number of columns.
    pub(crate) fn expect(
        &self,
        call: Call<'_>,
        ctx: &dyn Ctx,
        what: &str,
        x: Var,
        n_columns: usize,
    ) -> Result<(), Error> {
        let (shape, given) = (Shape::new(self.n_rows()?, n_columns), ctx.shape(x));
        if given == shape {
            return Ok(());
        }
        let (n_steps, n_batch) = (self.n_steps, self.n_batch);
        let expected = format!("{shape}, {n_steps} steps of {n_batch} sequences");
        Err(call.mismatch(what, expected, given.to_string()))
    }
}
