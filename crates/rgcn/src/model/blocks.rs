//! Fixed blocks of nodes, which do not depend on the number of ranks: sums over them have one order, and ranks are cut between them.

use std::ops::Range;

/// The nodes 0..n in blocks of one size, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    n_nodes: u32,
    size: u32,
}

/// A block has about so many nodes, unless there would be too many blocks.
const NODES_PER_BLOCK: u32 = 512;
/// The most blocks that are of use: enough to share the cost well between ranks.
pub(crate) const MAX_BLOCKS: u32 = 256;

impl Blocks {
    /// At most `max_blocks`: each has gradients of its own for the parameters that all nodes share.
    pub(crate) fn new(n_nodes: u32, max_blocks: u32) -> Blocks {
        let n_blocks = (n_nodes / NODES_PER_BLOCK).clamp(1, max_blocks.clamp(1, MAX_BLOCKS));
        let size = n_nodes.div_ceil(n_blocks).max(1);
        Blocks { n_nodes, size }
    }

    /// At least one, also without a node.
    pub(crate) fn count(self) -> usize {
        self.n_nodes.div_ceil(self.size).max(1) as usize
    }

    /// The nodes of a block.
    pub(crate) fn nodes(self, block: usize) -> Range<u32> {
        let border =
            |block: u64| (block * u64::from(self.size)).min(u64::from(self.n_nodes)) as u32;
        border(block as u64)..border(block as u64 + 1)
    }

    /// Deals the blocks to ranks, so that each has a range and the dearest costs as little as ranges allow within rounding.
    ///
    /// Rank r ends at the block border nearest to its even share of the cost before it.
    pub(crate) fn deal(self, cost_of_block: &[u64], n_ranks: usize) -> Vec<Range<usize>> {
        let total: u128 = cost_of_block.iter().map(|&cost| u128::from(cost)).sum();
        let mut ranges = Vec::with_capacity(n_ranks);
        let (mut begin, mut spent) = (0, 0u128);
        for rank in 0..n_ranks {
            let share = total * (rank as u128 + 1) / n_ranks as u128;
            let mut end = begin;
            while end < self.count() && (rank + 1 == n_ranks || spent < share) {
                let next = spent + u128::from(cost_of_block[end]);
                let is_nearer_without = next > share && next - share > share - spent;
                if is_nearer_without && rank + 1 < n_ranks {
                    break;
                }
                spent = next;
                end += 1;
            }
            ranges.push(begin..end);
            begin = end;
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_nodes_once() {
        for n_nodes in [
            0,
            1,
            511,
            512,
            513,
            1024,
            131_072,
            131_073,
            800_000,
            u32::MAX - 1,
        ] {
            let blocks = Blocks::new(n_nodes, MAX_BLOCKS);
            let mut end = 0;
            for block in 0..blocks.count() {
                let nodes = blocks.nodes(block);
                assert_eq!(nodes.start, end);
                end = nodes.end;
            }
            assert_eq!(end, n_nodes);
            assert!(blocks.count() <= 257);
        }
    }

    #[test]
    fn ranks_cover_the_blocks_and_share_the_cost() {
        let blocks = Blocks::new(100_000, MAX_BLOCKS);
        let costs: Vec<u64> = (0..blocks.count() as u64).map(|b| 50 + b % 7).collect();
        for n_ranks in 1..=6 {
            let ranges = blocks.deal(&costs, n_ranks);
            assert_eq!(ranges.len(), n_ranks);
            assert_eq!((ranges[0].start, ranges[n_ranks - 1].end), (0, costs.len()));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            let cost = |range: &Range<usize>| costs[range.clone()].iter().sum::<u64>() as f64;
            let dearest = ranges.iter().map(cost).fold(0.0, f64::max);
            let mean = costs.iter().sum::<u64>() as f64 / n_ranks as f64;
            assert!(dearest / mean < 1.05, "{n_ranks}: {dearest} against {mean}");
        }
    }

    #[test]
    fn more_ranks_than_blocks_leave_some_without() {
        let ranges = Blocks::new(10, MAX_BLOCKS).deal(&[5], 3);
        assert_eq!(ranges.iter().map(Range::len).sum::<usize>(), 1);
        assert_eq!(ranges[2].end, 1);
    }
}
