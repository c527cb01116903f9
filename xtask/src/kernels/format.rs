//! The layout of `cuda/`, by clang-format and `cuda/.clang-format`.

use anyhow::{Context as _, Result};

use super::sources::Source;
use super::toolchain;
use crate::process;

/// A line for each place that clang-format would change; absent without a clang-format.
pub(super) fn findings(sources: &[Source]) -> Result<Vec<String>> {
    let clang_format = toolchain::formatter()?;
    let mut command = process::command(&clang_format);
    command.args(["--dry-run", "--Werror", "--style=file"]);
    command.args(sources.iter().map(|source| format!("cuda/{}", source.name)));
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", process::shown(&command)))?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let places = text.lines().filter(|line| line.contains(": error:"));
    let mut findings: Vec<String> = places.map(str::to_owned).collect();
    findings.push(format!(
        "cuda/.clang-format:1: run {} -i on the files",
        clang_format.display()
    ));
    Ok(findings)
}
