//! The barrier point of the ranks: a barrier that compares headers, keeps timeouts, and ends when a
//! rank is lost.
//!
//! One word holds the number of arrivals since the world began, and a bit for its end. Round k is
//! complete when P * (k + 1) arrivals are counted; no arrival is counted after the end. So there is
//! one order of all arrivals and the end, and every rank reads the same from it: a round that is
//! complete counts for all, whatever happens later, and one that is not will never be.
//!
//! A rank that must wait yields its processor [`N_YIELDS`] times (see `backoff`), then it sleeps.
//! It counts itself among the sleepers before it looks at the word for the last time, and who
//! changes the word looks for sleepers afterwards; both orders are sequentially consistent, so one
//! of the two sees the other. A waker passes through the sleepers' lock, hence never comes between
//! a sleeper's last look and its sleep.

use super::backoff::{self, Backoff};
use super::sync::{AtomicU64, Condvar, Expiry, Mutex, Ordering, lock, nap, sleep, yield_now};
use crate::error::CommErrorKind;
use crate::op::{Call, HEADER_WORDS, OpKind};
use crate::operations::Context;
use crate::rank_end::{Cause, RankEnd};
use crate::timeout::Timeout;
use std::time::Duration;

/// Number of times that a waiting rank yields its processor to others before it sleeps. Ranks that
/// share a core then go from one to the next without going to sleep and being woken: a round of 6
/// ranks on 2 cores took 6.3 us with 3 yields and 18 us with none, one of 2 ranks 1.2 us and 3.4
/// us; more yields gave no more. Pauses in a loop in place of them (40) made the 6 ranks slower, 23
/// us.
const N_YIELDS: usize = 3;

/// The bit of the word that says that the world has ended; the arrivals are counted above it.
const ENDED: u64 = 1;
const ARRIVAL: u64 = 2;

/// Number and pace of the looks of a rank that meets a panic for its message, which comes when the
/// panicked thread has unwound.
const N_MESSAGE_LOOKS: usize = 200;
const MESSAGE_PAUSE: Duration = Duration::from_millis(1);

/// One rank's wait in one round.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    /// The number of rounds that this rank has left.
    pub(super) round: u64,
    pub(super) call: &'a Call,
    pub(super) timeout: Timeout,
    pub(super) backoff: &'a Backoff,
}

impl<'a> Wait<'a> {
    pub(super) fn new(round: u64, context: Context<'a>, backoff: &'a Backoff) -> Wait<'a> {
        Wait {
            round,
            call: context.call,
            timeout: context.timeout,
            backoff,
        }
    }
}

/// Things that different ranks write are apart by two cache lines, because adjacent lines are
/// fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct CachePadded<T>(pub(super) T);

/// Ranks meet here in rounds: round k is over when all of them have arrived k + 1 times. Waiters
/// sleep, they never spin.
pub(super) struct Barrier {
    word: CachePadded<AtomicU64>,
    ranks: Vec<CachePadded<RankState>>,
    /// Ranks that sleep or are about to.
    n_asleep: CachePadded<AtomicU64>,
    sleep_lock: Mutex<()>,
    changed: Condvar,
    /// Is there whenever the word says that the world has ended.
    end: Mutex<Option<RankEnd>>,
}

/// State of one rank at the barrier; only this rank changes it.
struct RankState {
    /// Header of its call, in two places that it uses in turn: who writes the one of round k has left
    /// round k - 1, so all ranks had come to round k - 1, so none compares headers of round k - 2
    /// any more.
    headers: [[AtomicU64; HEADER_WORDS]; 2],
    n_arrivals: AtomicU64,
    /// The header once more, for messages.
    call: Mutex<Call>,
}

#[derive(PartialEq, Eq)]
enum Round {
    Open,
    Complete,
    /// It will never be complete.
    Ended,
}

impl Barrier {
    pub(super) fn new(n_ranks: u32) -> Barrier {
        let rank_state = |rank| RankState {
            headers: Default::default(),
            n_arrivals: AtomicU64::new(0),
            call: Mutex::new(Call::new(rank, 0, OpKind::Barrier)),
        };
        Barrier {
            word: CachePadded::default(),
            ranks: (0..n_ranks)
                .map(|rank| CachePadded(rank_state(rank)))
                .collect(),
            n_asleep: CachePadded::default(),
            sleep_lock: Mutex::new(()),
            changed: Condvar::new(),
            end: Mutex::new(None),
        }
    }

    /// Waits until all ranks have come to this round, and compares what they ask for. What a rank
    /// wrote before it came, all others see afterwards.
    pub(super) fn meet(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let rank_state = self.rank_state(wait.call.rank);
        let own = wait.call.header();
        for (word, value) in rank_state.header(wait.round).iter().zip(own) {
            // The arrival publishes it.
            word.store(value, Ordering::Relaxed);
        }
        *lock(&rank_state.call) = *wait.call;
        self.meet_again(wait)?;
        self.compare(wait, &own)
    }

    /// The same in a later round of one operation, where ranks have nothing to compare.
    pub(super) fn meet_again(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let goal = self.goal(wait.round);
        match self.arrive(wait) {
            None => return Err(self.end_error(wait.call)),
            Some(n_arrivals) if n_arrivals == goal => {
                self.wake();
                return Ok(());
            }
            Some(_) => {}
        }
        match self.yield_to_others(wait) {
            Round::Open => {}
            Round::Complete => return Ok(()),
            Round::Ended => return Err(self.end_error(wait.call)),
        }
        self.sleep_through(wait)
    }

    /// Counts this rank's arrival, unless the world has ended, and returns the number of all
    /// arrivals.
    fn arrive(&self, wait: Wait<'_>) -> Option<u64> {
        let mut word = self.word.0.load(Ordering::SeqCst);
        while word & ENDED == 0 {
            match self.word.0.compare_exchange(
                word,
                word + ARRIVAL,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => {
                    let rank_state = self.rank_state(wait.call.rank);
                    rank_state
                        .n_arrivals
                        .store(wait.round + 1, Ordering::SeqCst);
                    return Some((word + ARRIVAL) / ARRIVAL);
                }
                Err(now) => word = now,
            }
        }
        None
    }

    /// Lets others run a few times, in the hope that they come meanwhile.
    fn yield_to_others(&self, wait: Wait<'_>) -> Round {
        if !wait.backoff.yields() {
            return Round::Open;
        }
        let goal = self.goal(wait.round);
        let short = Expiry::of(Timeout::after(backoff::LONG));
        let mut state = Round::Open;
        for _ in 0..N_YIELDS {
            yield_now();
            state = self.state(goal);
            if state != Round::Open {
                break;
            }
        }
        wait.backoff.note(short.left().is_none());
        state
    }

    fn sleep_through(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let goal = self.goal(wait.round);
        let expiry = Expiry::of(wait.timeout);
        let mut sleep_lock = lock(&self.sleep_lock);
        self.n_asleep.0.fetch_add(1, Ordering::SeqCst);
        let left = loop {
            let left = expiry.left();
            match (self.state(goal), left) {
                (Round::Open, Some(left)) => sleep_lock = sleep(&self.changed, sleep_lock, left),
                (state, _) => break state,
            }
        };
        self.n_asleep.0.fetch_sub(1, Ordering::SeqCst);
        drop(sleep_lock);
        match left {
            Round::Complete => Ok(()),
            Round::Ended => Err(self.end_error(wait.call)),
            Round::Open => self.give_up(wait),
        }
    }

    /// Ends the world because some ranks did not come in time; unless they came just now, or it
    /// ended for another reason.
    fn give_up(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let goal = self.goal(wait.round);
        // Who sees the end waits for this lock before it reads why.
        let mut end = lock(&self.end);
        let mut word = self.word.0.load(Ordering::SeqCst);
        loop {
            if word / ARRIVAL >= goal {
                return Ok(());
            }
            if word & ENDED != 0 {
                drop(end);
                return Err(self.end_error(wait.call));
            }
            match self.word.0.compare_exchange(
                word,
                word | ENDED,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let n_missing = (goal - word / ARRIVAL) as usize;
        let error = CommErrorKind::Timeout {
            op: wait.call.op,
            seq: wait.call.seq,
            after: wait.timeout.duration(),
            missing: self.missing(wait.round, n_missing),
        };
        let by = Some(wait.call.rank);
        *end = Some(RankEnd::new(Cause::Aborted, by, error.to_string()));
        drop(end);
        self.wake();
        Err(error)
    }

    /// The ranks that have not come to this round. A rank is counted an instruction before its
    /// state says so, hence the second looks.
    fn missing(&self, round: u64, n_missing: usize) -> Vec<u32> {
        const LOOKS: usize = 100;
        let has_come = |rank_state: &CachePadded<RankState>| {
            rank_state.0.n_arrivals.load(Ordering::SeqCst) > round
        };
        let absent = || {
            let ranks = (0u32..).zip(&self.ranks);
            ranks
                .filter(|(_, rank_state)| !has_come(rank_state))
                .map(|(rank, _)| rank)
        };
        for _ in 0..LOOKS {
            if absent().count() == n_missing {
                break;
            }
            yield_now();
        }
        absent().collect()
    }

    /// Wakes all waiting ranks with an error. The first cause stays, but a rank that merely left
    /// gives way to a panic or an abort, and a panic to its own message.
    pub(super) fn end(&self, end: RankEnd) {
        let mut first = lock(&self.end);
        if first.as_ref().is_none_or(|first| first.gives_way_to(&end)) {
            *first = Some(end);
        }
        self.word.0.fetch_or(ENDED, Ordering::SeqCst);
        drop(first);
        self.wake();
    }

    /// True once the world has ended. Ranks look here during long work, so that one that must leave
    /// need not wait for it.
    pub(super) fn has_ended(&self) -> bool {
        self.word.0.load(Ordering::Relaxed) & ENDED != 0
    }

    /// The panic or abort that ended this world, as it is known now: an error beside the operations.
    /// A panic's message is waited for as in operations.
    pub(super) fn failure(&self) -> Option<CommErrorKind> {
        let end = self.final_end()?;
        (end.cause != Cause::Left).then(|| end.failure())
    }

    /// The end; after a panic its message is waited for, as it is about to come.
    fn final_end(&self) -> Option<RankEnd> {
        for _ in 0..N_MESSAGE_LOOKS {
            match &*lock(&self.end) {
                Some(end) if end.cause == Cause::Panicking => {}
                end => return end.clone(),
            }
            nap(MESSAGE_PAUSE);
        }
        lock(&self.end).clone()
    }

    /// The call of `rank` when it arrived last.
    pub(super) fn call_of(&self, rank: usize) -> Call {
        *lock(&self.ranks[rank].0.call)
    }

    fn wake(&self) {
        if self.n_asleep.0.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.sleep_lock));
            self.changed.notify_all();
        }
    }

    fn rank_state(&self, rank: u32) -> &RankState {
        &self.ranks[rank as usize].0
    }

    /// The arrivals that complete a round.
    fn goal(&self, round: u64) -> u64 {
        self.ranks.len() as u64 * (round + 1)
    }

    fn state(&self, goal: u64) -> Round {
        let word = self.word.0.load(Ordering::SeqCst);
        if word / ARRIVAL >= goal {
            Round::Complete
        } else if word & ENDED != 0 {
            Round::Ended
        } else {
            Round::Open
        }
    }

    /// Compares the headers of all ranks, so that all come to the same verdict.
    fn compare(&self, wait: Wait<'_>, own: &[u64; HEADER_WORDS]) -> Result<(), CommErrorKind> {
        let differs = |rank_state: &&CachePadded<RankState>| {
            let words = rank_state.0.header(wait.round).iter();
            words
                .zip(own)
                .any(|(word, own)| word.load(Ordering::Relaxed) != *own)
        };
        match self.ranks.iter().find(differs) {
            None => Ok(()),
            Some(other) => Err(CommErrorKind::Mismatch {
                seq: wait.call.seq,
                mine: *wait.call,
                theirs: *lock(&other.0.call),
            }),
        }
    }

    fn end_error(&self, call: &Call) -> CommErrorKind {
        match self.final_end() {
            Some(end) => end.error(call),
            None => unreachable!("whoever ends a world says why under the lock"),
        }
    }
}

impl RankState {
    fn header(&self, round: u64) -> &[AtomicU64; HEADER_WORDS] {
        &self.headers[(round % 2) as usize]
    }
}
