//! Fixed blocks of nodes, which do not depend on the number of ranks: sums over them have one
//! order, and ranks are cut between them.

use std::ops::Range;

/// The nodes 0..n in blocks of one size, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    n_nodes: u32,
    size: u32,
}

/// A block has about so many nodes, unless there would be too many blocks.
const NODES_PER_BLOCK: u32 = 64;
/// Blocks that share out the cost well between up to eight ranks: more only where they are large.
const ENOUGH_BLOCKS: u32 = 128;
/// Nodes of a block whose work is far more than what its own gradients of shared parameters cost.
const NODES_OF_A_LARGE_BLOCK: u32 = 2048;
/// The most blocks that are of use.
pub(crate) const MAX_BLOCKS: u32 = 256;

impl Blocks {
    /// At most `max_blocks`: each has gradients of its own for the parameters that all nodes share.
    pub(crate) fn new(n_nodes: u32, max_blocks: u32) -> Blocks {
        let few = (n_nodes / NODES_PER_BLOCK).min(ENOUGH_BLOCKS);
        let n_blocks = few.max(n_nodes / NODES_OF_A_LARGE_BLOCK);
        let n_blocks = n_blocks.clamp(1, max_blocks.clamp(1, MAX_BLOCKS));
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

    /// The block of a node.
    pub(crate) fn of(self, node: u32) -> u32 {
        node / self.size
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

    #[test]
    fn small_graphs_have_few_blocks() {
        let sizes = [63, 8_285, 23_644, 800_000, 1_080_876];
        let counts = sizes.map(|n_nodes| Blocks::new(n_nodes, MAX_BLOCKS).count());
        assert_eq!(counts, [1, 128, 128, 256, 256]);
    }
}
