//! Fuzzes the reader of checkpoints: the MANIFEST, the JSON and tensor files, and checkpoints from other ranks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::job;

fuzz_target!(|data: &[u8]| job::checkpoint(data));
