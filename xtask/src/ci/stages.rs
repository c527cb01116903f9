//! What each stage of `cargo xtask ci` does.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::absent::absent;
use crate::package;
use crate::process::{self, cargo};
use crate::project::{self, Project};
use crate::test_log::TestLog;

/// The release of cargo-deny that is built when none is installed.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// The README's first command, without `cargo`.
const FIRST_COMMAND: &str = "run --release -- solve karate";

/// Shows the command, then runs it.
fn check(command: &mut Command) -> Result<()> {
    println!("$ {}", process::shown(command));
    process::check(command)
}

pub(super) fn fmt() -> Result<()> {
    check(&mut cargo("fmt --all --check -- --color=never"))
}

pub(super) fn tidy() -> Result<()> {
    let findings = crate::tidy::findings(&Project::load()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(())
}

pub(super) fn kernels(log: &mut TestLog) -> Result<()> {
    let built = crate::kernels::build(&crate::kernels::Args::default())?;
    println!("{}", built.summary);
    log.skips.extend(built.skips);
    Ok(())
}

pub(super) fn clippy() -> Result<()> {
    check(&mut cargo(
        "clippy --workspace --all-targets --locked -- -D warnings",
    ))
}

pub(super) fn doc() -> Result<()> {
    let mut doc = cargo("doc --workspace --no-deps --locked");
    check(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

pub(super) fn deny() -> Result<()> {
    let mut deny = process::command(cargo_deny()?);
    // It looks at every platform's crates; the ones of other platforms are not here yet.
    check(&mut cargo("fetch --locked"))?;
    check(deny.args(["--offline", "check", "bans", "licenses", "sources"]))
}

/// The installed cargo-deny, or one built into the target folder (45 s on two cores).
fn cargo_deny() -> Result<PathBuf> {
    let is_installed = process::stdout_of(process::command("cargo-deny").arg("--version"));
    if let Ok(version) = is_installed {
        println!("found {}", version.trim());
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = project::target().join("tools");
    let name = format!("cargo-deny{}", std::env::consts::EXE_SUFFIX);
    let program = tools.join("bin").join(name);
    if !program.exists() {
        let build = tools.join("build");
        let mut install = cargo("install cargo-deny --locked --version");
        install.arg(CARGO_DENY_VERSION);
        // A debug build without the features that only `fetch` needs takes a third of the time.
        install
            .args(["--debug", "--no-default-features", "--quiet", "--root"])
            .arg(&tools);
        check(install.env("CARGO_TARGET_DIR", &build))?;
        std::fs::remove_dir_all(&build).with_context(|| build.display().to_string())?;
    }
    Ok(program)
}

pub(super) fn micro_benches() -> Result<()> {
    let benches = package::bench_targets()?;
    if benches.is_empty() {
        return Err(absent("no crate has a bench target"));
    }
    // Through `cargo test`, criterion runs every bench function once and takes no samples.
    let mut test = cargo("test --workspace --locked");
    for name in benches {
        test.args(["--bench", &name]);
    }
    check(&mut test)
}

pub(super) fn run_tests(command: &mut Command, log: &mut TestLog) -> Result<()> {
    println!("$ {}", process::shown(command));
    let all_passed = process::each_line(command, |line| {
        if log.line(line) {
            println!("{line}");
        }
    })?;
    ensure!(all_passed, "tests fail: {}", process::shown(command));
    Ok(())
}

pub(super) fn first_command() -> Result<()> {
    let mut first = cargo(FIRST_COMMAND);
    println!("$ {}", process::shown(&first));
    let stdout = process::stdout_of(&mut first)?;
    print!("{stdout}");
    ensure!(
        says_verified(&stdout),
        "no line of the answer says `verified yes`"
    );
    Ok(())
}

fn says_verified(answer: &str) -> bool {
    answer.lines().any(|line| {
        let words: Vec<&str> = line
            .split([' ', '\t', ':'])
            .filter(|word| !word.is_empty())
            .collect();
        words.windows(2).any(|pair| pair == ["verified", "yes"])
    })
}

/// Every definition of `benches/` on a small input, with the programs that the tests were built with.
pub(super) fn bench_test(log: &mut TestLog) -> Result<()> {
    // Builds the binary that is measured, where `test` has not.
    let mut build = cargo("test --workspace --locked --no-run");
    process::check(build.args(["--test", "end_to_end", "--test", "definitions"]))?;
    // The test is off by default, so that `test` does not run it too.
    let mut test = cargo("test --workspace --locked --test definitions");
    run_tests(&mut test, log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_to_say_so() {
        assert!(says_verified("cover 14\nverified:   yes\n"));
        assert!(!says_verified("verified no\nyes"));
    }

    #[test]
    fn the_readme_shows_the_first_command() {
        let readme = Project::load().unwrap().text("README.md").to_owned();
        assert!(readme.contains(&format!("cargo {FIRST_COMMAND}")));
        assert!(readme.contains("cargo xtask ci"));
    }
}
