//! Hands the revision of the checkout to `shardgraph --version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let found = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    // A package has no checkout around it: its revision is unknown.
    let revision = found
        .ok()
        .filter(|found| found.status.success() && log.exists());
    if let Some(text) = revision.and_then(|found| String::from_utf8(found.stdout).ok()) {
        println!("cargo::rustc-env=SHARDGRAPH_REVISION={}", text.trim());
    }
}
