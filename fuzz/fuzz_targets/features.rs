//! Fuzzes the reader of features of nodes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::rgcn;

fuzz_target!(|data: &[u8]| rgcn::features(data));
