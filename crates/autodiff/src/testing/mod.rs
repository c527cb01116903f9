//! For tests of crates that add operations: the reference interpreter, random programs, and devices.

mod naive;
mod random;

pub use naive::{Matrix, Naive, Reference, fill};
pub use random::{Choice, binary, fitting, pick, random_op, slots_are_apart};

use crate::{BufferPool, Program};

/// The same program, which fills each slot with NaN before it is written: what a kernel leaves out shows.
pub fn poisoned_program(mut program: Program) -> Program {
    program.poisons = true;
    program
}

/// The same pool, filled with NaN.
pub fn poisoned_pool(pool: BufferPool) -> BufferPool {
    pool.poisoned()
}

/// The bits of each value.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}
