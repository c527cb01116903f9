//! Who looks on while plans are made, and ends that early.

use shardgraph_brkga::Generation;

/// Who looks on while plans are made, and may end that early.
pub struct Watch<'a> {
    /// Seconds from any start.
    pub clock: &'a mut dyn FnMut() -> f64,
    /// The seconds of each search: it ends with the best so far, in the midst of a generation if need be. The greedy methods, whose
    /// time grows with the square of the ops that are ready, then stop to choose. The other methods that make one schedule, and each
    /// warm start of that kind, go on to its end.
    pub deadline: Option<f64>,
    /// Sees how far a search has come, after each generation of a genetic algorithm and now and then during other searches; returning
    /// false ends the search with the best so far. Methods that make one schedule never ask.
    pub on_progress: &'a mut dyn FnMut(Generation) -> bool,
}

/// The watch over one search, which began at a time.
pub(crate) struct Search<'w, 'a> {
    watch: &'w mut Watch<'a>,
    begin: f64,
    /// Evaluations that the part of the search that is watched now does not count.
    pub(crate) n_before: u64,
    /// When the part that is watched now ends, in seconds of [`Search::seconds`].
    pub(crate) until: Option<f64>,
    is_ended: bool,
}

impl<'w, 'a> Search<'w, 'a> {
    pub(crate) fn new(watch: &'w mut Watch<'a>) -> Search<'w, 'a> {
        Search {
            begin: (watch.clock)(),
            watch,
            n_before: 0,
            until: None,
            is_ended: false,
        }
    }

    /// True once somebody who looks on, or the deadline, has ended the search.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.is_ended || self.seconds_left().is_some_and(|left| left <= 0.0)
    }

    pub(crate) fn seconds(&mut self) -> f64 {
        (self.watch.clock)() - self.begin
    }

    /// The time to the deadline, where there is one.
    pub(crate) fn seconds_left(&mut self) -> Option<f64> {
        let deadline = self.watch.deadline?;
        Some(deadline - self.seconds())
    }

    /// True once the deadline has passed, or the time of the part that is watched now.
    pub(crate) fn is_late(&mut self) -> bool {
        let ends = [self.watch.deadline, self.until].into_iter().flatten();
        let end = ends.min_by(f64::total_cmp);
        end.is_some_and(|end| self.seconds() >= end)
    }

    /// Tells how far the search has come; false when the part that is watched now is to end.
    pub(crate) fn goes_on(&mut self, evaluations: u64, best: (u64, u64)) -> bool {
        let evaluations = self.n_before + evaluations;
        let is_wanted = (self.watch.on_progress)(Generation { evaluations, best });
        self.is_ended |= !is_wanted;
        is_wanted && !self.is_late()
    }
}

/// Runs something with a watch that sees nothing and lets everything go on.
pub(crate) fn unwatched<T>(run: impl FnOnce(&mut Watch<'_>) -> T) -> T {
    run(&mut Watch {
        clock: &mut || 0.0,
        deadline: None,
        on_progress: &mut |_| true,
    })
}
