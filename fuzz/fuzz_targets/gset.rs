//! Fuzzes the reader of Gset and rudy files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::graphs;
use shardgraph_graph::Format;

fuzz_target!(|data: &[u8]| graphs::check(data, Format::Gset));
