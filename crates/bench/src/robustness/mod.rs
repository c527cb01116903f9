//! Ranks that are killed or stopped, jobs that are killed and resumed, and hostile inputs.

pub(crate) mod faults;
pub(crate) mod fuzz;
pub(crate) mod injected;
pub(crate) mod inputs;
pub(crate) mod kills;
mod mutation;
pub(crate) mod ranks;
mod run_folder;
pub(crate) mod strangers;
