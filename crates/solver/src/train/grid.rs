//! The grid of ranks in training: the graphs of a batch are spread over its rows, and the nodes of a graph over the ranks of a row.
//!
//! Gradients are exact sums over blocks of rows, and a block belongs to one graph: which ranks have it changes no bit.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use shardgraph_shard::{Communication, Partition};

use crate::Error;

/// P = P_batch x P_space ranks, row by row, and this rank's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    n_ranks: u32,
    n_rows: u32,
    rank: u32,
}

impl Grid {
    /// # Errors
    /// When the ranks do not make so many rows.
    pub(super) fn new(n_ranks: u32, n_rows: u32, rank: u32) -> Result<Grid, Error> {
        if n_rows == 0 || !n_ranks.is_multiple_of(n_rows) {
            return Err(Error::input(format!(
                "{n_rows} batch ranks of {n_ranks} ranks: expected a number that divides that of the ranks"
            )));
        }
        Ok(Grid {
            n_ranks,
            n_rows,
            rank,
        })
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    /// The row of this rank.
    pub(super) fn own_row(&self) -> u32 {
        self.rank / self.row_len()
    }

    fn row_len(&self) -> u32 {
        self.n_ranks / self.n_rows
    }

    fn ranks_of(&self, row: u32) -> Range<u32> {
        row * self.row_len()..(row + 1) * self.row_len()
    }

    /// The nodes of a graph over the ranks of a row.
    pub(super) fn partition(&self, n_nodes: u32, row: u32) -> Partition {
        Partition::by_rows_among(n_nodes, self.n_ranks, self.ranks_of(row))
    }

    /// A row for each cost: the dearest first, each to the row that has least so far.
    pub(super) fn share(&self, costs: &[u64]) -> Vec<u32> {
        let mut rows = vec![0; costs.len()];
        if self.n_rows == 1 {
            return rows;
        }
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(costs[i]), i));
        let mut loads = vec![0u64; self.n_rows as usize];
        for i in order {
            let least = (0..loads.len()).min_by_key(|&row| loads[row]).unwrap_or(0);
            loads[least] += costs[i].max(1);
            rows[i] = least as u32;
        }
        rows
    }
}

/// What decides the bits of a run whose ranks add floats: it goes on in the same way only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SumsOverRanks {
    communication: String,
    ranks: u32,
    batch_ranks: u32,
}

impl SumsOverRanks {
    /// Those of a run on so many ranks in so many rows; none without sums, on one rank, and where no float is added over ranks.
    pub(super) fn of(
        has_sums: bool,
        communication: Communication,
        ranks: u32,
        batch_ranks: u32,
    ) -> Option<SumsOverRanks> {
        let is_exact = !has_sums || ranks == 1 || communication.is_exact();
        (!is_exact).then(|| SumsOverRanks {
            communication: communication.to_string(),
            ranks,
            batch_ranks,
        })
    }

    pub(super) fn shown(sums: Option<&SumsOverRanks>) -> String {
        match sums {
            None => "with sums that depend on no ranks (communication gather or halo)".to_owned(),
            Some(sums) => format!(
                "with communication {} on {} ranks in {} rows",
                sums.communication, sums.ranks, sums.batch_ranks
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_on_one_rank_of_one_row() {
        for (n_ranks, n_rows) in [(1, 1), (2, 2), (6, 1), (6, 2), (6, 3), (6, 6)] {
            let row_len = n_ranks / n_rows;
            for rank in 0..n_ranks {
                let grid = Grid::new(n_ranks, n_rows, rank).unwrap();
                assert_eq!(grid.own_row(), rank / row_len);
                for (n_nodes, row) in [(0, 0), (1, n_rows - 1), (130, n_rows - 1), (1000, 0)] {
                    let partition = grid.partition(n_nodes, row);
                    assert_eq!(
                        (partition.n_rows(), partition.n_ranks()),
                        (n_nodes, n_ranks)
                    );
                    let inside = Partition::by_rows(n_nodes, row_len);
                    for other in 0..n_ranks {
                        let want = match other / row_len == row {
                            true => inside.range(other % row_len).len(),
                            false => 0,
                        };
                        assert_eq!(partition.range(other).len(), want);
                    }
                }
            }
        }
    }

    #[test]
    fn work_is_spread() {
        let grid = Grid::new(6, 3, 0).unwrap();
        assert_eq!(grid.share(&[5, 9, 5, 1, 9]), [2, 0, 2, 0, 1]);
        assert_eq!(grid.share(&[0, 0, 0]), [0, 1, 2]);
        assert_eq!(Grid::new(6, 1, 3).unwrap().share(&[3, 2]), [0, 0]);
    }

    #[test]
    fn rows_that_do_not_divide_are_refused() {
        for n_rows in [0, 4, 5, 12] {
            let message = Grid::new(6, n_rows, 0).unwrap_err().to_string();
            assert!(message.contains("6 ranks"), "{message}");
        }
    }
}
