//! What a rank asks for, as errors name it and as ranks compare it.

use std::fmt;

/// The operations, by the numbers that ranks compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Join,
    Close,
    AllGather,
    AllReduce,
    AllReduceMax,
    ReduceScatter,
    Broadcast,
    ExactSum,
}

impl Op {
    const ALL: [Op; 8] = [
        Op::Join,
        Op::Close,
        Op::AllGather,
        Op::AllReduce,
        Op::AllReduceMax,
        Op::ReduceScatter,
        Op::Broadcast,
        Op::ExactSum,
    ];

    fn name(self) -> &'static str {
        match self {
            Op::Join => "join",
            Op::Close => "close",
            Op::AllGather => "all_gather",
            Op::AllReduce => "all_reduce",
            Op::AllReduceMax => "all_reduce_max",
            Op::ReduceScatter => "reduce_scatter",
            Op::Broadcast => "broadcast",
            Op::ExactSum => "exact_sum",
        }
    }
}

/// One operation of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Its place in this rank's order, from 0.
    pub(super) seq: u64,
    pub(super) op: Op,
    /// The letter of the element type in a kernel's signature.
    pub(super) letter: char,
    /// Elements of the operand that all ranks have as many of, or of all ranks' operands together.
    pub(super) len: usize,
    pub(super) root: Option<u32>,
    /// A digest of the ranks' counts; 0 without any.
    pub(super) counts_digest: u64,
}

impl Call {
    /// How many words ranks compare.
    pub(super) const WORDS: usize = 6;

    pub(super) fn new(op: Op, letter: char, len: usize) -> Self {
        Self {
            seq: 0,
            op,
            letter,
            len,
            root: None,
            counts_digest: 0,
        }
    }

    pub(super) fn join(size: u32) -> Self {
        Self::new(Op::Join, ' ', size as usize)
    }

    pub(super) fn close(seq: u64) -> Self {
        Self {
            seq,
            ..Self::new(Op::Close, ' ', 0)
        }
    }

    pub(super) fn with_root(self, root: u32) -> Self {
        let root = Some(root);
        Self { root, ..self }
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
            u64::from(u32::from(self.letter)),
            self.len as u64,
            self.root.map_or(0, |root| u64::from(root) + 1),
            self.counts_digest,
        ]
    }

    /// What another rank's words say; nothing for words that no rank makes.
    pub(super) fn from_words(words: &[u64]) -> Option<Self> {
        let &[seq, op, letter, len, root, counts_digest] = words else {
            return None;
        };
        Some(Self {
            seq,
            op: *Op::ALL.get(usize::try_from(op).ok()?)?,
            letter: char::from_u32(u32::try_from(letter).ok()?)?,
            len: usize::try_from(len).ok()?,
            root: match root {
                0 => None,
                root => Some(u32::try_from(root - 1).ok()?),
            },
            counts_digest,
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Join => return write!(f, "joining a group of {} ranks", self.len),
            Op::Close => return write!(f, "#{} closing the group", self.seq),
            _ => write!(f, "#{} {} of {}", self.seq, self.op.name(), self.len)?,
        }
        let element = match self.letter {
            'b' => "u8",
            'U' => "u64",
            'u' => "u32",
            'f' => "f32",
            _ => "elements",
        };
        write!(f, " {element}")?;
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        if self.counts_digest != 0 {
            write!(f, ", counts digest {:08x}", self.counts_digest as u32)?;
        }
        Ok(())
    }
}
