//! The stages that run the tests of the kernels with the kernels compiled for the processor by a checking compiler.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::kernels::emulated;
use crate::package;
use crate::process;
use crate::test_log::TestLog;

/// The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, which make them about five times as slow.
pub(super) fn address(log: &mut TestLog) -> Result<()> {
    check_with("address", 24, log)
}

/// The kernels with every access compared with all others.
pub(super) fn race(log: &mut TestLog) -> Result<()> {
    check_with("race", 4, log)
}

/// Runs the tests that open the emulator with the library of one build, with so many cases of each property.
fn check_with(build: &str, n_cases: u32, log: &mut TestLog) -> Result<()> {
    let environment = emulated::compile(build)?;
    for (_, program) in package::unit_tests_on_devices()? {
        // Of the test program alone: cargo under a sanitizer takes minutes.
        let mut test = process::command(program);
        test.arg("--show-output").envs(environment.clone());
        test.env("PROPTEST_CASES", n_cases.to_string());
        run_tests(&mut test, log, |line| println!("{line}"))?;
    }
    Ok(())
}

/// Here a test that skips the emulator is a failure; that it skips a GPU has been counted by the stage `test`.
fn run_tests(test: &mut Command, log: &mut TestLog, show: fn(&str)) -> Result<()> {
    show(&format!("$ {}", process::shown(test)));
    let mut own = TestLog::default();
    let all_passed = process::each_line(test, |line| {
        if own.line(line) {
            show(line);
        }
    })?;
    log.n_passed += own.n_passed;
    log.n_failed += own.n_failed;
    ensure!(all_passed, "tests fail: {}", process::shown(test));
    let skip = own.skips.iter().find(|skip| skip.contains("`emulated`"));
    ensure!(
        skip.is_none(),
        "the emulator was skipped: {}",
        skip.map_or("", String::as_str)
    );
    ensure!(own.n_passed > 0, "no test ran: {}", process::shown(test));
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(script: &str) -> Result<TestLog> {
        let mut log = TestLog::default();
        let mut shell = process::command("/bin/sh");
        // Not shown: the log of the tests that this is one of counts such lines.
        run_tests(shell.args(["-c", script]), &mut log, |_| ())?;
        Ok(log)
    }

    #[test]
    fn the_emulator_must_not_be_skipped() {
        let passed = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored;'";
        let log = log_of(&format!(
            "echo 'SKIPPED: x: device `cuda` is not'; {passed}"
        ))
        .unwrap();
        assert!(log.n_passed == 3 && log.skips.is_empty());
        assert!(
            log_of(&format!(
                "echo 'SKIPPED: x: device `emulated` is not'; {passed}"
            ))
            .is_err()
        );
        assert!(log_of(&format!("{passed}; exit 1")).is_err());
        assert!(log_of("echo 'test result: ok. 0 passed; 0 failed; 0 ignored;'").is_err());
    }
}
