//! The operations, the typed buffers that they take, and the short description of a call that ranks
//! compare.

use crate::algorithm::Algorithm;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A borrowed buffer to send from, with its element type.
#[derive(Clone, Copy, Debug)]
pub enum Slice<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 32-bit unsigned integers.
    U32(&'a [u32]),
    /// 64-bit unsigned integers.
    U64(&'a [u64]),
    /// 64-bit signed integers.
    I64(&'a [i64]),
    /// Bytes.
    U8(&'a [u8]),
}

/// A borrowed buffer to receive into, with its element type.
#[derive(Debug)]
pub enum SliceMut<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// 32-bit unsigned integers.
    U32(&'a mut [u32]),
    /// 64-bit unsigned integers.
    U64(&'a mut [u64]),
    /// 64-bit signed integers.
    I64(&'a mut [i64]),
    /// Bytes.
    U8(&'a mut [u8]),
}

/// Binds the typed contents of a buffer, or of a pair of one type, and runs the same code for each
/// type.
macro_rules! typed {
    ($buf:expr, |$b:ident| $body:expr) => {
        match $buf {
            $crate::op::SliceMut::F32($b) => $body,
            $crate::op::SliceMut::U32($b) => $body,
            $crate::op::SliceMut::U64($b) => $body,
            $crate::op::SliceMut::I64($b) => $body,
            $crate::op::SliceMut::U8($b) => $body,
        }
    };
    ($send:expr, $recv:expr, |$s:ident, $r:ident| $body:expr) => {
        match ($send, $recv) {
            ($crate::op::Slice::F32($s), $crate::op::SliceMut::F32($r)) => $body,
            ($crate::op::Slice::U32($s), $crate::op::SliceMut::U32($r)) => $body,
            ($crate::op::Slice::U64($s), $crate::op::SliceMut::U64($r)) => $body,
            ($crate::op::Slice::I64($s), $crate::op::SliceMut::I64($r)) => $body,
            ($crate::op::Slice::U8($s), $crate::op::SliceMut::U8($r)) => $body,
            _ => unreachable!("Comm compares the element types before it calls a back end"),
        }
    };
}
pub(crate) use typed;

macro_rules! slices_from {
    ($($variant:ident $element:ty),*) => {$(
        impl<'a> From<&'a [$element]> for Slice<'a> {
            fn from(data: &'a [$element]) -> Slice<'a> { Slice::$variant(data) }
        }
        impl<'a> From<&'a Vec<$element>> for Slice<'a> {
            fn from(data: &'a Vec<$element>) -> Slice<'a> { Slice::$variant(data) }
        }
        impl<'a, const N: usize> From<&'a [$element; N]> for Slice<'a> {
            fn from(data: &'a [$element; N]) -> Slice<'a> { Slice::$variant(data) }
        }
        impl<'a> From<&'a mut [$element]> for SliceMut<'a> {
            fn from(data: &'a mut [$element]) -> SliceMut<'a> { SliceMut::$variant(data) }
        }
        impl<'a> From<&'a mut Vec<$element>> for SliceMut<'a> {
            fn from(data: &'a mut Vec<$element>) -> SliceMut<'a> { SliceMut::$variant(data) }
        }
        impl<'a, const N: usize> From<&'a mut [$element; N]> for SliceMut<'a> {
            fn from(data: &'a mut [$element; N]) -> SliceMut<'a> { SliceMut::$variant(data) }
        }
    )*};
}
slices_from!(F32 f32, U32 u32, U64 u64, I64 i64, U8 u8);

macro_rules! len_and_type {
    ($slice:ident) => {
        impl $slice<'_> {
            /// The number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $slice::F32(data) => data.len(),
                    $slice::U32(data) => data.len(),
                    $slice::U64(data) => data.len(),
                    $slice::I64(data) => data.len(),
                    $slice::U8(data) => data.len(),
                }
            }

            /// Whether there is no element.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The element type.
            pub fn data_type(&self) -> DataType {
                match self {
                    $slice::F32(_) => DataType::F32,
                    $slice::U32(_) => DataType::U32,
                    $slice::U64(_) => DataType::U64,
                    $slice::I64(_) => DataType::I64,
                    $slice::U8(_) => DataType::U8,
                }
            }
        }
    };
}
len_and_type!(Slice);
len_and_type!(SliceMut);

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataType {
    /// 32-bit floats.
    F32,
    /// 32-bit unsigned integers.
    U32,
    /// 64-bit unsigned integers.
    U64,
    /// 64-bit signed integers.
    I64,
    /// Bytes.
    U8,
}

impl DataType {
    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            DataType::F32 | DataType::U32 => 4,
            DataType::U64 | DataType::I64 => 8,
            DataType::U8 => 1,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataType::F32 => "f32",
            DataType::U32 => "u32",
            DataType::U64 => "u64",
            DataType::I64 => "i64",
            DataType::U8 => "u8",
        })
    }
}

/// How the elements of the ranks are combined.
///
/// # Determinism
/// Every reduction has the same result on all ranks and in every repetition with the same number of
/// ranks.
/// - `Sum` of `f32` adds in rank order, `((x0 + x1) + x2) + ...`; other numbers of ranks round
///   differently. Where the bits must not depend on the number of ranks, use
///   [`Comm::exact_sum`](crate::Comm::exact_sum).
/// - `Sum` of integers wraps around on overflow, so its bits do not depend on any order.
/// - `Max` and `Min` of `f32`: if one element is NaN, the result is the canonical quiet NaN; -0.0
///   is less than +0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
        })
    }
}

/// One collective operation with its buffers; P is the number of ranks, r the own rank.
#[derive(Debug)]
pub enum Op<'a> {
    /// Every rank gets the elementwise reduction of all ranks' buffers, in place.
    AllReduce {
        /// n elements on every rank.
        buf: SliceMut<'a>,
        /// How elements are combined.
        reduction: Reduction,
    },
    /// Every rank gets all ranks' `send`, in rank order.
    AllGather {
        /// n elements on every rank.
        send: Slice<'a>,
        /// n * P elements.
        recv: SliceMut<'a>,
    },
    /// As `AllGather` with a length of its own for each rank.
    AllGatherV {
        /// counts\[r\] elements.
        send: Slice<'a>,
        /// sum(counts) elements.
        recv: SliceMut<'a>,
        /// One length per rank, the same on all ranks.
        counts: &'a [usize],
    },
    /// Rank r gets part r of the elementwise reduction of all ranks' `send`.
    ReduceScatterV {
        /// sum(counts) elements on every rank.
        send: Slice<'a>,
        /// counts\[r\] elements.
        recv: SliceMut<'a>,
        /// One length per rank, the same on all ranks.
        counts: &'a [usize],
        /// How elements are combined.
        reduction: Reduction,
    },
    /// Every rank gets the buffer of rank `root`.
    Broadcast {
        /// n elements on every rank.
        buf: SliceMut<'a>,
        /// The rank that sends.
        root: u32,
    },
    /// Rank r sends part i of `send` to rank i and gets part r of every rank, in rank order.
    AllToAllV {
        /// sum(send_counts) elements.
        send: Slice<'a>,
        /// How many elements go to each rank.
        send_counts: &'a [usize],
        /// sum(recv_counts) elements.
        recv: SliceMut<'a>,
        /// How many elements come from each rank; equals that rank's `send_counts[r]`.
        recv_counts: &'a [usize],
    },
    /// Returns when all ranks have arrived.
    Barrier,
}

impl Op<'_> {
    /// What [`Comm::received_bytes`](crate::Comm::received_bytes) counts for rank `rank` of
    /// `n_ranks`.
    pub(crate) fn received_bytes(&self, rank: u32, n_ranks: u32) -> u64 {
        let bytes = |buffer: &SliceMut<'_>| (buffer.len() * buffer.data_type().size()) as u64;
        let (rank, n_ranks) = (rank as usize, u64::from(n_ranks));
        match self {
            Self::AllReduce { buf, .. } => 2 * bytes(buf) * (n_ranks - 1) / n_ranks,
            Self::AllGather { recv, .. } => bytes(recv) * (n_ranks - 1) / n_ranks,
            Self::AllGatherV { recv, counts, .. } => {
                bytes(recv) - (counts[rank] * recv.data_type().size()) as u64
            }
            Self::ReduceScatterV { recv, .. } => bytes(recv) * (n_ranks - 1),
            Self::Broadcast { buf, root } => match *root as usize == rank {
                true => 0,
                false => bytes(buf),
            },
            Self::AllToAllV {
                recv, recv_counts, ..
            } => bytes(recv) - (recv_counts[rank] * recv.data_type().size()) as u64,
            Self::Barrier => 0,
        }
    }
}

/// The name of an operation, without its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OpKind {
    /// [`Op::AllReduce`].
    AllReduce,
    /// [`Op::AllGather`].
    AllGather,
    /// [`Op::AllGatherV`].
    AllGatherV,
    /// [`Op::ReduceScatterV`].
    ReduceScatterV,
    /// [`Op::Broadcast`].
    Broadcast,
    /// [`Op::AllToAllV`].
    AllToAllV,
    /// [`Op::Barrier`].
    Barrier,
    /// One of the two all-reduces inside [`Comm::exact_sum`](crate::Comm::exact_sum): exponents as
    /// `u8`, then sums as `i64`.
    ExactSum,
    /// [`Comm::exchange`](crate::Comm::exchange).
    Exchange,
    /// [`tcp::join`](crate::tcp::join), which makes a world.
    Join,
    /// [`Mailbox::send`](crate::messages::Mailbox::send), which is no operation of a communicator.
    Send,
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpKind::AllReduce => "all_reduce",
            OpKind::AllGather => "all_gather",
            OpKind::AllGatherV => "all_gather_v",
            OpKind::ReduceScatterV => "reduce_scatter_v",
            OpKind::Broadcast => "broadcast",
            OpKind::AllToAllV => "all_to_all_v",
            OpKind::Barrier => "barrier",
            OpKind::ExactSum => "exact_sum",
            OpKind::Exchange => "exchange",
            OpKind::Join => "join",
            OpKind::Send => "send",
        })
    }
}

/// What one rank asked for: the header that ranks compare before any data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Call {
    /// The rank that called.
    pub rank: u32,
    /// The sequence number of the operation on that rank, from 0.
    pub seq: u64,
    /// The operation.
    pub op: OpKind,
    /// The element type; `None` where no data moves.
    pub data_type: Option<DataType>,
    /// The length in elements: n of the operation's doc, the total for the operations with counts.
    /// In a mismatch of `AllToAllV` the length of the part in question.
    pub len: usize,
    /// The sending rank of a broadcast.
    pub root: Option<u32>,
    /// How elements are combined, where they are.
    pub reduction: Option<Reduction>,
    /// How it is done, where the back end has a choice.
    pub algorithm: Option<Algorithm>,
    /// In a mismatch of `AllToAllV`, the rank at the other end of the part in question.
    pub peer: Option<u32>,
    /// A digest of the counts of `AllGatherV` and `ReduceScatterV`; 0 elsewhere.
    pub counts_digest: u64,
}

/// The words of [`Call::header`].
pub(crate) const HEADER_WORDS: usize = 4;

impl Call {
    /// The bytes on each rank, where all have the same.
    pub(crate) fn n_bytes(&self) -> usize {
        self.len * self.data_type.map_or(0, DataType::size)
    }

    pub(crate) fn new(rank: u32, seq: u64, op: OpKind) -> Call {
        Call {
            rank,
            seq,
            op,
            data_type: None,
            len: 0,
            root: None,
            reduction: None,
            algorithm: None,
            peer: None,
            counts_digest: 0,
        }
    }

    /// Whether two ranks ask for the same thing. The lengths of `AllToAllV` are compared part by
    /// part elsewhere.
    pub(crate) fn agrees_with(&self, other: &Call) -> bool {
        let free_len = self.op == OpKind::AllToAllV;
        let theirs = Call {
            rank: self.rank,
            len: if free_len { self.len } else { other.len },
            ..*other
        };
        *self == theirs
    }

    /// What is compared with other ranks' calls, in words: two calls of one sequence of operations
    /// have equal headers if and only if they agree.
    pub(crate) fn header(&self) -> [u64; HEADER_WORDS] {
        let data_type = self.data_type.map_or(0, |data_type| data_type as u64 + 1);
        let reduction = self.reduction.map_or(0, |reduction| reduction as u64 + 1);
        let root = self.root.map_or(0, |root| u64::from(root) + 1);
        let algorithm = self.algorithm.map_or(0, |algorithm| algorithm as u64 + 1);
        let len = match self.op {
            OpKind::AllToAllV => 0,
            _ => self.len as u64,
        };
        [
            self.op as u64 | data_type << 8 | reduction << 12 | algorithm << 16 | root << 24,
            self.seq,
            len,
            self.counts_digest,
        ]
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}", self.seq, self.op)?;
        if let Some(data_type) = self.data_type {
            write!(f, " of {} {}", self.len, data_type)?;
        }
        if let Some(reduction) = self.reduction {
            write!(f, ", {reduction}")?;
        }
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        if let Some(algorithm) = self.algorithm {
            write!(f, ", by {algorithm}")?;
        }
        if let Some(peer) = self.peer {
            write!(f, ", with rank {peer}")?;
        }
        if self.counts_digest != 0 {
            write!(f, ", counts digest {:08x}", self.counts_digest as u32)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, Call, DataType, OpKind, Reduction};

    /// Changes of one field each.
    const EDITS: [fn(&mut Call); 18] = [
        |_| (),
        |call| call.rank = 1,
        |call| call.seq = 8,
        |call| call.op = OpKind::Barrier,
        |call| call.op = OpKind::Exchange,
        |call| call.data_type = Some(DataType::U32),
        |call| call.data_type = Some(DataType::U8),
        |call| call.data_type = None,
        |call| call.len = 4,
        |call| call.len = 3 << 40,
        |call| call.root = Some(1),
        |call| call.root = Some(u32::MAX),
        |call| call.root = None,
        |call| call.reduction = Some(Reduction::Min),
        |call| call.reduction = None,
        |call| call.counts_digest = 1 << 63,
        |call| call.algorithm = Some(Algorithm::Direct),
        |call| call.algorithm = Some(Algorithm::ReduceScatterAllGather),
    ];

    fn calls(op: OpKind) -> Vec<Call> {
        let first = Call {
            data_type: Some(DataType::F32),
            len: 3,
            root: Some(0),
            reduction: Some(Reduction::Sum),
            ..Call::new(0, 7, op)
        };
        let edited = |edit: &fn(&mut Call)| {
            let mut call = first;
            edit(&mut call);
            call
        };
        EDITS.iter().map(edited).collect()
    }

    #[test]
    fn headers_are_equal_where_calls_agree() {
        for op in [OpKind::AllReduce, OpKind::AllToAllV] {
            let calls = calls(op);
            for (a, b) in calls.iter().flat_map(|a| calls.iter().map(move |b| (a, b))) {
                assert_eq!(a.header() == b.header(), a.agrees_with(b), "{a:?} {b:?}");
            }
        }
    }
}
