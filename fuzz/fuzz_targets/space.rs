//! Fuzzes the reader of spaces as JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::bytes;

fuzz_target!(|data: &[u8]| bytes::space(data));
