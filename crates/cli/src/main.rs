//! The `shardgraph` binary.
fn main() {}
