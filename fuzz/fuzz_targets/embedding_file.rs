//! Fuzzes the readers of embeddings.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardgraph_fuzz::line;

fuzz_target!(|data: &[u8]| line::embedding_file(data));
