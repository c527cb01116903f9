//! One rank's block of an adjacency matrix under a [`Communication`] with columns of its own.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::bits::push_bits;
use crate::{BitShard, Communication, ExchangePlan, Partition};

/// The rows `rows` of a symmetric adjacency matrix, restricted to some columns, which are numbered from 0 in it.
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_shard::{BlockShard, Communication, Partition};
///
/// let path = Graph::from_edges(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])?;
/// let thirds = Partition::by_rows(6, 3);
/// let middle = BlockShard::from_graph(&path, &thirds, 1, Communication::Halo);
/// assert_eq!(middle.exchange().columns(), [1, 2, 3, 4]); // its own nodes 2 and 3 and their neighbours
/// assert_eq!(middle.exchange().sent_to(0), [2]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockShard {
    exchange: Arc<ExchangePlan>,
    entries: BlockEntries,
}

/// The entries of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockEntries {
    /// A list of columns for each row, ascending, with the weights of weighted graphs.
    Lists {
        /// One offset a row, and one more.
        row_ptr: Vec<u64>,
        /// Columns as the block numbers them.
        columns: Vec<u32>,
        /// One weight an entry.
        values: Option<Vec<f32>>,
    },
    /// For each column of the block its rows as bits.
    Bits {
        /// `words_per_row` words a column.
        words: Vec<u64>,
        /// The words that hold a bit for each row.
        words_per_row: usize,
    },
}

impl BlockShard {
    /// The block of `rank`, as lists.
    ///
    /// # Panics
    /// When the partition is of another number of nodes or has no such rank.
    ///
    /// # Complexity
    /// O(N log d) to find the columns, one pass over the entries of the rows, and 4 N bytes while it runs.
    pub fn from_graph(
        graph: &Graph,
        partition: &Partition,
        rank: u32,
        communication: Communication,
    ) -> BlockShard {
        assert_eq!(graph.n_nodes(), partition.n_rows(), "nodes of the graph");
        let has_neighbor_in = |node: u32, range: &Range<u32>| {
            let neighbors = graph.neighbors(node);
            let first = neighbors.partition_point(|&u| u < range.start);
            neighbors.get(first).is_some_and(|&u| u < range.end)
        };
        let exchange = ExchangePlan::new(partition, rank, communication, &has_neighbor_in);
        let entries = lists(graph, &exchange);
        let exchange = Arc::new(exchange);
        BlockShard { exchange, entries }
    }

    /// The block of `rank` of a whole bit matrix, as bits.
    ///
    /// # Panics
    /// When `matrix` is not whole, or the partition is of another number of nodes or has no such rank.
    ///
    /// # Complexity
    /// One pass over the words of the columns.
    pub fn from_bits(
        matrix: &BitShard,
        partition: &Partition,
        rank: u32,
        communication: Communication,
    ) -> BlockShard {
        assert!(matrix.is_whole(), "only a whole matrix can be cut");
        assert_eq!(matrix.n_rows(), partition.n_rows(), "nodes of the matrix");
        let has_neighbor_in = |node: u32, range: &Range<u32>| has_bit(matrix.row(node), range);
        let exchange = ExchangePlan::new(partition, rank, communication, &has_neighbor_in);
        let words_per_row = exchange.rows().len().div_ceil(64);
        let mut words = Vec::with_capacity(words_per_row * exchange.columns().len());
        for &column in exchange.columns() {
            push_bits(&mut words, matrix.row(column), &exchange.rows());
        }
        BlockShard {
            exchange: Arc::new(exchange),
            entries: BlockEntries::Bits {
                words,
                words_per_row,
            },
        }
    }

    /// Exchange of rows for the block.
    pub fn exchange(&self) -> &Arc<ExchangePlan> {
        &self.exchange
    }

    /// The entries.
    pub fn entries(&self) -> &BlockEntries {
        &self.entries
    }

    /// The bytes of the entries' arrays.
    pub fn bytes(&self) -> u64 {
        match &self.entries {
            BlockEntries::Lists {
                row_ptr,
                columns,
                values,
            } => {
                let per_entry = if values.is_some() { 8 } else { 4 };
                8 * row_ptr.len() as u64 + per_entry * columns.len() as u64
            }
            BlockEntries::Bits { words, .. } => 8 * words.len() as u64,
        }
    }
}

/// True if a row has a bit in a range of columns.
fn has_bit(row: &[u64], columns: &Range<u32>) -> bool {
    if columns.is_empty() {
        return false;
    }
    let (first, last) = (columns.start / 64, (columns.end - 1) / 64);
    (first..=last).any(|word| {
        let below = if word == first { columns.start % 64 } else { 0 };
        let above = if word == last {
            63 - (columns.end - 1) % 64
        } else {
            0
        };
        row[word as usize] & (u64::MAX << below) & (u64::MAX >> above) != 0
    })
}

fn lists(graph: &Graph, exchange: &ExchangePlan) -> BlockEntries {
    let mut number = vec![u32::MAX; graph.n_nodes() as usize];
    for (i, &node) in (0..).zip(exchange.columns()) {
        number[node as usize] = i;
    }
    let (mut row_ptr, mut columns) = (vec![0], Vec::new());
    let mut values = graph.weights().map(|_| Vec::new());
    for row in exchange.rows() {
        for (node, weight) in graph.weighted_neighbors(row) {
            let column = number[node as usize];
            if column == u32::MAX {
                continue;
            }
            columns.push(column);
            if let Some(values) = &mut values {
                values.push(weight);
            }
        }
        row_ptr.push(columns.len() as u64);
    }
    columns.shrink_to_fit();
    BlockEntries::Lists {
        row_ptr,
        columns,
        values,
    }
}
