//! Back-off of a waiting rank: it yields its processor to others before it sleeps, or sleeps at
//! once.
//!
//! Yielding is the fast way from rank to rank where ranks share a core. Where other programs want
//! that core, it is a bad bargain: the system takes an yield for a promise to stay away for a whole
//! time slice, some milliseconds, while a sleeper is let in again when it is woken. A rank cannot
//! know who else is there, but it notices how long an yield took. After one that took long it
//! sleeps at once for some rounds; for twice as many the next time.

use std::cell::Cell;
use std::time::Duration;

/// An yield that takes longer than this went to something else than a short operation of another
/// rank.
pub(super) const LONG: Duration = Duration::from_micros(100);

/// The rounds without yields after a long one: at first, and at most. With the last, 3 ms of a time
/// slice are spread over tens of milliseconds.
const FIRST_BREAK: u64 = 256;
const LONGEST_BREAK: u64 = 8192;

/// One rank's experience with yields.
#[derive(Default)]
pub(super) struct Backoff {
    /// Rounds left in which it makes none.
    n_rounds_off: Cell<u64>,
    /// The length of the last break; 0 if that was long ago.
    last_break: Cell<u64>,
    /// Short yields since then.
    n_short: Cell<u64>,
}

impl Backoff {
    /// True where the rank yields in this round.
    pub(super) fn yields(&self) -> bool {
        let n_rounds_off = self.n_rounds_off.get();
        self.n_rounds_off.set(n_rounds_off.saturating_sub(1));
        n_rounds_off == 0
    }

    /// Notes how the yields of a round went.
    pub(super) fn note(&self, took_long: bool) {
        if took_long {
            let next = (2 * self.last_break.get()).clamp(FIRST_BREAK, LONGEST_BREAK);
            self.n_rounds_off.set(next);
            self.last_break.set(next);
            self.n_short.set(0);
            return;
        }
        self.n_short.set(self.n_short.get() + 1);
        if self.n_short.get() > self.last_break.get() {
            self.last_break.set(self.last_break.get() / 2);
            self.n_short.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    /// The number of rounds with yields, and with long ones, if every `nth` yield is long.
    fn rounds(n_rounds: u64, nth: u64) -> (u64, u64) {
        let backoff = Backoff::default();
        let (mut n_yields, mut n_long) = (0, 0);
        for _ in 0..n_rounds {
            if backoff.yields() {
                n_yields += 1;
                let is_long = n_yields % nth == 0;
                n_long += u64::from(is_long);
                backoff.note(is_long);
            }
        }
        (n_yields, n_long)
    }

    #[test]
    fn long_offers_become_rare_and_short_ones_stay() {
        assert_eq!(rounds(100_000, u64::MAX), (100_000, 0));
        let (_, n_long) = rounds(100_000, 1);
        assert!(n_long < 25, "{n_long}");
        let (_, n_long) = rounds(100_000, 50);
        assert!(n_long < 50, "{n_long}");
    }

    #[test]
    fn breaks_end_and_are_forgotten() {
        let backoff = Backoff::default();
        for _ in 0..20 {
            backoff.note(true);
        }
        let n_rounds_off = (0..).take_while(|_| !backoff.yields()).count();
        assert_eq!(n_rounds_off, 8192);
        for _ in 0..20_000 {
            backoff.note(false);
        }
        backoff.note(true);
        assert_eq!((0..).take_while(|_| !backoff.yields()).count(), 256);
    }
}
