//! Child processes: cargo with a quiet terminal.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::Result;
use shardgraph_records::process;
pub(crate) use shardgraph_records::process::{Stopwatch, check, each_line, shown, stdout_of};

use crate::project;

/// A command in the workspace root that neither asks questions nor draws progress bars.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = process::command(program);
    if let Some(seed) = PROPERTY_SEED.get() {
        command.env(PROPERTY_SEED_NAME, seed);
    }
    command
}

/// What proptest begins its random cases with.
const PROPERTY_SEED_NAME: &str = "PROPTEST_RNG_SEED";

static PROPERTY_SEED: OnceLock<String> = OnceLock::new();

/// Every run of CI draws these cases, so that what fails was broken by the change and not by the draw. Another seed in the environment, or a
/// plain `cargo test`, tries others.
const SEED_OF_CI: u64 = 16_881_208_236_541_751_748;

/// From here on every child draws the same random cases. The caller's own seed, where the environment has one, stays. Gives the seed.
pub(crate) fn seed_properties() -> String {
    let own = std::env::var(PROPERTY_SEED_NAME).ok();
    let seed = own.unwrap_or_else(|| SEED_OF_CI.to_string());
    PROPERTY_SEED.get_or_init(|| seed).clone()
}

/// How cargo builds here, where the caller's environment does not say: whole and once, in one unit a crate and without debug
/// information.
const BUILD: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_DEV_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
];

/// The cargo that started us, with words that blanks part.
pub(crate) fn cargo(words: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = command(program);
    cargo.args(words.split(' '));
    for (name, value) in BUILD {
        if std::env::var_os(name).is_none() {
            cargo.env(name, value);
        }
    }
    cargo
}

/// Builds the release binary and returns its path.
pub(crate) fn build_shardgraph() -> Result<PathBuf> {
    check(&mut cargo(
        "build --release --locked --package shardgraph-cli",
    ))?;
    let name = format!("shardgraph{}", std::env::consts::EXE_SUFFIX);
    Ok(project::target().join("release").join(name))
}
