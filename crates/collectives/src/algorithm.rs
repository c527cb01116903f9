//! The ways in which an operation can be done, and the choice among them, from a table of measurements.
//!
//! All ways give the same bits. Which is fastest depends on the operation, its length, the number of ranks and the back end;
//! `cargo xtask bench collectives --tables` measures every way and writes the table. Two things in it are decided, not measured: from 1 MiB on, ways that
//! bring all of every buffer to one rank are left out for more than two ranks, because on one machine their cost on a network does not show; and
//! beyond the largest number of ranks that was measured, a length counts as longer by as much as there are more peers.
//!
//! All ranks of a world must choose by the same table: ranks of one build do, and what was chosen is compared with the rest of the call.

mod table;

use crate::op::OpKind;
use std::fmt;

/// A way to do an all-reduce or a broadcast between processes. Whatever is chosen, floats are added in rank order.
///
/// # Complexity
/// For P ranks and n bytes on each; a step is a time in which ranks wait for each other once.
///
/// | | all-reduce: steps, bytes sent by a rank | broadcast: steps, bytes sent by the root and by the others |
/// |---|---|---|
/// | `Whole` | 1, n(P - 1) | 1, n(P - 1) and none |
/// | `Parts` | 2, 2n(P - 1)/P | 2, 2n(P - 1)/P and n(P - 1)/P |
/// | `Tree` | 1 + log2 P, n(P - 1) in rank 0, n log2 P at most from a rank | log2 P, n log2 P at most from a rank |
/// | `Chain` | 2P - 3 and one for each piece, 2n | P - 2 and one for each piece, n |
///
/// # Failures
/// What ranks ask for goes from each to each in the first step, whatever is chosen, so mismatches and ranks that do not come are named alike. A rank that
/// stops in a later step of `Tree` or `Chain` is only missed by those that wait for it themselves; a roll call tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Everything goes directly to everyone who needs it.
    Whole,
    /// Each rank has a part of the buffer: it gets (and reduces) that part, and sends it to all.
    Parts,
    /// Rank 0 gets everything and reduces it; results go from the root down a binomial tree.
    ///
    /// A tree that reduces on its way up would add floats in another order.
    Tree,
    /// Pieces go from rank to rank in a pipeline: sums from rank 0 to the last, results back. No rank ever gets from more than two others.
    Chain,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Whole,
        Algorithm::Parts,
        Algorithm::Tree,
        Algorithm::Chain,
    ];

    /// The name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Whole => "whole",
            Algorithm::Parts => "parts",
            Algorithm::Tree => "tree",
            Algorithm::Chain => "chain",
        }
    }

    /// The algorithm of this name.
    pub fn of_name(name: &str) -> Option<Algorithm> {
        let mut all = Algorithm::ALL.into_iter();
        all.find(|algorithm| algorithm.name() == name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of a table: from this many bytes on, this is the fastest of those that were measured with this many ranks.
#[derive(Clone, Copy, Debug)]
struct Row {
    op: OpKind,
    n_ranks: u32,
    from_bytes: usize,
    algorithm: Algorithm,
}

/// The measurements of one back end.
#[derive(Clone, Copy)]
pub(crate) struct Table(&'static [Row]);

/// For [`tcp`](crate::tcp).
pub(crate) const TCP: Table = Table(&table::TCP);
/// For [`mpi`](crate::mpi), which knows `Whole` and `Parts`, for the reductions that it does itself.
pub(crate) const MPI: Table = Table(&table::MPI);

impl Table {
    /// The way to take for `bytes` on each of `n_ranks` ranks.
    ///
    /// Between two numbers of ranks that were measured the smaller one counts. Beyond the largest that one does, as for a buffer longer by as much as
    /// there are more peers: `Whole` and `Tree` bring all of that to one rank.
    pub(crate) fn choose(self, op: OpKind, bytes: usize, n_ranks: u32) -> Algorithm {
        let of_op = || self.0.iter().filter(|row| row.op == op);
        let measured = of_op().map(|row| row.n_ranks);
        let at_most = measured.clone().filter(|&measured| measured <= n_ranks);
        let Some(nearest) = at_most.max().or_else(|| measured.clone().min()) else {
            return Algorithm::Parts;
        };
        let bytes = match measured.max() {
            Some(largest) if n_ranks > largest && largest > 1 => {
                let (peers, measured) = (n_ranks as usize - 1, largest as usize - 1);
                bytes.saturating_mul(peers) / measured
            }
            _ => bytes,
        };
        let fits = |row: &&Row| row.n_ranks == nearest && row.from_bytes <= bytes;
        let row = of_op().filter(fits).max_by_key(|row| row.from_bytes);
        row.map_or(Algorithm::Parts, |row| row.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::*;

    const fn row(n_ranks: u32, from_bytes: usize, algorithm: Algorithm) -> Row {
        Row {
            op: OpKind::AllReduce,
            n_ranks,
            from_bytes,
            algorithm,
        }
    }

    #[test]
    fn the_row_at_or_below_counts() {
        const ROWS: [Row; 6] = [
            row(2, 0, Whole),
            row(4, 0, Tree),
            row(4, 4096, Parts),
            row(4, 1 << 20, Chain),
            row(6, 0, Tree),
            row(6, 5000, Chain),
        ];
        let table = Table(&ROWS);
        for (n_ranks, bytes, wanted) in [
            (1, 0, Whole),
            (2, 1 << 30, Whole),
            (3, 5, Whole),
            (4, 0, Tree),
            (4, 4095, Tree),
            (4, 4096, Parts),
            (5, (1 << 20) - 1, Parts),
            (5, 1 << 20, Chain),
            (6, 4999, Tree),
            (6, 5000, Chain),
            (11, 2499, Tree),
            (11, 2500, Chain),
            (64, 1 << 30, Chain),
        ] {
            let chosen = table.choose(OpKind::AllReduce, bytes, n_ranks);
            assert_eq!(chosen, wanted, "{bytes} bytes, {n_ranks} ranks");
        }
        assert_eq!(table.choose(OpKind::Broadcast, 8, 4), Parts);
    }

    /// Every length has a row, and the tables name only what a back end has.
    #[test]
    fn the_tables_are_whole() {
        for (table, ops, known) in [
            (
                TCP,
                &[OpKind::AllReduce, OpKind::Broadcast][..],
                &Algorithm::ALL[..],
            ),
            (MPI, &[OpKind::AllReduce][..], &[Whole, Parts][..]),
        ] {
            for &op in ops {
                let rows: Vec<&Row> = table.0.iter().filter(|row| row.op == op).collect();
                assert!(!rows.is_empty(), "{op}");
                for row in &rows {
                    assert!(known.contains(&row.algorithm), "{row:?}");
                    let has_start =
                        |other: &&Row| other.n_ranks == row.n_ranks && other.from_bytes == 0;
                    assert!(
                        rows.iter().copied().any(|other| has_start(&other)),
                        "{row:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_lead_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::of_name("ring"), None);
    }
}
