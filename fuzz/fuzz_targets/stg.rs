//! Fuzzes the reader of the Standard Task Graph set.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_costgraph_io::Format;
use shardgraph_fuzz::costs;

fuzz_target!(|data: &[u8]| costs::check(data, Format::Stg));
