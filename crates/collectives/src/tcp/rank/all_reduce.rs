//! The ways to do an all-reduce. Each gives the same bits: the sum of the ranks in their order.

use super::{Context, Counts, Done, Rank, greeting, piece_of};
use crate::algorithm::Algorithm;
use crate::cost::CHAIN_PIECE_BYTES;
use crate::op::Reduction;
use crate::tcp::wire::Wire;
use std::ops::Range;

impl Rank {
    pub(super) fn all_reduce<T: Wire>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let algorithm = context.call.algorithm;
        let n_at_once = match algorithm {
            Some(Algorithm::Chain) => return self.all_reduce_chain(buf, reduction, context),
            Some(Algorithm::Parts) => self.piece_len::<T>() * self.n_ranks(),
            _ => self.piece_len::<T>(),
        };
        let mut greeting = greeting(context.call, &[]);
        for piece_idx in 0..buf.len().div_ceil(n_at_once).max(1) {
            let range = piece_of(&(0..buf.len()), piece_idx, n_at_once);
            let piece = &mut buf[range];
            match algorithm {
                Some(Algorithm::Parts) => {
                    self.all_reduce_in_parts(piece, reduction, &greeting, context)?;
                }
                Some(Algorithm::Tree) => {
                    self.all_reduce_at_root(piece, reduction, &greeting, context)?
                }
                _ => self.all_reduce_whole(piece, reduction, &greeting, context)?,
            }
            greeting.clear();
        }
        Ok(())
    }

    /// Every rank gets everything and reduces it: one step.
    fn all_reduce_whole<T: Wire>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        greeting: &[u8],
        context: Context<'_>,
    ) -> Done {
        let n_ranks = self.n_ranks();
        self.out.clear();
        T::encode(buf, &mut self.out);
        let ins = Counts::Equal(buf.len()).ranges(n_ranks);
        self.step::<T>(greeting, &vec![0..buf.len(); n_ranks], &ins, context)?;
        self.reduce_into(buf, &ins, reduction);
        Ok(())
    }

    /// Every rank reduces one part and sends it to all.
    fn all_reduce_in_parts<T: Wire>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        greeting: &[u8],
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let parts = self.parts_of(buf.len());
        self.out.clear();
        T::encode(buf, &mut self.out);
        let ins = Counts::Equal(parts[own].len()).ranges(n_ranks);
        self.step::<T>(greeting, &parts, &ins, context)?;
        self.reduce_into(&mut buf[parts[own].clone()], &ins, reduction);
        self.share_parts(buf, &parts, context)
    }

    /// Rank 0 gets and reduces everything; the result goes down a tree.
    fn all_reduce_at_root<T: Wire>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        greeting: &[u8],
        context: Context<'_>,
    ) -> Done {
        let n_ranks = self.n_ranks();
        let mut outs = vec![0..0; n_ranks];
        let mut ins = outs.clone();
        self.out.clear();
        if self.own() == 0 {
            ins = Counts::Equal(buf.len()).ranges(n_ranks);
        } else {
            T::encode(buf, &mut self.out);
            outs[0] = 0..buf.len();
        }
        self.step::<T>(greeting, &outs, &ins, context)?;
        if self.own() == 0 {
            self.reduce_into(buf, &ins, reduction);
        }
        self.down_the_tree(buf, 0, &mut Vec::new(), context)
    }

    /// Piece k of the sum goes from rank r to r + 1 in step k + r, and piece k of the result from r to r - 1 in step k + 2P - 2 - r.
    fn all_reduce_chain<T: Wire>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let piece_len = CHAIN_PIECE_BYTES / size_of::<T>();
        let n_pieces = buf.len().div_ceil(piece_len).max(1);
        let (is_first, is_last) = (own == 0, own + 1 == n_ranks);
        let mut greeting = greeting(context.call, &[]);
        let mut sum: Vec<T> = Vec::new();
        for step_idx in 0..n_pieces + 2 * n_ranks - 3 {
            let all = 0..buf.len();
            let piece = |delay: usize, is_there: bool| match step_idx.checked_sub(delay) {
                Some(piece_idx) if is_there => piece_of(&all, piece_idx, piece_len),
                _ => 0..0,
            };
            let up = Flow {
                out: piece(own, !is_last),
                into: piece(own.wrapping_sub(1), !is_first),
            };
            let down = Flow {
                out: piece(2 * n_ranks - 2 - own, !is_first),
                into: piece((2 * n_ranks - 3).saturating_sub(own), !is_last),
            };
            self.out.clear();
            let own_sum = if is_first { &buf[up.out.clone()] } else { &sum };
            T::encode(&own_sum[..up.out.len()], &mut self.out);
            T::encode(&buf[down.out.clone()], &mut self.out);
            self.step_in_chain::<T>(&greeting, &up, &down, context)?;
            greeting.clear();
            sum.resize(up.into.len(), T::default());
            T::decode(&self.inbox, &mut sum);
            T::reduce(reduction, &mut sum, &buf[up.into.clone()]);
            if is_last {
                buf[up.into.clone()].copy_from_slice(&sum);
            }
            let after_sum = &self.inbox[size_of::<T>() * up.into.len()..];
            T::decode(after_sum, &mut buf[down.into]);
        }
        Ok(())
    }

    /// One step with the two neighbours; what goes up comes first in `self.out` and in `self.inbox`.
    fn step_in_chain<T: Wire>(
        &mut self,
        greeting: &[u8],
        up: &Flow,
        down: &Flow,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let mut outs = vec![0..0; n_ranks];
        let mut ins = outs.clone();
        let after =
            |first: &Range<usize>, second: &Range<usize>| first.len()..first.len() + second.len();
        if own + 1 < n_ranks {
            outs[own + 1] = 0..up.out.len();
            ins[own + 1] = after(&up.into, &down.into);
        }
        if own > 0 {
            outs[own - 1] = after(&up.out, &down.out);
            ins[own - 1] = 0..up.into.len();
        }
        self.step::<T>(greeting, &outs, &ins, context)
    }
}

/// What goes through a rank of a chain in one direction in one step: the elements that it sends, and those that it gets.
struct Flow {
    out: Range<usize>,
    into: Range<usize>,
}
