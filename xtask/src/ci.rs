//! `cargo xtask ci`: every check of the project, cheapest first, stopping at the first that fails. What builds in release
//! runs beside the others.

mod beside;
mod emulation;
mod mpi;
mod programs;
mod stages;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use lexopt::prelude::*;

use beside::Beside;

use crate::process::{self, Stopwatch};
use crate::test_log::TestLog;

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

const STAGES: [Stage; 16] = [
    Stage {
        name: "fmt",
        what: "formatting",
        run: stages::fmt,
    },
    Stage {
        name: "tidy",
        what: "the rules that no compiler checks",
        run: stages::tidy_stage,
    },
    // Before anything is compiled: the build embeds the kernels, and would be done again with others.
    Stage {
        name: "kernels",
        what: "the CUDA kernels compile, spill nothing and keep to their record",
        run: stages::kernels_stage,
    },
    Stage {
        name: "clippy",
        what: "lints, every target",
        run: stages::clippy,
    },
    Stage {
        name: "doc",
        what: "documentation builds without a warning",
        run: stages::doc,
    },
    Stage {
        name: "deny",
        what: "bans, licences and sources of the dependencies",
        run: stages::deny,
    },
    Stage {
        name: "test",
        what: "unit, integration and documentation tests",
        run: stages::test,
    },
    Stage {
        name: "mpi",
        what: "ranks as processes under MPI",
        run: mpi::stage,
    },
    Stage {
        name: "emulation-asan",
        what: "the kernels under AddressSanitizer and UndefinedBehaviorSanitizer",
        run: emulation::address,
    },
    Stage {
        name: "emulation-race",
        what: "the kernels without a data race, on small sizes",
        run: emulation::race,
    },
    Stage {
        name: "micro-benches",
        what: "criterion benches compile and run once",
        run: stages::micro_benches,
    },
    Stage {
        name: "package",
        what: "every crate packages and builds from its package",
        run: stages::package_stage,
    },
    Stage {
        name: "consumer",
        what: "a crate outside the workspace calls every library",
        run: stages::consumer,
    },
    Stage {
        name: "first-command",
        what: "the README's first command",
        run: stages::first_command,
    },
    Stage {
        name: "python",
        what: "the Python package: wheel, types, NetworkX's own tests",
        run: stages::python_stage,
    },
    Stage {
        name: "bench-test",
        what: "every bench definition, once, small",
        run: stages::bench_test,
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
    /// Adds what another `cargo xtask ci` printed; false where its closing line is missing.
    fn add(&mut self, text: &str) -> bool {
        let mut numbers = Vec::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("ci: ")) {
            if line.starts_with("SKIPPED: stage ") {
                self.skipped_stages.push(line.to_owned());
            } else if line.starts_with("SKIPPED: ") {
                self.tests.skips.push(line.to_owned());
            } else {
                let words = line.split([' ', ',']);
                numbers = words.filter_map(|word| word.parse::<u32>().ok()).collect();
            }
        }
        let [passed, failed, _, tests_passed, tests_failed, _, ignored] = numbers[..] else {
            return false;
        };
        self.n_passed += passed;
        self.n_failed += failed;
        self.tests.n_passed += u64::from(tests_passed);
        self.tests.n_failed += u64::from(tests_failed);
        self.tests.n_ignored += u64::from(ignored);
        true
    }

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
    run_stages(&chosen(&only)?, only.is_empty())
}

fn list() -> Result<ExitCode> {
    for stage in &STAGES {
        println!("{:<15} {}", stage.name, stage.what);
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

fn run_stages(stages: &[&Stage], is_all: bool) -> Result<ExitCode> {
    let watch = Stopwatch::start();
    let mut tally = Tally::default();
    let seed = process::seed_properties();
    println!("property tests draw their cases with PROPTEST_RNG_SEED={seed}");
    let mut beside = None;
    for stage in stages {
        if is_all && beside::STAGES.contains(&stage.name) {
            continue;
        }
        run_stage(stage, &mut tally);
        if tally.n_failed > 0 {
            break;
        }
        // After it nothing changes that a build embeds.
        if is_all && stage.name == "kernels" {
            beside = Some(Beside::start()?);
        }
    }
    if let Some(beside) = beside {
        beside.finish(&mut tally)?;
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

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

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
        assert_eq!(run_stages(&[&failing], false).unwrap(), ExitCode::FAILURE);
        assert_eq!(run_stages(&[&skipping], false).unwrap(), ExitCode::SUCCESS);
    }

    #[test]
    fn stages_are_chosen_by_name() {
        assert_eq!(chosen(&[]).unwrap().len(), STAGES.len());
        assert_eq!(chosen(&["doc".to_owned()]).unwrap()[0].name, "doc");
        assert!(chosen(&["docs".to_owned()]).is_err());
    }
}
