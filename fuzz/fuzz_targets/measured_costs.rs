//! Fuzzes the reader of measured costs of ops.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::costs;

fuzz_target!(|data: &[u8]| costs::measured(data));
