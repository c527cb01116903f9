//! Fuzzes the reader of nodes' classes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::line;

fuzz_target!(|data: &[u8]| line::class_file(data));
