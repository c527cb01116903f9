//! Fuzzes the readers of triples, and cuts of what they read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::rgcn;

fuzz_target!(|data: &[u8]| rgcn::triples(data));
