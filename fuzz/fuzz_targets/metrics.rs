//! Fuzzes the readers of metrics: JSON lines and TensorBoard event files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::job;

fuzz_target!(|data: &[u8]| job::metrics(data));
