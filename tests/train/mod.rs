//! End-to-end tests of `train`.

pub(crate) mod processes;
pub(crate) mod runs;
