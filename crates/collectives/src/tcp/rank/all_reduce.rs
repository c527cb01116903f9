//! The two algorithms of an all-reduce. Both give the sum of the ranks in their order.

use super::{Rank, header, piece_of};
use crate::algorithm::Algorithm;
use crate::element::Element;
use crate::op::Reduction;
use crate::operations::{Context, Counts, Done};

impl Rank {
    pub(super) fn all_reduce_in_pieces<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let algorithm = context.call.algorithm;
        let n_at_once = self.n_at_once::<T>(algorithm);
        let mut header = header(context.call, &[]);
        for piece_idx in 0..buf.len().div_ceil(n_at_once).max(1) {
            let range = piece_of(&(0..buf.len()), piece_idx, n_at_once);
            let piece = &mut buf[range];
            if algorithm == Some(Algorithm::Direct) {
                self.all_reduce_direct(piece, reduction, &header, context)?;
            } else {
                self.reduce_scatter_all_gather(piece, reduction, &header, context)?;
            }
            header.clear();
        }
        Ok(())
    }

    /// Every rank receives every buffer and reduces it: one step.
    fn all_reduce_direct<T: Element>(
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
    fn reduce_scatter_all_gather<T: Element>(
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
