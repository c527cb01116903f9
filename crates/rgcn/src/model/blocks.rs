//! Fixed blocks of nodes, which do not depend on the number of ranks: sums over them have one order, and ranks are cut between them.

use std::ops::Range;

/// The nodes 0..n in blocks of one size, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    n_nodes: u32,
    size: u32,
}

/// A block has about so many nodes, unless there would be too many blocks.
const NODES_PER_BLOCK: u32 = 64;
/// The most blocks that are of use: enough to share the cost well between ranks.
pub(crate) const MAX_BLOCKS: u32 = 256;

impl Blocks {
    /// At most `max_blocks`: each has gradients of its own for the parameters that all nodes share.
    pub(crate) fn new(n_nodes: u32, max_blocks: u32) -> Blocks {
        let n_blocks = (n_nodes / NODES_PER_BLOCK).clamp(1, max_blocks.clamp(1, MAX_BLOCKS));
        let size = n_nodes.div_ceil(n_blocks).max(1);
        Blocks { n_nodes, size }
    }

    /// Nodes of all blocks but the last.
    pub(crate) fn size(self) -> u32 {
        self.size
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
}
