//! Runs every definition of `benches/` once on a small input. Off by default, as it takes minutes: `cargo test --test definitions`.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let program = env!("CARGO_BIN_EXE_shardgraph-bench");
    let runs: [&[&str]; 4] = [
        &["bench", "--test"],
        // Figures by ranks the other ways: what is missing here is a skip.
        &[
            "bench",
            "scaling",
            "--test",
            "--ranks",
            "1,2",
            "--backend",
            "tcp",
        ],
        &[
            "bench",
            "scaling",
            "--test",
            "--ranks",
            "1,2",
            "--backend",
            "local",
        ],
        &[
            "bench",
            "scaling",
            "--test",
            "--ranks",
            "1,2",
            "--backend",
            "nccl",
        ],
    ];
    for words in runs {
        let status = Command::new(program).args(words).status();
        if !status.is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
