//! End-to-end tests of `solve`, `score` and `eval`.

pub(crate) mod communication;
pub(crate) mod devices;
pub(crate) mod drawing;
pub(crate) mod eval;
pub(crate) mod nccl;
pub(crate) mod problems;
pub(crate) mod ranks;
pub(crate) mod real_graphs;
pub(crate) mod second_opinion;
pub(crate) mod several;
pub(crate) mod small_graphs;
pub(crate) mod stages;
