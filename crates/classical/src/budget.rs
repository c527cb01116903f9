//! [`Budget`]: how long a call may take, by a clock of the caller's, and whether it should end now.

/// Time that a call may take, by the caller's clock (this crate reads none), and a switch that ends it earlier.
///
/// ```
/// use shardgraph_classical::Budget;
///
/// let timer = std::time::SystemTime::now();
/// let seconds = || timer.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64());
/// let ten_seconds = Budget::seconds(&seconds, 10.0);
/// # let _ = ten_seconds;
/// ```
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Seconds from any start.
    pub clock: &'a (dyn Fn() -> f64 + Sync),
    /// Seconds that the call may take from its beginning; none are left where it is NaN.
    pub time_limit: Option<f64>,
    /// True once the call should end with the best so far, for example after an interrupt.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Budget<'static> {
    /// No limit, and a clock that stands still.
    #[must_use]
    pub fn unlimited() -> Budget<'static> {
        Budget {
            clock: &|| 0.0,
            time_limit: None,
            is_cancelled: &|| false,
        }
    }
}

impl<'a> Budget<'a> {
    /// So many seconds by this clock.
    #[must_use]
    pub fn seconds(clock: &'a (dyn Fn() -> f64 + Sync), seconds: f64) -> Budget<'a> {
        Budget {
            clock,
            time_limit: Some(seconds),
            is_cancelled: &|| false,
        }
    }
}

/// The time of one call against its budget.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch<'a> {
    budget: Budget<'a>,
    begin: f64,
}

impl<'a> Stopwatch<'a> {
    pub(crate) fn begin(budget: &Budget<'a>) -> Stopwatch<'a> {
        Stopwatch {
            budget: *budget,
            begin: (budget.clock)(),
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        (self.budget.clock)() - self.begin
    }

    /// True once the time is over or the call is cancelled.
    pub(crate) fn is_late(&self) -> bool {
        let limit = self.budget.time_limit;
        // A limit that is NaN is over at once.
        limit.is_some_and(|limit| limit.is_nan() || self.seconds() >= limit)
            || (self.budget.is_cancelled)()
    }

    /// The time that is left, as the budget of a call within this one.
    pub(crate) fn rest(&self) -> Budget<'a> {
        Budget {
            time_limit: self.budget.time_limit.map(|limit| limit - self.seconds()),
            ..self.budget
        }
    }

    /// A share of the time that is left.
    pub(crate) fn share(&self, share: f64) -> Budget<'a> {
        let rest = self.rest();
        Budget {
            time_limit: rest.time_limit.map(|seconds| share * seconds),
            ..rest
        }
    }
}
