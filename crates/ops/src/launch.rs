//! Geometry that the launches of this crate share.

use shardgraph_device::Launch;

/// Threads of a block in every kernel of this crate.
pub(crate) const BLOCK: u32 = 256;

/// Threads of a warp.
pub(crate) const WARP: usize = 32;

/// Elements of a thread: four where all of these divide by four, so that a thread's float4 is aligned.
pub(crate) fn vector(sizes: &[usize]) -> usize {
    if sizes.iter().all(|size| size % 4 == 0) {
        4
    } else {
        1
    }
}

/// A grid of blocks; a dimension that is too large is left to the driver to refuse.
pub(crate) fn grid(x: usize, y: usize, z: usize) -> Launch {
    Launch {
        grid: [x, y, z].map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        block: [BLOCK, 1, 1],
        shared_bytes: 0,
    }
}
