//! The stages that run the tests of the kernels with the kernels compiled for the processor by a checking compiler.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Result, ensure};

use super::asked_for::AskedFor;
use super::test_runs::{self, Done, TestRun};
use crate::kernels::emulated;
use crate::package;
use crate::test_log::TestLog;

/// The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, which make them about five times as slow.
pub(super) fn address(log: &mut TestLog) -> Result<()> {
    check_with("address", 24, log)
}

/// The kernels with every access compared with all others.
pub(super) fn race(log: &mut TestLog) -> Result<()> {
    check_with("race", 4, log)
}

/// Runs the tests that open the emulator with the library of one build, with so many cases of each property. Which those are, the stage
/// `test` has written down; of a program that it has not run, all tests run.
fn check_with(build: &str, n_cases: u32, log: &mut TestLog) -> Result<()> {
    let environment = emulated::compile(build)?;
    let mut runs = VecDeque::new();
    let mut expected = BTreeMap::new();
    for program in test_runs::by_size(package::unit_tests_on_devices()?)? {
        // The program alone: cargo under a sanitizer takes minutes.
        let mut run = TestRun::of(&program);
        run.command.envs(environment.clone());
        run.command.env("PROPTEST_CASES", n_cases.to_string());
        if let Some(tests) = AskedFor::of(&program.path).tests() {
            println!("{}: {} tests ask for the emulator", run.name, tests.len());
            run.command.arg("--exact").args(&tests);
            expected.insert(run.name.clone(), tests.len() as u64);
        } else {
            println!("{}: all tests, for want of a list", run.name);
        }
        runs.push_back(run);
    }
    test_runs::run_all(runs, test_runs::print, &mut |done| {
        take(
            done,
            expected.get(&done.name).copied(),
            log,
            test_runs::print,
        )
    })
}

/// Here a test that skips the emulator is a failure; that it skips a GPU has been counted by the stage `test`.
fn take(done: &Done, expected: Option<u64>, log: &mut TestLog, print: fn(&str)) -> Result<()> {
    let mut own = TestLog::default();
    let shown = done.output.lines().filter(|line| own.line(line));
    shown.for_each(print);
    log.n_passed += own.n_passed;
    log.n_failed += own.n_failed;
    let name = &done.name;
    let skip = own.skips.iter().find(|skip| skip.contains("`emulated`"));
    ensure!(
        skip.is_none(),
        "{name}: the emulator was skipped: {}",
        skip.map_or("", String::as_str)
    );
    let n_run = own.n_passed + own.n_failed;
    ensure!(n_run > 0 || !done.has_passed, "{name}: no test ran");
    // A name that is no test's is of a thread that a test has started, and leaves its test out.
    ensure!(
        expected.is_none_or(|expected| n_run == expected) || !done.has_passed,
        "{name}: {} names have asked for the emulator, and {n_run} tests ran: ask on the test's own thread",
        expected.unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(output: &str, expected: Option<u64>) -> Result<TestLog> {
        let mut log = TestLog::default();
        let done = Done::of("x", output);
        // Not shown: the log of the tests that this is one of counts such lines.
        take(&done, expected, &mut log, |_| ())?;
        Ok(log)
    }

    #[test]
    fn the_emulator_must_not_be_skipped() {
        let passed = "test result: ok. 3 passed; 0 failed; 0 ignored;";
        let gpu = format!("SKIPPED: x: device `cuda` is not\n{passed}");
        let log = log_of(&gpu, None).unwrap();
        assert!(log.n_passed == 3 && log.skips.is_empty());
        let emulator = format!("SKIPPED: x: device `emulated` is not\n{passed}");
        assert!(log_of(&emulator, None).is_err());
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored;";
        assert!(log_of(none, None).is_err());
    }

    #[test]
    fn every_test_that_asks_for_the_emulator_runs() {
        let passed = "test result: ok. 3 passed; 0 failed; 0 ignored;";
        assert!(log_of(passed, Some(3)).is_ok());
        let error = log_of(passed, Some(4)).err().unwrap().to_string();
        assert!(error.contains("4 names have asked"), "{error}");
    }
}
