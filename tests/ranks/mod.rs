//! End-to-end tests of ranks in processes, and of their ends.

pub(crate) mod drivers;
pub(crate) mod kill;
pub(crate) mod launchers;
pub(crate) mod processes;
