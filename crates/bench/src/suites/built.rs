//! Programs of the workspace, built by the cargo that started us.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process;

/// The cargo that started us, with `args`.
pub(super) fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = process::command(program);
    cargo.args(args);
    cargo
}

/// Builds, and returns target name and path of every executable.
pub(super) fn executables(command: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    println!("$ {}", process::shown(command));
    command.args(["--message-format", "json-render-diagnostics"]);
    let mut executables = Vec::new();
    for line in process::stdout_of(command)?.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let name = message["target"]["name"].as_str();
        if let (Some(name), Some(built)) = (name, message["executable"].as_str()) {
            executables.push((name.to_owned(), PathBuf::from(built)));
        }
    }
    ensure!(!executables.is_empty(), "cargo built no executable");
    Ok(executables)
}

/// Builds one bench target: as a test where it runs small, else optimised.
pub(super) fn bench_target(package: &str, target: &str, is_test: bool) -> Result<PathBuf> {
    let mut build = match is_test {
        // As CI has built it: another selection of packages may have other features.
        true => cargo(&["test", "--no-run", "--locked", "--workspace"]),
        false => cargo(&["bench", "--no-run", "--locked", "--package", package]),
    };
    let built = executables(build.args(["--bench", target]))?;
    let program = built.into_iter().find(|(name, _)| name == target);
    Ok(program
        .with_context(|| format!("cargo built no bench `{target}`"))?
        .1)
}
