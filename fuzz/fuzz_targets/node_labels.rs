//! Fuzzes the reader of tables of labels.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::rgcn;

fuzz_target!(|data: &[u8]| rgcn::node_labels(data));
