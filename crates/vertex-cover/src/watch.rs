//! [`Watch`]: how long something may take, by a clock of the caller's.

/// How long a call may take, by the caller's clock: this crate reads none.
///
/// ```
/// use shardgraph_vertex_cover::Watch;
///
/// let timer = std::time::SystemTime::now();
/// let seconds = || timer.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64());
/// let ten_seconds = Watch { clock: &seconds, deadline: Some(10.0) };
/// # let _ = ten_seconds;
/// ```
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Seconds from any start.
    pub clock: &'a dyn Fn() -> f64,
    /// Seconds that the call may take from its beginning; none are left where it is no number.
    pub deadline: Option<f64>,
}

impl Watch<'static> {
    /// No deadline, and a clock that stands still.
    #[must_use]
    pub fn unlimited() -> Watch<'static> {
        Watch {
            clock: &|| 0.0,
            deadline: None,
        }
    }
}

/// The watch over one call.
#[derive(Clone, Copy)]
pub(crate) struct Lap<'a> {
    watch: Watch<'a>,
    begin: f64,
}

impl<'a> Lap<'a> {
    pub(crate) fn begin(watch: &Watch<'a>) -> Lap<'a> {
        Lap {
            watch: *watch,
            begin: (watch.clock)(),
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        (self.watch.clock)() - self.begin
    }

    pub(crate) fn is_late(&self) -> bool {
        let deadline = self.watch.deadline;
        // A deadline that is no number is over at once.
        deadline.is_some_and(|deadline| deadline.is_nan() || self.seconds() >= deadline)
    }

    /// What is left, as the watch of a call within this one.
    pub(crate) fn rest(&self) -> Watch<'a> {
        Watch {
            clock: self.watch.clock,
            deadline: self
                .watch
                .deadline
                .map(|deadline| deadline - self.seconds()),
        }
    }
}
