//! How each operation is made of MPI's, once the ranks have agreed on it.

use super::{Context, Done, Rank};
use crate::algorithm::Algorithm;
use crate::error::CommErrorKind;
use crate::mpi::ffi::Wire;
use crate::op::{Call, Reduction};
use crate::parts::part;

/// An all-reduce of `f32` works on pieces of this size, so that the buffers stay small.
const PIECE_BYTES: usize = 4 << 20;

impl Rank {
    /// The buffers of this type, to be given back by `keep`; the first holds a copy of `data`.
    fn buffers<T: Wire>(&mut self, data: &[T]) -> (Vec<T>, Vec<T>) {
        let mut send = std::mem::take(T::of_mut(&mut self.send));
        send.clear();
        send.extend_from_slice(data);
        (send, std::mem::take(T::of_mut(&mut self.recv)))
    }

    fn keep<T: Wire>(&mut self, buffers: (Vec<T>, Vec<T>)) {
        *T::of_mut(&mut self.send) = buffers.0;
        *T::of_mut(&mut self.recv) = buffers.1;
    }

    pub(super) fn all_reduce<T: Wire>(
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
            if context.call.algorithm == Some(Algorithm::Whole) {
                self.all_reduce_whole(piece, reduction, context)?;
            } else {
                self.all_reduce_in_parts(piece, reduction, context)?;
            }
        }
        Ok(())
    }

    /// Every rank gathers and reduces everything.
    fn all_reduce_whole<T: Wire>(
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
    fn all_reduce_in_parts<T: Wire>(
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
    fn scattered<T: Wire>(
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

    pub(super) fn reduce_scatter<T: Wire>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        if send.is_empty() {
            return Ok(());
        }
        let parts = self.scattered(send, recv.len(), counts, context)?;
        reduce_parts(&parts.1, reduction, recv);
        self.keep(parts);
        Ok(())
    }

    pub(super) fn gather<T: Wire>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Option<&[usize]>,
        context: Context<'_>,
    ) -> Done {
        if recv.is_empty() {
            return Ok(());
        }
        let (own, spare) = self.buffers(send);
        let gathered = self.complete(context, |api, group| match counts {
            None => api.all_gather(group, own, spare),
            Some(counts) => api.all_gather_v(group, own, spare, counts),
        })?;
        recv.copy_from_slice(&gathered.1);
        self.keep(gathered);
        Ok(())
    }

    pub(super) fn broadcast<T: Wire>(
        &mut self,
        buf: &mut [T],
        root: u32,
        context: Context<'_>,
    ) -> Done {
        if buf.is_empty() {
            return Ok(());
        }
        let (own, spare) = self.buffers(buf);
        let sent = self.complete(context, |api, group| api.broadcast(group, own, root))?;
        buf.copy_from_slice(&sent.1);
        self.keep((sent.1, spare));
        Ok(())
    }

    pub(super) fn all_to_all<T: Wire>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: (&[usize], &[usize]),
        context: Context<'_>,
    ) -> Done {
        self.check_counts(counts, context)?;
        let buffers = self.buffers(send);
        let parts = self.complete(context, |api, group| {
            api.all_to_all_v(group, buffers, counts.0, counts.1)
        })?;
        recv.copy_from_slice(&parts.1);
        self.keep(parts);
        Ok(())
    }

    /// All ranks see all counts, so that all of them find the same first part whose ends differ.
    fn check_counts(&mut self, counts: (&[usize], &[usize]), context: Context<'_>) -> Done {
        let own = counts.0.iter().chain(counts.1);
        let own: Vec<u64> = own.map(|&count| count as u64).collect();
        let (send, recv) = self.buffers(&own);
        let gathered = self.complete(context, |api, group| api.all_gather(group, send, recv))?;
        let n_ranks = self.n_ranks();
        let sent = |from: usize, to: usize| gathered.1[from * 2 * n_ranks + to] as usize;
        let expected = |to: usize, from: usize| gathered.1[(to * 2 + 1) * n_ranks + from] as usize;
        for from in 0..n_ranks {
            for to in 0..n_ranks {
                if sent(from, to) != expected(to, from) {
                    let sender = (from, sent(from, to));
                    return Err(self.part_mismatch(sender, (to, expected(to, from)), context)?);
                }
            }
        }
        self.keep(gathered);
        Ok(())
    }

    /// Each side is (rank, the length it gave for the part).
    fn part_mismatch(
        &self,
        from: (usize, usize),
        to: (usize, usize),
        context: Context<'_>,
    ) -> Result<CommErrorKind, CommErrorKind> {
        let side = |(rank, len): (usize, usize), peer: usize| {
            Ok(Call {
                len,
                peer: Some(peer as u32),
                ..self.call_of(rank)?
            })
        };
        let (sender, receiver) = (side(from, to.0)?, side(to, from.0)?);
        let (mine, theirs) = if to.0 == self.own() {
            (receiver, sender)
        } else {
            (sender, receiver)
        };
        Ok(CommErrorKind::Mismatch {
            seq: context.call.seq,
            mine,
            theirs,
        })
    }
}

/// Combines parts that lie one after the other, in rank order, into `out`.
fn reduce_parts<T: Wire>(parts: &[T], reduction: Reduction, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let (first, others) = parts.split_at(out.len());
    out.copy_from_slice(first);
    for part in others.chunks_exact(out.len()) {
        T::reduce(reduction, out, part);
    }
}
