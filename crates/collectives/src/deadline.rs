//! How long a rank waits for its peers before it gives up.

use std::time::{Duration, Instant};

/// The longest time that one wait inside an operation may take; the default is 600 s.
///
/// A deadline bounds each wait for peers, not the whole operation: an operation that meets its peers twice may take twice
/// as long. What a rank computes or copies itself is not counted.
///
/// ```
/// use shardgraph_collectives::Deadline;
/// use std::time::Duration;
///
/// assert_eq!(Deadline::default().duration(), Duration::from_secs(600));
/// assert_eq!(Deadline::after(Duration::from_millis(50)).duration(), Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    after: Duration,
}

impl Deadline {
    /// A deadline of `after` for every wait; anything above a year counts as a year.
    pub fn after(after: Duration) -> Deadline {
        Deadline {
            after: after.min(Duration::from_secs(365 * 24 * 3600)),
        }
    }

    /// The time that a wait may take.
    pub fn duration(self) -> Duration {
        self.after
    }
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline::after(Duration::from_secs(600))
    }
}

/// The moment at which one wait is given up.
#[derive(Clone, Copy)]
pub(crate) struct Expiry(Instant);

impl Expiry {
    #[expect(
        clippy::disallowed_methods,
        reason = "a deadline is wall-clock time on the host, nothing is measured here"
    )]
    fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn of(deadline: Deadline) -> Expiry {
        Expiry(Expiry::now() + deadline.after)
    }

    /// The time left, or `None` once the moment has passed.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .checked_duration_since(Expiry::now())
            .filter(|left| !left.is_zero())
    }
}
