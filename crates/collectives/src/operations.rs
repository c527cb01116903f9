//! Shared parts of the back ends: the typed dispatch, the parts of buffers, the
//! comparison of counts.

use crate::element::Element;
use crate::error::CommErrorKind;
use crate::op::{Call, Op, Reduction, typed};
use crate::timeout::Timeout;
use std::ops::Range;

pub(crate) type Done = Result<(), CommErrorKind>;

/// Context of all steps of one operation.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) call: &'a Call,
    pub(crate) timeout: Timeout,
}

impl Context<'_> {
    /// Error of this operation where `missing` did not arrive in time.
    pub(crate) fn timeout(self, missing: Vec<u32>) -> CommErrorKind {
        CommErrorKind::Timeout {
            op: self.call.op,
            seq: self.call.seq,
            after: self.timeout.duration(),
            missing,
        }
    }
}

/// The length of each rank's part of a buffer.
#[derive(Clone, Copy)]
pub(crate) enum Counts<'a> {
    Equal(usize),
    Each(&'a [usize]),
}

impl Counts<'_> {
    pub(crate) fn of(self, rank: usize) -> usize {
        match self {
            Counts::Equal(count) => count,
            Counts::Each(counts) => counts[rank],
        }
    }

    /// Range of the part of `rank` when the parts are put one after the other.
    pub(crate) fn range(self, rank: usize) -> Range<usize> {
        let start = match self {
            Counts::Equal(count) => count * rank,
            Counts::Each(counts) => counts[..rank].iter().sum(),
        };
        start..start + self.of(rank)
    }

    /// Ranges of the parts of all ranks.
    pub(crate) fn ranges(self, n_ranks: usize) -> Vec<Range<usize>> {
        let mut start = 0;
        let range = |rank| {
            let range = start..start + self.of(rank);
            start = range.end;
            range
        };
        (0..n_ranks).map(range).collect()
    }
}

/// The counts of an all-to-all on one rank.
#[derive(Clone, Copy)]
pub(crate) struct ExchangeCounts<'a> {
    pub(crate) send: &'a [usize],
    pub(crate) recv: &'a [usize],
}

/// The operations of one rank on typed buffers whose arguments fit.
pub(crate) trait Operations {
    fn all_reduce<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done;

    fn reduce_scatter<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done;

    fn all_gather<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        context: Context<'_>,
    ) -> Done;

    fn broadcast<T: Element>(&mut self, buf: &mut [T], root: u32, context: Context<'_>) -> Done;

    fn all_to_all<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: ExchangeCounts<'_>,
        context: Context<'_>,
    ) -> Done;

    fn barrier(&mut self, context: Context<'_>) -> Done;
}

/// Runs `op` for the type of its buffers.
pub(crate) fn dispatch(rank: &mut impl Operations, op: Op<'_>, context: Context<'_>) -> Done {
    match op {
        Op::AllReduce { buf, reduction } => {
            typed!(buf, |b| rank.all_reduce(b, reduction, context))
        }
        Op::ReduceScatterV {
            send,
            recv,
            counts,
            reduction,
        } => {
            let counts = Counts::Each(counts);
            typed!(send, recv, |s, r| rank
                .reduce_scatter(s, r, counts, reduction, context))
        }
        Op::AllGather { send, recv } => {
            let counts = Counts::Equal(send.len());
            typed!(send, recv, |s, r| rank.all_gather(s, r, counts, context))
        }
        Op::AllGatherV { send, recv, counts } => {
            let counts = Counts::Each(counts);
            typed!(send, recv, |s, r| rank.all_gather(s, r, counts, context))
        }
        Op::Broadcast { buf, root } => typed!(buf, |b| rank.broadcast(b, root, context)),
        Op::AllToAllV {
            send,
            send_counts,
            recv,
            recv_counts,
        } => {
            let counts = ExchangeCounts {
                send: send_counts,
                recv: recv_counts,
            };
            typed!(send, recv, |s, r| rank.all_to_all(s, r, counts, context))
        }
        Op::Barrier => rank.barrier(context),
    }
}

/// Counts of an all-to-all on all ranks.
pub(crate) trait AllCounts {
    /// Elements that `from` sends to `to`.
    fn sent(&self, from: usize, to: usize) -> usize;

    /// Elements that `to` expects of `from`.
    fn expected(&self, to: usize, from: usize) -> usize;

    fn call_of(&self, rank: usize) -> Result<Call, CommErrorKind>;
}

/// Compares the counts of every rank with those of every other, so that all ranks come to the same
/// verdict.
pub(crate) fn compare_counts(all: &impl AllCounts, n_ranks: usize, call: &Call) -> Done {
    for from in 0..n_ranks {
        for to in (0..n_ranks).filter(|&to| to != from) {
            let (sent, expected) = (all.sent(from, to), all.expected(to, from));
            if sent == expected {
                continue;
            }
            let side = |rank: usize, peer: usize, len: usize| {
                Ok(Call {
                    len,
                    peer: Some(peer as u32),
                    ..all.call_of(rank)?
                })
            };
            let (sender, receiver) = (side(from, to, sent)?, side(to, from, expected)?);
            let (mine, theirs) = match to == call.rank as usize {
                true => (receiver, sender),
                false => (sender, receiver),
            };
            return Err(CommErrorKind::Mismatch {
                seq: call.seq,
                mine,
                theirs,
            });
        }
    }
    Ok(())
}
