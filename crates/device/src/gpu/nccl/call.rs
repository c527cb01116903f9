//! What a rank asks for, as errors name it and as ranks compare it.

use std::fmt;

/// The operations, by the numbers that ranks compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Join,
    Close,
    AllGather,
    AllReduce,
    ReduceScatter,
    ExactSum,
    Transfer,
}

impl Op {
    const ALL: [Op; 7] = [
        Op::Join,
        Op::Close,
        Op::AllGather,
        Op::AllReduce,
        Op::ReduceScatter,
        Op::ExactSum,
        Op::Transfer,
    ];

    fn name(self) -> &'static str {
        match self {
            Op::Join => "join",
            Op::Close => "close",
            Op::AllGather => "all_gather",
            Op::AllReduce => "all_reduce",
            Op::ReduceScatter => "reduce_scatter",
            Op::ExactSum => "exact_sum",
            Op::Transfer => "transfer",
        }
    }
}

/// One operation of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Its place in this rank's order, from 0.
    pub(super) seq: u64,
    pub(super) op: Op,
    /// Elements of the operand that all ranks have as many of, or of all ranks' operands together; bytes that go from rank to rank.
    pub(super) len: usize,
    /// A digest of the ranks' counts; 0 without any.
    pub(super) counts_digest: u64,
}

impl Call {
    /// How many words ranks compare.
    pub(super) const WORDS: usize = 4;

    pub(super) fn new(op: Op, len: usize) -> Self {
        Self {
            seq: 0,
            op,
            len,
            counts_digest: 0,
        }
    }

    pub(super) fn join(size: u32) -> Self {
        Self::new(Op::Join, size as usize)
    }

    pub(super) fn close(seq: u64) -> Self {
        Self {
            seq,
            ..Self::new(Op::Close, 0)
        }
    }

    pub(super) fn with_counts(self, counts: &[usize]) -> Self {
        // FNV-1a over the words; never 0, which means none.
        let digest = counts.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &n| {
            (hash ^ n as u64).wrapping_mul(0x0100_0000_01b3)
        });
        Self {
            counts_digest: digest | 1,
            ..self
        }
    }

    pub(super) fn to_words(self) -> [u64; Self::WORDS] {
        [
            self.seq,
            self.op as u64,
            self.len as u64,
            self.counts_digest,
        ]
    }

    /// What another rank's words say; nothing for words that no rank makes.
    pub(super) fn from_words(words: &[u64]) -> Option<Self> {
        let &[seq, op, len, counts_digest] = words else {
            return None;
        };
        Some(Self {
            seq,
            op: *Op::ALL.get(usize::try_from(op).ok()?)?,
            len: usize::try_from(len).ok()?,
            counts_digest,
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Join => return write!(f, "joining a group of {} ranks", self.len),
            Op::Close => return write!(f, "#{} closing the group", self.seq),
            Op::Transfer => write!(f, "#{} transfer of {} bytes", self.seq, self.len)?,
            _ => write!(f, "#{} {} of {} f32", self.seq, self.op.name(), self.len)?,
        }
        if self.counts_digest != 0 {
            write!(f, ", counts digest {:08x}", self.counts_digest as u32)?;
        }
        Ok(())
    }
}
