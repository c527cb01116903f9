//! The kernels that only this crate launches.

pub mod sgns;
