//! Ranks that are killed or stopped, jobs that are killed and resumed, and readers under libFuzzer.

pub(crate) mod faults;
pub(crate) mod fuzz;
pub(crate) mod injected;
pub(crate) mod kills;
pub(crate) mod ranks;
mod run_folder;
pub(crate) mod strangers;
