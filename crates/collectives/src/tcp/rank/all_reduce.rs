//! The two algorithms of an all-reduce. Both give the sum of the ranks in their order.

use super::Rank;
use crate::element::Element;
use crate::op::Reduction;
use crate::operations::{Context, Counts, Done};

impl Rank {
    /// Every rank receives every buffer and reduces it: one step.
    pub(super) fn all_reduce_direct<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        header: &[u8],
        context: Context<'_>,
    ) -> Done {
        let n_ranks = self.n_ranks();
        self.out.clear();
        T::encode(buf, &mut self.out);
        let ins = Counts::Equal(buf.len()).ranges(n_ranks);
        self.step::<T>(header, &vec![0..buf.len(); n_ranks], &ins, context)?;
        self.reduce_into(buf, &ins, reduction);
        Ok(())
    }

    /// Every rank reduces one part and sends it to all.
    pub(super) fn reduce_scatter_all_gather<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        header: &[u8],
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let parts = self.parts_of(buf.len());
        self.out.clear();
        T::encode(buf, &mut self.out);
        let ins = Counts::Equal(parts[own].len()).ranges(n_ranks);
        self.step::<T>(header, &parts, &ins, context)?;
        self.reduce_into(&mut buf[parts[own].clone()], &ins, reduction);
        self.share_parts(buf, &parts, context)
    }
}
