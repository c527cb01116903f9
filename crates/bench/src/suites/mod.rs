//! Measurements of programs that are not the `shardgraph` binary: criterion benches, operations between ranks, kernels on a GPU.

mod built;
mod collectives;
mod gpu;
mod micro;

pub(crate) use collectives::run as collectives;
pub(crate) use gpu::run as gpu;
pub(crate) use micro::run as micro;
