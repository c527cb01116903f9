//! `cargo xtask ci`: every check of the project, cheapest first, stopping at the first that fails. What builds in release
//! runs beside the others.

mod asked_for;
mod beside;
mod emulation;
mod mpi;
mod programs;
mod stages;
mod test_runs;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use beside::Beside;

use crate::absent::or_skip;
use crate::process::{self, Stopwatch};
use crate::test_log::TestLog;
use crate::{package, python};

/// What the flags say.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// This stage alone, or these
    #[arg(long, value_enum, value_name = "STAGE", hide_possible_values = true)]
    only: Vec<Stage>,
    /// Name the stages
    #[arg(long)]
    list: bool,
}

/// One check. What is absent here is an [`Absent`](crate::absent::Absent), which skips the stage.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Stage {
    /// formatting
    Fmt,
    /// the rules that no compiler checks
    Tidy,
    /// the CUDA kernels compile, spill nothing and keep to their record
    // Before anything is compiled: the build embeds the kernels, and would be done again with others.
    Kernels,
    /// lints, every target
    Clippy,
    /// documentation builds without a warning
    Doc,
    /// bans, licences and sources of the dependencies
    Deny,
    /// unit, integration and documentation tests
    Test,
    /// ranks as processes under MPI
    Mpi,
    /// the kernels under AddressSanitizer and UndefinedBehaviorSanitizer
    EmulationAsan,
    /// the kernels without a data race, on small sizes
    EmulationRace,
    /// criterion benches compile and run once
    MicroBenches,
    /// every crate packages and builds from its package
    Package,
    /// a crate outside the workspace calls every library
    Consumer,
    /// the README's first command
    FirstCommand,
    /// the Python package: wheel, types, NetworkX's own tests
    Python,
    /// every bench definition, once, small
    BenchTest,
}

impl Stage {
    /// The name on the command line, and what it checks.
    fn about(self) -> [String; 2] {
        let value = self.to_possible_value().unwrap_or_default();
        let what = value.get_help().map(ToString::to_string);
        [value.get_name().to_owned(), what.unwrap_or_default()]
    }

    fn run(self, log: &mut TestLog) -> Result<()> {
        match self {
            Stage::Fmt => stages::fmt(),
            Stage::Tidy => stages::tidy(),
            Stage::Kernels => stages::kernels(log),
            Stage::Clippy => stages::clippy(),
            Stage::Doc => stages::doc(),
            Stage::Deny => stages::deny(),
            Stage::Test => programs::run(log),
            Stage::Mpi => mpi::stage(log),
            Stage::EmulationAsan => emulation::address(log),
            Stage::EmulationRace => emulation::race(log),
            Stage::MicroBenches => stages::micro_benches(),
            Stage::Package => package::check_packages(),
            Stage::Consumer => package::run_consumer(),
            Stage::FirstCommand => stages::first_command(),
            Stage::Python => python::check(log),
            Stage::BenchTest => stages::bench_test(log),
        }
    }
}

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
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        for [name, what] in Stage::value_variants().iter().map(|stage| stage.about()) {
            println!("{name:<15} {what}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let watch = Stopwatch::start();
    let mut tally = Tally::default();
    let seed = process::seed_properties();
    println!("property tests draw their cases with PROPTEST_RNG_SEED={seed}");
    let is_all = args.only.is_empty();
    let mut beside = None;
    for &stage in Stage::value_variants() {
        let is_chosen = match is_all {
            true => !beside::STAGES.contains(&stage),
            false => args.only.contains(&stage),
        };
        if is_chosen && tally.n_failed == 0 {
            run_stage(stage.about(), |log| stage.run(log), &mut tally);
        }
        // After it nothing changes that a build embeds.
        if is_all && stage == Stage::Kernels && tally.n_failed == 0 {
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
    Ok(ExitCode::from(u8::from(tally.n_failed > 0)))
}

fn run_stage(
    [name, what]: [String; 2],
    check: impl FnOnce(&mut TestLog) -> Result<()>,
    tally: &mut Tally,
) {
    println!("\n=== {name}: {what}");
    let watch = Stopwatch::start();
    let outcome = check(&mut tally.tests);
    let seconds = watch.seconds();
    match or_skip(outcome, &format!("stage {name}"), &mut tally.skipped_stages) {
        Ok(Some(())) => {
            tally.n_passed += 1;
            println!("=== {name}: passed in {seconds:.1} s");
        }
        Ok(None) => println!(
            "=== {}",
            tally.skipped_stages.last().map_or("", |skip| skip)
        ),
        Err(error) => {
            tally.n_failed += 1;
            println!("=== {name}: FAILED after {seconds:.1} s: {error:#}");
            println!("=== run it again with: cargo xtask ci --only {name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;
    use crate::absent::absent;

    #[test]
    fn a_failing_stage_is_counted_and_a_skipped_one_named() {
        let about = |name: &str| [name.to_owned(), String::new()];
        let mut tally = Tally::default();
        run_stage(about("x"), |_| bail!("planted"), &mut tally);
        run_stage(about("y"), |_| Err(absent("no z")), &mut tally);
        assert_eq!(tally.skipped_stages, ["SKIPPED: stage y: no z"]);
        let closing = tally.closing_line();
        assert!(closing.starts_with("ci: 0 passed, 1 failed, 1 skipped"));
    }

    #[test]
    fn stages_have_names_and_say_what_they_check() {
        for stage in Stage::value_variants() {
            let [name, what] = stage.about();
            assert_eq!(Stage::from_str(&name, false), Ok(*stage));
            assert!(!what.is_empty(), "{name}");
        }
        assert!(Stage::from_str("docs", false).is_err());
    }
}
