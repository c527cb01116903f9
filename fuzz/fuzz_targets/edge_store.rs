//! Fuzzes the reader of edge stores.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::line;

fuzz_target!(|data: &[u8]| line::edge_store(data));
