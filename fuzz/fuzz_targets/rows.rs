//! Fuzzes the reader of blocks of rows as bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::bytes;

fuzz_target!(|data: &[u8]| bytes::rows(data));
