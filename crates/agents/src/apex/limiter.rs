//! How often transitions are drawn for each one that comes.

/// Holds the number of drawn transitions near a fixed multiple of those inserted.
///
/// The debt is what should have been drawn of the transitions behind the first `min_rows`, less what was. Draws wait while they would
/// take it below `-tolerance`, inserts while it is above `tolerance`; one of the two can always go on.
///
/// # Source
/// The idea of a rate limiter between actors and learner: Cassirer et al., Reverb, 2021.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limiter {
    pub(super) samples_per_insert: f64,
    pub(super) min_rows: u64,
    pub(super) tolerance: f64,
    /// Transitions in a draw.
    pub(super) batch_size: u64,
    pub(super) n_inserted: u64,
    pub(super) n_sampled: u64,
}

impl Limiter {
    fn debt(&self) -> f64 {
        let n_counted = self.n_inserted.saturating_sub(self.min_rows);
        self.samples_per_insert * n_counted as f64 - self.n_sampled as f64
    }

    /// Whether a batch may be drawn.
    pub(super) fn may_sample(&self) -> bool {
        let is_filled = self.n_inserted >= self.min_rows;
        is_filled && self.debt() + self.tolerance >= self.batch_size as f64
    }

    /// Whether who inserts may go on.
    pub(super) fn may_insert(&self) -> bool {
        self.debt() <= self.tolerance || !self.may_sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limiter(samples_per_insert: f64, tolerance: f64) -> Limiter {
        Limiter {
            samples_per_insert,
            min_rows: 100,
            tolerance,
            batch_size: 32,
            n_inserted: 0,
            n_sampled: 0,
        }
    }

    #[test]
    fn nothing_is_drawn_before_the_memory_is_filled() {
        let mut limiter = limiter(1000.0, 64.0);
        for n_inserted in 0..100 {
            limiter.n_inserted = n_inserted;
            assert!(!limiter.may_sample() && limiter.may_insert());
        }
        limiter.n_inserted = 100;
        assert!(limiter.may_sample() && limiter.may_insert()); // the tolerance is spent first
    }

    #[test]
    fn without_tolerance_draws_follow_inserts_exactly() {
        let mut limiter = limiter(0.5, 0.0);
        limiter.n_inserted = 163;
        assert!(!limiter.may_sample() && limiter.may_insert());
        limiter.n_inserted = 164; // 64 counted, of which each is drawn half a time
        assert!(limiter.may_sample() && !limiter.may_insert());
        limiter.n_sampled = 32;
        assert!(!limiter.may_sample() && limiter.may_insert());
    }

    proptest! {
        /// Whatever each side wants, one can go on, and the ratio stays within its bounds.
        #[test]
        fn someone_can_always_go_on(
            samples_per_insert in 0.01f64..50.0,
            tolerance in 0.0f64..500.0,
            wishes in proptest::collection::vec(any::<bool>(), 1..400),
        ) {
            let mut limiter = limiter(samples_per_insert, tolerance);
            for wants_to_sample in wishes {
                prop_assert!(limiter.may_sample() || limiter.may_insert());
                if limiter.may_sample() && (wants_to_sample || !limiter.may_insert()) {
                    limiter.n_sampled += limiter.batch_size;
                } else if limiter.may_insert() {
                    limiter.n_inserted += 20;
                }
                let slack = tolerance.max(32.0) + 20.0 * samples_per_insert;
                prop_assert!(limiter.debt() >= -tolerance && limiter.debt() <= slack);
            }
        }
    }
}
