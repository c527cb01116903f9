//! The order of sequences as the rows of a matrix, which every reader of such rows checks.

use std::sync::Arc;

use shardgraph_autodiff::{Ctx, Error as AutodiffError, Shape, Var};
use shardgraph_environments::space::{Major, RankedSpace};

use crate::Error;
use crate::error::Call;

/// B sequences of T steps as the rows of a matrix, a row for each step of each sequence.
///
/// Components over time take it beside their rows. They compute with time first: rows of
/// [`Major::Time`] are read as they stand, those of [`Major::Batch`] are put in that order and
/// results are put back, so both give the same bits.
///
/// ```
/// use shardgraph_components::Sequences;
/// use shardgraph_components::environments::space::{Major, RankedSpace, Space};
///
/// let ranked = RankedSpace::new(Space::boxed(&[4], -1.0, 1.0)?).with_batch().with_time(Major::Batch);
/// assert_eq!(Sequences::of(&ranked, 8, 32)?, Sequences { n_steps: 8, n_batch: 32, major: Major::Batch });
/// assert!(Sequences::of(&RankedSpace::new(ranked.space).with_batch(), 8, 32).is_err()); // there is no time
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequences {
    /// T: how many steps each has, at least 1.
    pub n_steps: usize,
    /// B: how many there are, at least 1.
    pub n_batch: usize,
    /// The outer rank: with time first come the rows of step 0 of all sequences, with the batch
    /// first those of sequence 0.
    pub major: Major,
}

impl Sequences {
    /// With time first, `[T * B, width]`.
    pub fn time_major(n_steps: usize, n_batch: usize) -> Sequences {
        Sequences {
            n_steps,
            n_batch,
            major: Major::Time,
        }
    }

    /// With the batch first, `[B * T, width]`.
    pub fn batch_major(n_steps: usize, n_batch: usize) -> Sequences {
        Sequences {
            n_steps,
            n_batch,
            major: Major::Batch,
        }
    }

    /// As the ranks of a space say. Without a batch it is one sequence.
    ///
    /// # Errors
    /// When the space has no time, or it has no batch and `n_batch` is not 1.
    pub fn of(space: &RankedSpace, n_steps: usize, n_batch: usize) -> Result<Sequences, Error> {
        let call = Call::new("sequences", "Sequences::of");
        let Some(major) = space.ranks.time else {
            return Err(call.mismatch("the ranks", "a time", format!("{:?}", space.ranks)));
        };
        if !space.ranks.batch && n_batch != 1 {
            let given = n_batch.to_string();
            return Err(call.mismatch("the batch of a space without one", "1", given));
        }
        Ok(Sequences {
            n_steps,
            n_batch,
            major,
        })
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
        (what, x): (&str, Var),
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

    /// The rows with time first.
    pub(crate) fn with_time_first(self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, AutodiffError> {
        self.turned(ctx, x, (self.n_steps, self.n_batch))
    }

    /// Rows with time first in the order of these.
    pub(crate) fn in_own_order(self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, AutodiffError> {
        self.turned(ctx, x, (self.n_batch, self.n_steps))
    }

    /// Rows whose inner rank becomes the outer one, of extent `n_outer`. Time first, or one rank of
    /// a single place: as they are.
    fn turned(
        self,
        ctx: &mut dyn Ctx,
        x: Var,
        (n_outer, n_inner): (usize, usize),
    ) -> Result<Var, AutodiffError> {
        if self.major == Major::Time || n_outer == 1 || n_inner == 1 {
            return Ok(x);
        }
        let row = |outer: usize| (0..n_inner).map(move |inner| (inner * n_outer + outer) as u32);
        let index: Arc<[u32]> = (0..n_outer).flat_map(row).collect();
        ctx.gather(x, index)
    }
}
