//! R-GCN: node classification on graphs whose edges have relations, without ever building a weight matrix for each relation.

#![forbid(unsafe_code)]

mod error;
pub mod generate;
mod graph;
pub mod import;
mod labels;
pub mod partition;

pub use error::{Error, ErrorKind};
pub use graph::{Edge, MAX_NODES, RelationalGraph};
pub use labels::Labels;
