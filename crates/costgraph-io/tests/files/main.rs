//! Readers, writers and generators of computation graphs, through the public interface.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]
#![expect(clippy::print_stdout, reason = "a skipped check is printed")]

mod bad_files;
mod bad_onnx;
mod formats;
mod hostile;
mod onnx_model;
mod onnx_ops;
mod real_graphs;
mod round_trips;
mod synthetic;

use shardgraph_costgraph::Error;
use shardgraph_costgraph_io::{Graphs, Imported, ReadOptions, read_bytes, read_graphs};
use std::path::PathBuf;

/// A file of tests/corpus.
fn corpus(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus")).join(name)
}

fn open(name: &str) -> Graphs {
    read_graphs(&corpus(name), &ReadOptions::default()).unwrap()
}

/// The only graph of these bytes; `name` decides on the format.
fn read(name: &str, bytes: &[u8]) -> Result<Imported, Error> {
    read_bytes(name, bytes, &ReadOptions::default())?.single()
}
