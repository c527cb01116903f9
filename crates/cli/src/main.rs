//! The binary `shardgraph`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    shardgraph_cli::run(std::env::args_os()).into()
}
