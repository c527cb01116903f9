//! How a kernel is launched: its grid and its arguments.

use crate::buffer::{Store, sealed};
use crate::gpu::Memory;
use crate::{Buffer, Scalar};

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

/// An argument of a kernel.
///
/// In a signature, `f`, `u`, `i`, `U`, `h` and `b` are the scalars f32, u32, i32, u64, u16 and u8; `&` before the letter
/// is a pointer to what the kernel reads, `*` to what it writes.
#[derive(Debug)]
pub struct Arg<'a> {
    kind: Option<char>,
    letter: char,
    value: u64,
    memory: Option<Option<&'a Memory>>,
}

impl<'a> Arg<'a> {
    /// An `f32`.
    pub fn f32(value: f32) -> Self {
        Self::scalar('f', u64::from(value.to_bits()))
    }

    /// A `u32`.
    pub fn u32(value: u32) -> Self {
        Self::scalar('u', u64::from(value))
    }

    /// An `i32`.
    pub fn i32(value: i32) -> Self {
        Self::scalar('i', u64::from(value as u32)) // the same bits
    }

    /// A `u64`.
    pub fn u64(value: u64) -> Self {
        Self::scalar('U', value)
    }

    /// A buffer that the kernel reads.
    pub fn read<T: Scalar>(buffer: &'a Buffer<T>) -> Self {
        Self::pointer('&', buffer)
    }

    /// A buffer that the kernel writes (or reads and writes).
    pub fn write<T: Scalar>(buffer: &'a mut Buffer<T>) -> Self {
        Self::pointer('*', buffer)
    }

    fn scalar(letter: char, value: u64) -> Self {
        Self {
            kind: None,
            letter,
            value,
            memory: None,
        }
    }

    fn pointer<T: Scalar>(kind: char, buffer: &'a Buffer<T>) -> Self {
        let memory = match &buffer.store {
            Store::Gpu(memory) => Some(memory),
            Store::Host(_) | Store::Part(_) => None,
        };
        Self {
            kind: Some(kind),
            letter: <T as sealed::Scalar>::LETTER,
            value: memory.map_or(0, |memory| memory.address),
            memory: Some(memory),
        }
    }

    /// The argument's part of a signature.
    pub(crate) fn push_signature(&self, signature: &mut String) {
        signature.extend(self.kind);
        signature.push(self.letter);
    }

    /// The bits that the kernel gets.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// The memory behind a pointer (nothing for a buffer of the host), and whether it is written.
    pub(crate) fn memory(&self) -> Option<(Option<&'a Memory>, bool)> {
        self.memory.map(|memory| (memory, self.kind == Some('*')))
    }
}
