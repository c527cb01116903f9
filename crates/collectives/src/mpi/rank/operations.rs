//! How each operation is made of MPI's, once the ranks have agreed on it.

use super::Rank;
use crate::algorithm::Algorithm;
use crate::element::Element;
use crate::error::CommErrorKind;
use crate::op::{Call, Reduction};
use crate::operations::{
    AllCounts, Context, Counts, Done, ExchangeCounts, Operations, compare_counts,
};
use crate::parts::part;

/// An all-reduce of `f32` works on pieces of this size, so that the buffers stay small.
const PIECE_BYTES: usize = 4 << 20;

impl Rank {
    /// The buffers of this type, to be given back by `keep`; the first holds a copy of `data`.
    fn buffers<T: Element>(&mut self, data: &[T]) -> (Vec<T>, Vec<T>) {
        let mut send = std::mem::take(T::of_mut(&mut self.send));
        send.clear();
        send.extend_from_slice(data);
        (send, std::mem::take(T::of_mut(&mut self.recv)))
    }

    fn keep<T: Element>(&mut self, buffers: (Vec<T>, Vec<T>)) {
        *T::of_mut(&mut self.send) = buffers.0;
        *T::of_mut(&mut self.recv) = buffers.1;
    }

    /// Every rank gathers and reduces everything.
    fn all_reduce_direct<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let (send, recv) = self.buffers(buf);
        let gathered = self.complete(context, |api, group| api.all_gather(group, send, recv))?;
        reduce_parts(&gathered.1, reduction, buf);
        self.keep(gathered);
        Ok(())
    }

    /// Every rank reduces one part, then all gather the parts.
    fn reduce_scatter_all_gather<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, len) = (self.n_ranks(), buf.len());
        let counts: Vec<usize> = (0..n_ranks)
            .map(|rank| part(len, rank, n_ranks).len())
            .collect();
        let own = part(len, self.own(), n_ranks);
        let parts = self.scattered(buf, own.len(), &counts, context)?;
        reduce_parts(&parts.1, reduction, &mut buf[own.clone()]);
        self.keep(parts);
        let (send, recv) = self.buffers(&buf[own]);
        let gathered = self.complete(context, |api, group| {
            api.all_gather_v(group, send, recv, &counts)
        })?;
        buf.copy_from_slice(&gathered.1);
        self.keep(gathered);
        Ok(())
    }

    /// Every rank's part for this rank, in rank order, as the second buffer.
    fn scattered<T: Element>(
        &mut self,
        send: &[T],
        own_len: usize,
        counts: &[usize],
        context: Context<'_>,
    ) -> Result<(Vec<T>, Vec<T>), CommErrorKind> {
        let buffers = self.buffers(send);
        let own_counts = vec![own_len; self.n_ranks()];
        self.complete(context, |api, group| {
            api.all_to_all_v(group, buffers, counts, &own_counts)
        })
    }
}

impl Operations for Rank {
    fn all_reduce<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        if buf.is_empty() {
            return Ok(());
        }
        if T::NATIVE {
            let (own, spare) = self.buffers(buf);
            let reduced =
                self.complete(context, |api, group| api.all_reduce(group, own, reduction))?;
            buf.copy_from_slice(&reduced.1);
            self.keep((reduced.1, spare));
            return Ok(());
        }
        for piece in buf.chunks_mut(PIECE_BYTES / size_of::<T>()) {
            if context.call.algorithm == Some(Algorithm::Direct) {
                self.all_reduce_direct(piece, reduction, context)?;
            } else {
                self.reduce_scatter_all_gather(piece, reduction, context)?;
            }
        }
        Ok(())
    }

    fn reduce_scatter<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        if send.is_empty() {
            return Ok(());
        }
        let counts: Vec<usize> = (0..self.n_ranks()).map(|rank| counts.of(rank)).collect();
        let parts = self.scattered(send, recv.len(), &counts, context)?;
        reduce_parts(&parts.1, reduction, recv);
        self.keep(parts);
        Ok(())
    }

    fn all_gather<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        context: Context<'_>,
    ) -> Done {
        if recv.is_empty() {
            return Ok(());
        }
        let (own, spare) = self.buffers(send);
        let gathered = self.complete(context, |api, group| match counts {
            Counts::Equal(_) => api.all_gather(group, own, spare),
            Counts::Each(counts) => api.all_gather_v(group, own, spare, counts),
        })?;
        recv.copy_from_slice(&gathered.1);
        self.keep(gathered);
        Ok(())
    }

    fn broadcast<T: Element>(&mut self, buf: &mut [T], root: u32, context: Context<'_>) -> Done {
        if buf.is_empty() {
            return Ok(());
        }
        let (own, spare) = self.buffers(buf);
        let sent = self.complete(context, |api, group| api.broadcast(group, own, root))?;
        buf.copy_from_slice(&sent.1);
        self.keep((sent.1, spare));
        Ok(())
    }

    fn all_to_all<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: ExchangeCounts<'_>,
        context: Context<'_>,
    ) -> Done {
        self.check_counts(counts, context)?;
        let buffers = self.buffers(send);
        let parts = self.complete(context, |api, group| {
            api.all_to_all_v(group, buffers, counts.send, counts.recv)
        })?;
        recv.copy_from_slice(&parts.1);
        self.keep(parts);
        Ok(())
    }

    /// The comparison of the calls is one.
    fn barrier(&mut self, _context: Context<'_>) -> Done {
        Ok(())
    }
}

impl Rank {
    /// All ranks see all counts, so that all of them find the same first part whose ends differ.
    fn check_counts(&mut self, counts: ExchangeCounts<'_>, context: Context<'_>) -> Done {
        let own = counts.send.iter().chain(counts.recv);
        let own: Vec<u64> = own.map(|&count| count as u64).collect();
        let (send, recv) = self.buffers(&own);
        let gathered = self.complete(context, |api, group| api.all_gather(group, send, recv))?;
        let all = GatheredCounts {
            rank: self,
            counts: &gathered.1,
        };
        compare_counts(&all, self.n_ranks(), context.call)?;
        self.keep(gathered);
        Ok(())
    }
}

/// The counts of all ranks, and the calls in `rank`.
struct GatheredCounts<'a> {
    rank: &'a Rank,
    counts: &'a [u64],
}

impl AllCounts for GatheredCounts<'_> {
    fn sent(&self, from: usize, to: usize) -> usize {
        self.counts[from * 2 * self.rank.n_ranks() + to] as usize
    }

    fn expected(&self, to: usize, from: usize) -> usize {
        self.counts[(to * 2 + 1) * self.rank.n_ranks() + from] as usize
    }

    fn call_of(&self, rank: usize) -> Result<Call, CommErrorKind> {
        self.rank.call_of(rank)
    }
}

/// Combines parts that lie one after the other, in rank order, into `out`.
fn reduce_parts<T: Element>(parts: &[T], reduction: Reduction, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let (first, others) = parts.split_at(out.len());
    out.copy_from_slice(first);
    for part in others.chunks_exact(out.len()) {
        T::reduce(reduction, out, part);
    }
}
