//! Fuzzes the reader of policy files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::bytes;

fuzz_target!(|data: &[u8]| bytes::policy(data));
