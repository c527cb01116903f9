//! Fuzzes the reader of replay memories as bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::bytes;

fuzz_target!(|data: &[u8]| bytes::episode_memory(data));
