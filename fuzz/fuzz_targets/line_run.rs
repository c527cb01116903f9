//! Fuzzes the state of a LINE run with its tables on disk.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::line;

fuzz_target!(|data: &[u8]| line::line_run(data));
