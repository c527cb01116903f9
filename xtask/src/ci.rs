//! `cargo xtask ci`: every check of the project, cheapest first, stopping at the first that fails.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use lexopt::prelude::*;

use crate::process::{self, Stopwatch, cargo};
use crate::project::{self, Project};
use crate::test_log::TestLog;
use crate::{bench, package, tidy};

/// The release of cargo-deny that is built when none is installed.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// The README's first command, without `cargo`.
const FIRST_COMMAND: [&str; 5] = ["run", "--release", "--", "solve", "karate"];

/// One check.
struct Stage {
    name: &'static str,
    what: &'static str,
    run: fn(&mut TestLog) -> Result<Outcome>,
}

/// How a stage ended, when it did not fail.
enum Outcome {
    Passed,
    /// It could not run here, and why.
    Skipped(String),
}

const STAGES: [Stage; 11] = [
    Stage {
        name: "fmt",
        what: "formatting",
        run: fmt,
    },
    Stage {
        name: "tidy",
        what: "the rules that no compiler checks",
        run: tidy_stage,
    },
    Stage {
        name: "clippy",
        what: "lints, every target",
        run: clippy,
    },
    Stage {
        name: "doc",
        what: "documentation builds without a warning",
        run: doc,
    },
    Stage {
        name: "deny",
        what: "bans, licences and sources of the dependencies",
        run: deny,
    },
    Stage {
        name: "test",
        what: "unit, integration and documentation tests",
        run: test,
    },
    Stage {
        name: "micro-benches",
        what: "criterion benches compile and run once",
        run: micro_benches,
    },
    Stage {
        name: "package",
        what: "every crate packages and builds from its package",
        run: package_stage,
    },
    Stage {
        name: "consumer",
        what: "a crate outside the workspace calls every library",
        run: consumer,
    },
    Stage {
        name: "first-command",
        what: "the README's first command",
        run: first_command,
    },
    Stage {
        name: "bench-test",
        what: "every bench definition, once, small",
        run: bench_test,
    },
];

/// What has happened so far.
#[derive(Default)]
struct Tally {
    n_passed: u32,
    n_failed: u32,
    skipped_stages: Vec<String>,
    tests: TestLog,
}

impl Tally {
    fn closing_line(&self) -> String {
        let (stages, tests) = (&self.skipped_stages, &self.tests);
        format!(
            "ci: {} passed, {} failed, {} skipped; tests: {} passed, {} failed, {} skipped, {} ignored",
            self.n_passed,
            self.n_failed,
            stages.len(),
            tests.n_passed,
            tests.n_failed,
            tests.skips.len(),
            tests.n_ignored,
        )
    }
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let mut only: Vec<String> = Vec::new();
    while let Some(arg) = args.next()? {
        match arg {
            Long("only") => only.push(args.value()?.string()?),
            Long("list") => return list(),
            other => return Err(other.unexpected().into()),
        }
    }
    run_stages(&chosen(&only)?)
}

fn list() -> Result<ExitCode> {
    for stage in &STAGES {
        println!("{:<14} {}", stage.name, stage.what);
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(only: &[String]) -> Result<Vec<&'static Stage>> {
    for name in only {
        ensure!(
            STAGES.iter().any(|stage| stage.name == name),
            "no stage {name:?}: `cargo xtask ci --list` names them"
        );
    }
    let is_chosen = |stage: &&Stage| only.is_empty() || only.iter().any(|name| name == stage.name);
    Ok(STAGES.iter().filter(is_chosen).collect())
}

fn run_stages(stages: &[&Stage]) -> Result<ExitCode> {
    let watch = Stopwatch::start();
    let mut tally = Tally::default();
    for stage in stages {
        run_stage(stage, &mut tally);
        if tally.n_failed > 0 {
            break;
        }
    }
    for skip in tally.skipped_stages.iter().chain(&tally.tests.skips) {
        println!("ci: {skip}");
    }
    println!("{} ({:.0} s)", tally.closing_line(), watch.seconds());
    Ok(if tally.n_failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_stage(stage: &Stage, tally: &mut Tally) {
    println!("\n=== {}: {}", stage.name, stage.what);
    let watch = Stopwatch::start();
    let outcome = (stage.run)(&mut tally.tests);
    let seconds = watch.seconds();
    match outcome {
        Ok(Outcome::Passed) => {
            tally.n_passed += 1;
            println!("=== {}: passed in {seconds:.1} s", stage.name);
        }
        Ok(Outcome::Skipped(why)) => {
            println!("=== {}: SKIPPED: {why}", stage.name);
            tally
                .skipped_stages
                .push(format!("SKIPPED: stage {}: {why}", stage.name));
        }
        Err(error) => {
            tally.n_failed += 1;
            println!("=== {}: FAILED after {seconds:.1} s: {error:#}", stage.name);
            println!(
                "=== run it again with: cargo xtask ci --only {}",
                stage.name
            );
        }
    }
}

/// Shows the command, then runs it.
fn check(command: &mut Command) -> Result<Outcome> {
    println!("$ {}", process::shown(command));
    process::check(command)?;
    Ok(Outcome::Passed)
}

fn fmt(_: &mut TestLog) -> Result<Outcome> {
    check(&mut cargo(&[
        "fmt",
        "--all",
        "--check",
        "--",
        "--color=never",
    ]))
}

fn tidy_stage(_: &mut TestLog) -> Result<Outcome> {
    let findings = tidy::findings(&Project::load()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(Outcome::Passed)
}

fn clippy(_: &mut TestLog) -> Result<Outcome> {
    check(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

fn doc(_: &mut TestLog) -> Result<Outcome> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    check(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn deny(_: &mut TestLog) -> Result<Outcome> {
    let mut deny = process::command(cargo_deny()?);
    // It looks at every platform's crates; the ones of other platforms are not here yet.
    check(&mut cargo(&["fetch", "--locked"]))?;
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
        let mut install = cargo(&[
            "install",
            "cargo-deny",
            "--version",
            CARGO_DENY_VERSION,
            "--locked",
        ]);
        // A debug build without the features that only `fetch` needs takes a third of the time.
        install
            .args(["--debug", "--no-default-features", "--quiet", "--root"])
            .arg(&tools);
        check(install.env("CARGO_TARGET_DIR", &build))?;
        std::fs::remove_dir_all(&build).with_context(|| build.display().to_string())?;
    }
    Ok(program)
}

fn test(log: &mut TestLog) -> Result<Outcome> {
    let mut test = cargo(&["test", "--workspace", "--locked", "--", "--show-output"]);
    run_tests(&mut test, log)
}

fn micro_benches(_: &mut TestLog) -> Result<Outcome> {
    let benches = package::bench_targets()?;
    if benches.is_empty() {
        return Ok(Outcome::Skipped("no crate has a bench target".to_owned()));
    }
    // Through `cargo test`, criterion runs every bench function once and takes no samples.
    let mut test = cargo(&["test", "--workspace", "--locked"]);
    for name in benches {
        test.args(["--bench", &name]);
    }
    check(&mut test)
}

fn run_tests(command: &mut Command, log: &mut TestLog) -> Result<Outcome> {
    println!("$ {}", process::shown(command));
    let all_passed = process::each_line(command, |line| {
        if log.line(line) {
            println!("{line}");
        }
    })?;
    ensure!(all_passed, "tests fail: {}", process::shown(command));
    Ok(Outcome::Passed)
}

fn package_stage(_: &mut TestLog) -> Result<Outcome> {
    package::check_packages()?;
    Ok(Outcome::Passed)
}

fn consumer(_: &mut TestLog) -> Result<Outcome> {
    package::run_consumer()?;
    Ok(Outcome::Passed)
}

fn first_command(_: &mut TestLog) -> Result<Outcome> {
    let mut first = cargo(&FIRST_COMMAND);
    println!("$ {}", process::shown(&first));
    let stdout = process::stdout_of(&mut first)?;
    print!("{stdout}");
    ensure!(
        says_verified(&stdout),
        "no line of the answer says `verified yes`"
    );
    Ok(Outcome::Passed)
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

fn bench_test(log: &mut TestLog) -> Result<Outcome> {
    let report = bench::test_all(&[])?;
    log.skips.extend(report.skips);
    if !report.failures.is_empty() {
        bail!("{}", report.failures.join("; "));
    }
    Ok(Outcome::Passed)
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
    fn a_failing_stage_is_counted_and_a_skipped_one_named() {
        let failing = Stage {
            name: "x",
            what: "",
            run: |_| bail!("planted"),
        };
        let skipping = Stage {
            name: "y",
            what: "",
            run: |_| Ok(Outcome::Skipped("absent".into())),
        };
        let mut tally = Tally::default();
        run_stage(&failing, &mut tally);
        run_stage(&skipping, &mut tally);
        assert_eq!(tally.skipped_stages, ["SKIPPED: stage y: absent"]);
        assert!(
            tally
                .closing_line()
                .starts_with("ci: 0 passed, 1 failed, 1 skipped")
        );
        assert_eq!(run_stages(&[&failing]).unwrap(), ExitCode::FAILURE);
        assert_eq!(run_stages(&[&skipping]).unwrap(), ExitCode::SUCCESS);
    }

    #[test]
    fn stages_are_chosen_by_name() {
        assert_eq!(chosen(&[]).unwrap().len(), STAGES.len());
        assert_eq!(chosen(&["doc".to_owned()]).unwrap()[0].name, "doc");
        assert!(chosen(&["docs".to_owned()]).is_err());
    }

    #[test]
    fn the_readme_shows_the_first_command() {
        let readme = Project::load().unwrap().text("README.md").to_owned();
        assert!(readme.contains(&format!("cargo {}", FIRST_COMMAND.join(" "))));
        assert!(readme.contains("cargo xtask ci"));
    }
}
