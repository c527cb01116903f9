//! The two algorithms of an all-reduce and of a broadcast between processes, and the threshold
//! between them.

use crate::op::OpKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Algorithm of an all-reduce or a broadcast between processes. Both add floats in rank order, so
/// results have the same bits.
///
/// # Complexity
/// For P ranks and n bytes on each; a step is a time in which ranks wait for each other once.
///
/// | | all-reduce: steps, bytes sent by a rank | broadcast: steps, bytes sent by the root and by the others |
/// |---|---|---|
/// | `Direct` | 1, n(P - 1) | 1, n(P - 1) and none |
/// | `ReduceScatterAllGather` | 2, 2n(P - 1)/P | 2, 2n(P - 1)/P and n(P - 1)/P |
///
/// # Source
/// Reduce-scatter and all-gather is the scheme of Rabenseifner, scatter and all-gather that of van
/// de Geijn. Here every pair of ranks exchanges its part directly, so that the order of additions
/// is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Every rank sends the whole buffer to each rank that needs it.
    Direct,
    /// Each rank receives (and reduces) one part of the buffer and sends it to all. In a broadcast
    /// nothing is reduced.
    ReduceScatterAllGather,
}

/// From this many bytes on, sent and received by the busiest rank of [`Algorithm::Direct`], two
/// steps take less time than one.
///
/// In the measurements of bench-results/collectives/operations (2 to 6 processes, TCP and
/// MPI, all sizes to 16 MiB) the times of the two algorithms cross between 0.5 and 2 MiB for every
/// number of ranks.
const TWO_STEPS_FROM_BYTES: usize = 1 << 20;

impl Algorithm {
    /// Both algorithms.
    pub const ALL: [Algorithm; 2] = [Algorithm::Direct, Algorithm::ReduceScatterAllGather];

    /// Algorithm for `bytes` on each of `n_ranks` ranks. All ranks choose by the same rule; what
    /// was chosen is compared with the rest of the call.
    pub(crate) fn choose(op: OpKind, bytes: usize, n_ranks: u32) -> Algorithm {
        let one_way = bytes.saturating_mul(n_ranks as usize - 1);
        let busiest = match op {
            // Half of the buffer would go to the other rank, and then the other half.
            OpKind::Broadcast if n_ranks == 2 => 0,
            OpKind::Broadcast => one_way,
            _ => one_way.saturating_mul(2),
        };
        match busiest < TWO_STEPS_FROM_BYTES {
            true => Algorithm::Direct,
            false => Algorithm::ReduceScatterAllGather,
        }
    }

    /// The name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Direct => "direct",
            Algorithm::ReduceScatterAllGather => "reduce-scatter-all-gather",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Algorithm::{Direct, ReduceScatterAllGather};
    use super::*;

    #[test]
    fn the_busiest_rank_decides() {
        for (op, n_ranks, bytes, wanted) in [
            (OpKind::AllReduce, 2, (512 << 10) - 1, Direct),
            (OpKind::AllReduce, 2, 512 << 10, ReduceScatterAllGather),
            (OpKind::AllReduce, 5, 128 << 10, ReduceScatterAllGather),
            (OpKind::AllReduce, 5, (128 << 10) - 1, Direct),
            (OpKind::AllReduce, 64, usize::MAX, ReduceScatterAllGather),
            (OpKind::Broadcast, 2, usize::MAX, Direct),
            (OpKind::Broadcast, 3, (512 << 10) - 1, Direct),
            (OpKind::Broadcast, 3, 512 << 10, ReduceScatterAllGather),
        ] {
            let chosen = Algorithm::choose(op, bytes, n_ranks);
            assert_eq!(chosen, wanted, "{op}, {bytes} bytes, {n_ranks} ranks");
        }
    }
}
