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
