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
    is_ended: bool,
}

impl<'w, 'a> Search<'w, 'a> {
    pub(crate) fn new(watch: &'w mut Watch<'a>) -> Search<'w, 'a> {
        Search {
            begin: (watch.clock)(),
            watch,
            n_before: 0,
            is_ended: false,
        }
    }

    /// True once somebody who looks on, or the deadline, has ended the search.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.is_ended || self.is_late()
    }

    pub(crate) fn seconds(&mut self) -> f64 {
        (self.watch.clock)() - self.begin
    }

    pub(crate) fn is_late(&mut self) -> bool {
        let deadline = self.watch.deadline;
        deadline.is_some_and(|deadline| self.seconds() >= deadline)
    }

    /// Tells how far the search has come; false when it is to end.
    pub(crate) fn goes_on(&mut self, evaluations: u64, best: (u64, u64)) -> bool {
        let evaluations = self.n_before + evaluations;
        let goes_on = (self.watch.on_progress)(Generation { evaluations, best }) && !self.is_late();
        self.is_ended |= !goes_on;
        goes_on
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
