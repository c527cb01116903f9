//! The kernels that only this crate launches: greedy covers with everything on the device, and bit-matrix loops.

pub mod bits;
pub mod cover;
