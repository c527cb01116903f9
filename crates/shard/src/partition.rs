//! Cuts of a graph's rows: fixed row blocks first, then P contiguous ranges of whole blocks.
//!
//! A sum that must have the same bits for every P is made over the blocks, and the blocks depend on the number of rows alone.

use std::ops::Range;

use shardgraph_graph::Graph;

/// Cost of a row in [`Partition::by_nonzeros`], counted in nonzeros.
///
/// An estimate for the layers' K = 32: a row takes a K x K product (2K^2 floating-point operations at product speed) and a
/// nonzero takes one K-wide gather-and-add (2K operations at memory speed, some eight times slower per operation).
pub const ROW_WORK: u64 = 8;

const MAX_BLOCKS: u32 = 64;

/// The height of a row block: the smallest power of two that cuts `n_rows` rows into at most 64 blocks.
///
/// A function of the number of rows only, so that sums over blocks do not depend on the number of ranks.
///
/// ```
/// use shardgraph_shard::block_rows;
/// assert_eq!((block_rows(64), block_rows(65), block_rows(21_000)), (1, 2, 512));
/// ```
pub fn block_rows(n_rows: u32) -> u32 {
    n_rows.div_ceil(MAX_BLOCKS).next_power_of_two()
}

/// P contiguous row ranges that together are all rows, each a whole number of [`block_rows`] blocks (the last block may be
/// short).
///
/// With more ranks than blocks the last ranks get an empty range; otherwise no range is empty.
///
/// ```
/// use shardgraph_shard::Partition;
/// let thirds = Partition::by_rows(100, 3); // blocks of 2 rows: 17 + 17 + 16 blocks
/// assert_eq!(thirds.range(1), 34..68);
/// assert_eq!(thirds.owner(68), 2);
/// assert_eq!(thirds.counts(), [34, 34, 32]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// P + 1 row numbers, from 0 to n_rows; rank r owns `borders[r]..borders[r + 1]`.
    borders: Vec<u32>,
}

impl Partition {
    /// Cuts `n_rows` rows so that the ranks' numbers of blocks differ by at most one.
    ///
    /// # Panics
    /// When `n_ranks` is 0.
    pub fn by_rows(n_rows: u32, n_ranks: u32) -> Partition {
        assert!(n_ranks > 0, "a partition needs at least one rank");
        let n_blocks = n_blocks(n_rows);
        let (each, extra) = (n_blocks / n_ranks, n_blocks % n_ranks);
        let ends = (1..=n_ranks).map(|rank| rank * each + rank.min(extra));
        Partition::from_block_ends(n_rows, ends)
    }

    /// As [`Partition::by_rows`] over the ranks `among` alone; the other ones of `n_ranks` get an empty range. For a batch of graphs
    /// each of which belongs to some of the ranks.
    ///
    /// # Panics
    /// When `among` is empty or reaches beyond `n_ranks`.
    ///
    /// ```
    /// use shardgraph_shard::Partition;
    /// let middle = Partition::by_rows_among(100, 4, 1..3);
    /// assert_eq!(middle.counts(), [0, 50, 50, 0]);
    /// assert_eq!(middle.owner(0), 1);
    /// ```
    pub fn by_rows_among(n_rows: u32, n_ranks: u32, among: Range<u32>) -> Partition {
        assert!(among.end <= n_ranks, "ranks {among:?} of {n_ranks}");
        let n_among = among.end.saturating_sub(among.start);
        let inner = Partition::by_rows(n_rows, n_among);
        let before = std::iter::repeat_n(0, among.start as usize);
        let after = std::iter::repeat_n(n_rows, (n_ranks - among.end) as usize);
        Partition {
            borders: before.chain(inner.borders).chain(after).collect(),
        }
    }

    /// Cuts the rows of `graph` so that the largest rank's work, nonzeros + [`ROW_WORK`] * rows, is as small as contiguous
    /// blocks allow.
    ///
    /// # Panics
    /// When `n_ranks` is 0.
    ///
    /// # Complexity
    /// O(64 log m) after one look at each block's row offsets.
    pub fn by_nonzeros(graph: &Graph, n_ranks: u32) -> Partition {
        assert!(n_ranks > 0, "a partition needs at least one rank");
        let work = block_work(graph);
        let limit = smallest_limit(&work, n_ranks);
        Partition::from_block_ends(graph.n_nodes(), cut(&work, n_ranks, limit).into_iter())
    }

    fn from_block_ends(n_rows: u32, ends: impl Iterator<Item = u32>) -> Partition {
        let height = block_rows(n_rows);
        let rows = ends.map(|end| end.saturating_mul(height).min(n_rows));
        Partition {
            borders: std::iter::once(0).chain(rows).collect(),
        }
    }

    /// The rows of `rank`.
    ///
    /// # Panics
    /// When `rank` is not below [`Partition::n_ranks`].
    pub fn range(&self, rank: u32) -> Range<u32> {
        let rank = rank as usize;
        self.borders[rank]..self.borders[rank + 1]
    }

    /// The rank that holds row `v`.
    ///
    /// # Panics
    /// When `v` is not below [`Partition::n_rows`].
    pub fn owner(&self, v: u32) -> u32 {
        assert!(
            v < self.n_rows(),
            "row {v} of a partition of {} rows",
            self.n_rows()
        );
        self.borders.partition_point(|&border| border <= v) as u32 - 1
    }

    /// The number of ranges.
    pub fn n_ranks(&self) -> u32 {
        self.borders.len() as u32 - 1
    }

    /// The number of rows over all ranks.
    pub fn n_rows(&self) -> u32 {
        *self.borders.last().expect("a partition has P + 1 borders")
    }

    /// The height of a block, [`block_rows`] of [`Partition::n_rows`].
    pub fn block_rows(&self) -> u32 {
        block_rows(self.n_rows())
    }

    /// The number of blocks over all ranks.
    pub fn n_blocks(&self) -> u32 {
        n_blocks(self.n_rows())
    }

    /// The blocks of `rank`, as block numbers.
    ///
    /// # Panics
    /// When `rank` is not below [`Partition::n_ranks`].
    pub fn blocks(&self, rank: u32) -> Range<u32> {
        let (rows, height) = (self.range(rank), self.block_rows());
        rows.start.div_ceil(height)..rows.end.div_ceil(height)
    }

    /// The number of rows of each rank.
    pub fn counts(&self) -> Vec<usize> {
        self.borders
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as usize)
            .collect()
    }
}

fn n_blocks(n_rows: u32) -> u32 {
    n_rows.div_ceil(block_rows(n_rows))
}

fn block_work(graph: &Graph) -> Vec<u64> {
    let n_rows = graph.n_nodes();
    let height = block_rows(n_rows);
    (0..n_blocks(n_rows))
        .map(|block| {
            let start = block * height;
            let end = n_rows.min(start.saturating_add(height));
            let nonzeros = graph.offsets()[end as usize] - graph.offsets()[start as usize];
            nonzeros + ROW_WORK * u64::from(end - start)
        })
        .collect()
}

/// The smallest work limit under which `n_ranks` contiguous ranges hold all blocks, by bisection.
fn smallest_limit(work: &[u64], n_ranks: u32) -> u64 {
    let mut low = work.iter().copied().max().unwrap_or(0);
    let mut high = work.iter().sum();
    while low < high {
        let middle = low + (high - low) / 2;
        if n_ranges(work, middle) <= n_ranks {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Number of ranges under a limit when each takes as many blocks as it may.
fn n_ranges(work: &[u64], limit: u64) -> u32 {
    let (mut n, mut load) = (1, 0);
    for &block in work {
        if load + block > limit {
            n += 1;
            load = 0;
        }
        load += block;
    }
    n
}

/// The block number at which each rank's range ends: as many blocks as `limit` allows, but one left for each later rank.
fn cut(work: &[u64], n_ranks: u32, limit: u64) -> Vec<u32> {
    let mut end = 0;
    let mut ends = Vec::with_capacity(n_ranks as usize);
    for rank in 0..n_ranks as usize {
        let n_later = n_ranks as usize - 1 - rank;
        let mut load = 0;
        let first = end;
        while end < work.len()
            && (end == first || (load + work[end] <= limit && work.len() - end > n_later))
        {
            load += work[end];
            end += 1;
        }
        ends.push(end as u32);
    }
    ends
}
