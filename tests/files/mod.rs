//! End-to-end tests of what goes in and out of files, good and bad.

pub(crate) mod bad_input;
pub(crate) mod formats;
pub(crate) mod generated_graphs;
pub(crate) mod hostile_files;
pub(crate) mod kept_files;
pub(crate) mod standard_streams;
