//! Who exchanges which rows with whom: planned for one rank from its partition and its way of sharing.

use std::ops::Range;

use crate::{Communication, Partition};

/// Plan of one rank's exchange: the rows of the operand that it reads and sends, and the rows that it sums.
///
/// With [`Communication::Halo`] the sums are whole. With the others they are parts, to be added over all ranks (`ColumnAllReduce`) or over those of
/// [`ExchangePlan::row_group`] (`Grid`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangePlan {
    communication: Communication,
    own: Range<u32>,
    rows: Range<u32>,
    columns: Vec<u32>,
    sent: Vec<Vec<u32>>,
    row_group: Range<u32>,
}

/// True if a node has a neighbour in a range of nodes.
type HasNeighborIn<'t> = dyn Fn(u32, &Range<u32>) -> bool + 't;

impl ExchangePlan {
    /// The plan of `rank`.
    pub(crate) fn new(
        partition: &Partition,
        rank: u32,
        communication: Communication,
        has_neighbor_in: &HasNeighborIn<'_>,
    ) -> ExchangePlan {
        let (own, n_ranks, n_nodes) = (
            partition.range(rank),
            partition.n_ranks(),
            partition.n_rows(),
        );
        let mut exchange = ExchangePlan {
            communication,
            rows: own.clone(),
            columns: (0..n_nodes).collect(),
            sent: vec![Vec::new(); n_ranks as usize],
            row_group: rank..rank + 1,
            own: own.clone(),
        };
        let others = (0..n_ranks).filter(|&other| other != rank);
        match communication {
            Communication::Gather => {
                for other in others {
                    exchange.sent[other as usize].extend(own.clone());
                }
            }
            Communication::ColumnAllReduce => {
                exchange.rows = 0..n_nodes;
                exchange.columns = own.collect();
                exchange.row_group = 0..n_ranks;
            }
            Communication::Halo => {
                exchange
                    .columns
                    .retain(|&node| own.contains(&node) || has_neighbor_in(node, &own));
                for other in others {
                    let theirs = partition.range(other);
                    let read = own.clone().filter(|&node| has_neighbor_in(node, &theirs));
                    exchange.sent[other as usize].extend(read);
                }
            }
            Communication::Grid => plan_grid(&mut exchange, partition, rank),
        }
        exchange
    }

    /// The way of sharing.
    pub fn communication(&self) -> Communication {
        self.communication
    }

    /// The rank's own rows.
    pub fn own_rows(&self) -> Range<u32> {
        self.own.clone()
    }

    /// The rows of the block.
    pub fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// The node of each column of the block, ascending.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The own nodes, ascending, whose rows another rank has among its columns; empty for the rank itself.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn sent_to(&self, rank: u32) -> &[u32] {
        &self.sent[rank as usize]
    }

    /// The ranks, this one among them, between which the rows of the block are divided.
    pub fn row_group(&self) -> Range<u32> {
        self.row_group.clone()
    }
}

/// The ranks that have rows, as `pr x pc` ranks row by row; see [`Communication::Grid`].
fn plan_grid(exchange: &mut ExchangePlan, partition: &Partition, rank: u32) {
    let has_rows = |&rank: &u32| !partition.range(rank).is_empty();
    let mut with_rows = (0..partition.n_ranks()).filter(has_rows);
    let first = with_rows.next();
    let last = with_rows.next_back().or(first);
    exchange.columns.clear();
    let (Some(first), Some(last)) = (first, last) else {
        return;
    };
    if !(first..=last).contains(&rank) {
        return; // other ranks have this graph
    }
    let n_ranks = last + 1 - first;
    let n_columns = n_ranks / grid_rows(n_ranks);
    let (row, column) = ((rank - first) / n_columns, (rank - first) % n_columns);
    exchange.row_group = first + row * n_columns..first + (row + 1) * n_columns;
    exchange.rows = partition.range(exchange.row_group.start).start
        ..partition.range(exchange.row_group.end - 1).end;
    for other in (first + column..=last).step_by(n_columns as usize) {
        exchange.columns.extend(partition.range(other));
        if other != rank {
            exchange.sent[other as usize].extend(exchange.own.clone());
        }
    }
}

/// The largest divisor that is not above the root.
fn grid_rows(n_ranks: u32) -> u32 {
    let divides = |&rows: &u32| n_ranks.is_multiple_of(rows) && rows * rows <= n_ranks;
    (1..=n_ranks).rfind(divides).unwrap_or(1)
}
