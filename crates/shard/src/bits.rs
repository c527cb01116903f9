//! The adjacency matrix as bits: for dense graphs smaller than lists, and a removal becomes AND and popcount on whole words.

use std::ops::Range;

use shardgraph_graph::Graph;

use crate::partition::Partition;

/// All rows of an adjacency matrix, restricted to the columns `columns_range`, one bit per pair.
///
/// Bit `v - columns_range.start` of row `u` says whether u and v are joined; bit b of a row is bit `b % 64` of its word
/// `b / 64`. Bits beyond the last column are 0. A shard with all columns ("whole") is symmetric.
///
/// # Shapes
/// `words` is `n_rows` rows of `words_per_row` = ceil(columns / 64) words.
///
/// # Complexity
/// 8 * `words_per_row` bytes per row ([`BitShard::bytes`]): N/8 over all ranks, to the next whole word.
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_shard::{BitShard, Partition};
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// let whole = BitShard::from_graph(&path, 0..3);
/// assert_eq!(whole.row(1), &[0b101]);
/// let halves = whole.split(&Partition::by_rows(3, 2)); // columns 0..2 and 2..3
/// assert!(halves[1].contains(1, 2));
/// assert_eq!(halves[1].row(1), &[0b1]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitShard {
    n_rows: u32,
    columns_range: Range<u32>,
    words_per_row: usize,
    words: Vec<u64>,
    n_entries: u64,
}

impl BitShard {
    /// The columns `columns` of `graph`'s adjacency matrix; edge weights are dropped.
    ///
    /// # Panics
    /// When `columns` reaches beyond the graph.
    pub fn from_graph(graph: &Graph, columns: Range<u32>) -> BitShard {
        assert!(
            columns.start <= columns.end && columns.end <= graph.n_nodes(),
            "columns {columns:?} of a graph of {} nodes",
            graph.n_nodes()
        );
        let words_per_row = columns.len().div_ceil(64);
        let mut words = vec![0; words_per_row * graph.n_nodes() as usize];
        for u in 0..graph.n_nodes() {
            let row = &mut words[u as usize * words_per_row..][..words_per_row];
            for v in graph.neighbors(u).iter().filter(|v| columns.contains(v)) {
                let bit = (v - columns.start) as usize;
                row[bit / 64] |= 1 << (bit % 64);
            }
        }
        BitShard::from_words(graph.n_nodes(), columns, words)
    }

    /// Takes `words` as they are; the caller vouches for padding, diagonal and symmetry.
    pub(crate) fn from_words(n_rows: u32, columns_range: Range<u32>, words: Vec<u64>) -> BitShard {
        let words_per_row = columns_range.len().div_ceil(64);
        debug_assert_eq!(words.len(), words_per_row * n_rows as usize);
        BitShard {
            n_rows,
            words_per_row,
            n_entries: count_ones(&words),
            columns_range,
            words,
        }
    }

    /// The number of rows: every node of the graph.
    pub fn n_rows(&self) -> u32 {
        self.n_rows
    }

    /// The columns that this shard holds.
    pub fn columns_range(&self) -> Range<u32> {
        self.columns_range.clone()
    }

    /// True if this shard holds every column.
    pub fn is_whole(&self) -> bool {
        self.columns_range == (0..self.n_rows)
    }

    /// The number of 64-bit words in a row.
    pub fn words_per_row(&self) -> usize {
        self.words_per_row
    }

    /// The words of row `u`: bit 0 is column `columns_range().start`.
    ///
    /// # Panics
    /// When `u` is not below [`BitShard::n_rows`].
    pub fn row(&self, u: u32) -> &[u64] {
        &self.words[u as usize * self.words_per_row..][..self.words_per_row]
    }

    /// All words, row after row.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// True if `u` and `v` (a column of this shard, by its global id) are joined.
    ///
    /// # Panics
    /// When `u` is no row or `v` no column of this shard.
    pub fn contains(&self, u: u32, v: u32) -> bool {
        assert!(
            self.columns_range.contains(&v),
            "column {v} of a shard of columns {:?}",
            self.columns_range
        );
        let bit = (v - self.columns_range.start) as usize;
        self.row(u)[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Calls `visit` with each neighbour of `u` in this shard's columns, ascending, by its global id.
    ///
    /// # Panics
    /// When `u` is not below [`BitShard::n_rows`].
    pub fn for_each_in_row(&self, u: u32, visit: &mut dyn FnMut(u32)) {
        for (word_idx, &word) in self.row(u).iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                visit(self.columns_range.start + 64 * word_idx as u32 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }

    /// The number of set bits in row `u`: its degree, counted in this shard's columns.
    ///
    /// # Panics
    /// When `u` is not below [`BitShard::n_rows`].
    pub fn row_count(&self, u: u32) -> u32 {
        count_ones(self.row(u)) as u32
    }

    /// The number of set bits (directed edges); counted when the shard is made.
    pub fn n_entries(&self) -> u64 {
        self.n_entries
    }

    /// The bytes of the words: 8 per word.
    pub fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    /// Cuts a whole matrix into the columns of each rank.
    ///
    /// # Panics
    /// When this shard is not whole, or `partition` is of another number of rows.
    ///
    /// # Complexity
    /// One pass over the words per rank; the parts together take the memory of the matrix once more.
    pub fn split(&self, partition: &Partition) -> Vec<BitShard> {
        (0..partition.n_ranks())
            .map(|rank| self.part(partition, rank))
            .collect()
    }

    /// Cuts one rank's columns out of a whole matrix: one part of [`BitShard::split`].
    ///
    /// # Panics
    /// When this shard is not whole, or `partition` is of another number of rows or has no such rank.
    ///
    /// # Complexity
    /// One pass over the words; the part is the only memory taken.
    pub fn part(&self, partition: &Partition, rank: u32) -> BitShard {
        assert!(self.is_whole(), "only a whole matrix can be split");
        assert_eq!(
            partition.n_rows(),
            self.n_rows,
            "the partition is of another graph"
        );
        let columns = partition.range(rank);
        let words_per_row = columns.len().div_ceil(64);
        let mut words = Vec::with_capacity(words_per_row * self.n_rows as usize);
        for u in 0..self.n_rows {
            push_bits(&mut words, self.row(u), &columns);
        }
        BitShard::from_words(self.n_rows, columns, words)
    }

    /// Some edge with both ends in the bit set `in_set`, the smallest first end and then the smallest second; `None` when the
    /// set is independent. What a cover leaves out must be independent, so this checks a cover.
    ///
    /// # Shapes
    /// `in_set` has [`BitShard::words_per_row`] words, no bit at or beyond the last column.
    ///
    /// # Panics
    /// When this shard is not whole or `in_set` has another length.
    pub fn edge_within(&self, in_set: &[u64]) -> Option<(u32, u32)> {
        assert!(self.is_whole(), "only a whole matrix has all edges");
        assert_eq!(in_set.len(), self.words_per_row, "words in the set");
        (0..self.n_rows)
            .filter(|&u| in_set[u as usize / 64] >> (u % 64) & 1 == 1)
            .find_map(|u| first_common(self.row(u), in_set).map(|v| (u, v)))
    }
}

/// The lowest bit that both bit sets have.
pub(crate) fn first_common(a: &[u64], b: &[u64]) -> Option<u32> {
    let mut common = a.iter().zip(b).map(|(a, b)| a & b).enumerate();
    let (word_idx, word) = common.find(|&(_, word)| word != 0)?;
    Some(64 * word_idx as u32 + word.trailing_zeros())
}

pub(crate) fn count_ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Appends the bits `columns` of `row`, moved down so that the first of them is bit 0 of the first word.
pub(crate) fn push_bits(out: &mut Vec<u64>, row: &[u64], columns: &Range<u32>) {
    let (first_word, shift) = (columns.start as usize / 64, columns.start % 64);
    let n_words = columns.len().div_ceil(64);
    let word = |idx: usize| row.get(first_word + idx).copied().unwrap_or(0);
    for idx in 0..n_words {
        let above = match shift {
            0 => 0,
            _ => word(idx + 1) << (64 - shift),
        };
        let left = columns.len() - 64 * idx;
        let keep = if left < 64 {
            !(u64::MAX << left)
        } else {
            u64::MAX
        };
        out.push((word(idx) >> shift | above) & keep);
    }
}
