//! The output of `cargo test -- --show-output`, cut down to what a reader of the log needs.
//!
//! libtest prints what passing tests wrote in a section `successes:` of each test binary. Of that
//! only the lines that start with `SKIPPED:` pass through, so the log stays bounded; the names of the
//! tests, every `test result:` line and the whole output of failing tests pass as they are.

/// The mark that a test prints when it cannot run here, followed by what is missing.
const SKIP_MARK: &str = "SKIPPED:";

/// Filters and counts the lines of a test run.
#[derive(Default)]
pub(crate) struct TestLog {
    pub(crate) n_passed: u64,
    pub(crate) n_failed: u64,
    pub(crate) n_ignored: u64,
    /// Every `SKIPPED:` line, in order.
    pub(crate) skips: Vec<String>,
    in_successes: bool,
}

impl TestLog {
    /// Takes the next line; true if it is to be shown.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ if line.starts_with("test result:") => {
                self.in_successes = false;
                self.count(line);
            }
            _ if line.starts_with(SKIP_MARK) => {
                self.skips.push(line.to_owned());
                return true;
            }
            _ => {}
        }
        !self.in_successes
    }

    /// Adds up `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; ...`.
    fn count(&mut self, line: &str) {
        let numbered = |name: &str| -> u64 {
            let before = line.split(name).next().unwrap_or_default();
            before
                .rsplit(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(0)
        };
        self.n_passed += numbered(" passed");
        self.n_failed += numbered(" failed");
        self.n_ignored += numbered(" ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\nrunning 3 tests\ntest a ... ok\ntest b ... ok\ntest c ... FAILED\n\nsuccesses:\n\n\
        ---- a stdout ----\nchatter\nSKIPPED: no data folder\n\n\nsuccesses:\n    a\n    b\n\nfailures:\n\n\
        ---- c stdout ----\nthe reason\n\n\nfailures:\n    c\n\n\
        test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 5 filtered out; finished in 0.00s\n\
        \nrunning 1 test\ntest result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    #[test]
    fn counts_and_keeps_what_matters() {
        let mut log = TestLog::default();
        let shown: Vec<&str> = LOG.lines().filter(|line| log.line(line)).collect();
        assert_eq!((log.n_passed, log.n_failed, log.n_ignored), (12, 1, 4));
        assert_eq!(log.skips, ["SKIPPED: no data folder"]);
        assert!(shown.contains(&"test a ... ok") && shown.contains(&"the reason"));
        assert!(shown.contains(&"SKIPPED: no data folder"));
        assert!(!shown.contains(&"chatter"));
        assert_eq!(
            shown
                .iter()
                .filter(|line| line.starts_with("test result:"))
                .count(),
            2
        );
    }
}
