//! The geometry of a launch.

/// The geometry of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x, y and z; nothing runs if one of them is 0.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z, at most 1024 in all.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

impl Launch {
    /// The largest number of blocks in x.
    pub const MAX_BLOCKS: u32 = i32::MAX as u32;

    /// The largest number of blocks in y, and in z.
    pub const MAX_BLOCKS_Y: usize = 65_535;

    /// A line of `n_blocks` blocks of `block` threads.
    ///
    /// # Panics
    /// For more than [`Launch::MAX_BLOCKS`] blocks.
    pub fn blocks(n_blocks: usize, block: u32) -> Self {
        let fits = u32::try_from(n_blocks)
            .ok()
            .filter(|&n| n <= Self::MAX_BLOCKS);
        Self {
            grid: [fits.expect("a grid has at most 2^31 - 1 blocks"), 1, 1],
            block: [block, 1, 1],
            shared_bytes: 0,
        }
    }

    /// Enough blocks of `block` threads for `n_threads` threads.
    ///
    /// # Panics
    /// As [`Launch::blocks`].
    pub fn threads(n_threads: usize, block: u32) -> Self {
        Self::blocks(n_threads.div_ceil(block as usize), block)
    }

    /// A grid of `n_x` by `n_y` blocks, where z has what is too much for y: a block's number there is
    /// `blockIdx.z * gridDim.y + blockIdx.y`, and some come to more than `n_y`. A number that is too large is left to the driver to
    /// refuse.
    pub fn wide(n_x: usize, n_y: usize, block: u32) -> Self {
        let n_z = n_y.div_ceil(Self::MAX_BLOCKS_Y);
        let n_y = n_y.div_ceil(n_z.max(1));
        Self {
            grid: [n_x, n_y, n_z].map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            block: [block, 1, 1],
            shared_bytes: 0,
        }
    }

    /// The same with `bytes` of dynamic shared memory for each block.
    #[must_use]
    pub fn with_shared(self, bytes: usize) -> Self {
        Self {
            shared_bytes: bytes.try_into().unwrap_or(u32::MAX), // too much, which the driver says
            ..self
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.grid.contains(&0) || self.block.contains(&0)
    }
}
