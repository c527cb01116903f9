//! The check of an operation's arguments on one rank, and the header that the ranks compare.

use crate::op::{Call, DataType, Op, OpKind, Slice, SliceMut};
use xxhash_rust::xxh3::Xxh3Default;

impl Op<'_> {
    /// The name of this operation.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::AllReduce { .. } => OpKind::AllReduce,
            Op::AllGather { .. } => OpKind::AllGather,
            Op::AllGatherV { .. } => OpKind::AllGatherV,
            Op::ReduceScatterV { .. } => OpKind::ReduceScatterV,
            Op::Broadcast { .. } => OpKind::Broadcast,
            Op::AllToAllV { .. } => OpKind::AllToAllV,
            Op::Barrier => OpKind::Barrier,
        }
    }

    /// The header of this operation, for a rank of a world of `size`. It says nothing about whether
    /// the lengths fit.
    pub(crate) fn call(&self, rank: u32, seq: u64) -> Call {
        let blank = Call::new(rank, seq, self.kind());
        let with = |data_type: DataType, len: usize| Call {
            data_type: Some(data_type),
            len,
            ..blank
        };
        match self {
            Op::AllReduce { buf, reduction } => Call {
                reduction: Some(*reduction),
                ..with(buf.data_type(), buf.len())
            },
            Op::AllGather { send, .. } => with(send.data_type(), send.len()),
            Op::AllGatherV { recv, counts, .. } => Call {
                counts_digest: digest(counts),
                ..with(recv.data_type(), recv.len())
            },
            Op::ReduceScatterV {
                send,
                counts,
                reduction,
                ..
            } => Call {
                reduction: Some(*reduction),
                counts_digest: digest(counts),
                ..with(send.data_type(), send.len())
            },
            Op::Broadcast { buf, root } => Call {
                root: Some(*root),
                ..with(buf.data_type(), buf.len())
            },
            Op::AllToAllV { send, .. } => with(send.data_type(), send.len()),
            Op::Barrier => blank,
        }
    }

    /// Says what does not fit in this rank's arguments.
    pub(crate) fn check(&self, rank: u32, size: u32) -> Result<(), String> {
        let n_ranks = size as usize;
        match self {
            Op::AllReduce { .. } | Op::Barrier => Ok(()),
            Op::AllGather { send, recv } => {
                same_type(send, recv)?;
                let wanted = times(send.len(), n_ranks)?;
                expect_len("recv", recv.len(), wanted, "send.len() * ranks")
            }
            Op::AllGatherV { send, recv, counts } => {
                same_type(send, recv)?;
                let (own, total) = own_and_total(counts, "counts", rank, n_ranks)?;
                expect_len("send", send.len(), own, "counts[rank]")?;
                expect_len("recv", recv.len(), total, "the sum of counts")
            }
            Op::ReduceScatterV {
                send, recv, counts, ..
            } => {
                same_type(send, recv)?;
                let (own, total) = own_and_total(counts, "counts", rank, n_ranks)?;
                expect_len("send", send.len(), total, "the sum of counts")?;
                expect_len("recv", recv.len(), own, "counts[rank]")
            }
            Op::Broadcast { root, .. } if *root >= size => {
                Err(format!("root is {root}, the ranks are 0..{size}"))
            }
            Op::Broadcast { .. } => Ok(()),
            Op::AllToAllV { .. } => self.check_exchange(rank, n_ranks),
        }
    }

    /// The check of an all-to-all.
    fn check_exchange(&self, rank: u32, n_ranks: usize) -> Result<(), String> {
        let Op::AllToAllV {
            send,
            send_counts,
            recv,
            recv_counts,
        } = self
        else {
            return Ok(());
        };
        same_type(send, recv)?;
        let (own_sent, sent) = own_and_total(send_counts, "send_counts", rank, n_ranks)?;
        let (own, received) = own_and_total(recv_counts, "recv_counts", rank, n_ranks)?;
        expect_len("send", send.len(), sent, "the sum of send_counts")?;
        expect_len("recv", recv.len(), received, "the sum of recv_counts")?;
        expect_len("the part from itself", own, own_sent, "send_counts[rank]")
    }
}

fn same_type(send: &Slice<'_>, recv: &SliceMut<'_>) -> Result<(), String> {
    let (sent, received) = (send.data_type(), recv.data_type());
    if sent == received {
        return Ok(());
    }
    Err(format!(
        "send holds {sent}, recv holds {received}: both must be of one type"
    ))
}

fn times(len: usize, n_ranks: usize) -> Result<usize, String> {
    len.checked_mul(n_ranks).ok_or_else(|| {
        format!("{len} elements on each of {n_ranks} ranks overflow the address space")
    })
}

fn expect_len(name: &str, len: usize, wanted: usize, rule: &str) -> Result<(), String> {
    if len == wanted {
        return Ok(());
    }
    Err(format!(
        "{name} has {len} elements, expected {wanted} elements ({rule})"
    ))
}

/// The rank's own count and the sum of all.
fn own_and_total(
    counts: &[usize],
    name: &str,
    rank: u32,
    n_ranks: usize,
) -> Result<(usize, usize), String> {
    if counts.len() != n_ranks {
        return Err(format!(
            "{name} has {} entries, expected one for each of {n_ranks} ranks",
            counts.len()
        ));
    }
    let total = counts
        .iter()
        .try_fold(0usize, |sum, &count| sum.checked_add(count))
        .ok_or_else(|| format!("the sum of {name} overflows the address space"))?;
    Ok((counts[rank as usize], total))
}

/// Hash of the counts: ranks that pass different counts differ in their headers. A collision costs
/// the clear message only, back ends compare the length of every part before they copy it.
fn digest(counts: &[usize]) -> u64 {
    let mut hash = Xxh3Default::new();
    for &count in counts {
        hash.update(&(count as u64).to_le_bytes());
    }
    hash.digest()
}
