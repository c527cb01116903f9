//! Longest wait of a rank for its peers.

use std::time::{Duration, Instant};

/// The longest time that one wait inside an operation may take; the default is 600 s.
///
/// It bounds each wait for peers, not the whole operation: an operation that meets its peers twice
/// may take twice as long. What a rank computes or copies itself is not counted.
///
/// ```
/// use shardgraph_collectives::Timeout;
/// use std::time::Duration;
///
/// assert_eq!(Timeout::default().duration(), Duration::from_secs(600));
/// assert_eq!(Timeout::after(Duration::from_millis(50)).duration(), Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    after: Duration,
}

impl Timeout {
    /// A timeout of `after` for every wait; anything above a year counts as a year.
    pub fn after(after: Duration) -> Timeout {
        Timeout {
            after: after.min(Duration::from_secs(365 * 24 * 3600)),
        }
    }

    /// The time that a wait may take.
    pub fn duration(self) -> Duration {
        self.after
    }
}

impl Default for Timeout {
    fn default() -> Timeout {
        Timeout::after(Duration::from_secs(600))
    }
}

/// The moment at which one wait is given up.
#[derive(Clone, Copy)]
pub(crate) struct Expiry(Instant);

impl Expiry {
    #[expect(
        clippy::disallowed_methods,
        reason = "a timeout is wall-clock time on the host, nothing is measured here"
    )]
    fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn of(timeout: Timeout) -> Expiry {
        Expiry(Expiry::now() + timeout.after)
    }

    /// The earlier one of this moment and that after `duration`.
    pub(crate) fn within(self, duration: Duration) -> Expiry {
        Expiry(self.0.min(Expiry::now() + duration))
    }

    /// The time left, or `None` once the moment has passed.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .checked_duration_since(Expiry::now())
            .filter(|left| !left.is_zero())
    }
}
