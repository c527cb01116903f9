//! The data of a run: readers of relational graphs, labels and features, and generated graphs.

pub(crate) mod features;
pub mod generate;
pub mod import;
pub(crate) mod labels;
