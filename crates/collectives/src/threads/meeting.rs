//! The meeting point of the ranks: a barrier that compares headers, keeps deadlines, and ends when a rank is lost.
//!
//! One word holds the number of arrivals since the world began, and a bit for its end. Round k is complete when P * (k + 1) arrivals are
//! counted; no arrival is counted after the end. So there is one order of all arrivals and the end, and every rank reads the same from it: a
//! round that is complete counts for all, whatever happens later, and one that is not will never be.
//!
//! A rank that must wait offers its processor [`OFFERS`] times (see `patience`), then it sleeps. It counts itself among the sleepers before it looks at the word
//! for the last time, and who changes the word looks for sleepers afterwards; both orders are sequentially consistent, so one of the two sees the
//! other. A waker passes through the sleepers' lock, hence never comes between a sleeper's last look and its sleep.

use super::patience::{self, Patience};
use super::sync::{AtomicU64, Condvar, Expiry, Mutex, Ordering, lock, nap, sleep, yield_now};
use crate::deadline::Deadline;
use crate::error::CommErrorKind;
use crate::op::{Call, HEADER_WORDS, OpKind};
use std::time::Duration;

/// How often a waiting rank offers its processor to others before it sleeps. Ranks that share a core then go from one to the next without
/// going to sleep and being woken: a round of 6 ranks on 2 cores took 6.3 us with 3 offers and 18 us with none, one of 2 ranks 1.2 us and
/// 3.4 us; more offers gave no more. Pauses in a loop in place of them (40) made the 6 ranks slower, 23 us.
const OFFERS: usize = 3;

/// The bit of the word that says that the world has ended; the arrivals are counted above it.
const ENDED: u64 = 1;
const ARRIVAL: u64 = 2;

/// How often and at what pace a rank that meets a panic looks for its message, which comes when the panicked thread has unwound.
const N_MESSAGE_LOOKS: usize = 200;
const MESSAGE_PAUSE: Duration = Duration::from_millis(1);

/// Why no further round can complete.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) cause: Cause,
    /// The rank where it began; `None` if it has no number here.
    pub(super) rank: Option<u32>,
    /// What happened there, as text.
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The rank dropped its communicator.
    Left,
    /// It dropped its communicator by a panic, whose message comes as soon as its thread has unwound; unless somebody catches the panic before.
    Panicking,
    Panicked,
    Aborted,
}

/// One rank's wait in one round.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    /// The number of rounds that this rank has left.
    pub(super) round: u64,
    pub(super) call: &'a Call,
    pub(super) deadline: Deadline,
    pub(super) patience: &'a Patience,
}

/// Things that different ranks write are apart by two cache lines, because adjacent lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Apart<T>(pub(super) T);

/// Ranks meet here in rounds: round k is over when all of them have arrived k + 1 times. Waiters sleep, they never spin.
pub(super) struct Meeting {
    word: Apart<AtomicU64>,
    seats: Vec<Apart<Seat>>,
    /// Ranks that sleep or are about to.
    n_asleep: Apart<AtomicU64>,
    bed: Mutex<()>,
    changed: Condvar,
    /// Is there whenever the word says that the world has ended.
    end: Mutex<Option<End>>,
}

/// What one rank shows at the meeting; only this rank changes it.
struct Seat {
    /// What it asks for, in two places that it uses in turn: who writes the one of round k has left round k - 1, so all ranks had come to
    /// round k - 1, so none compares headers of round k - 2 any more.
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

impl Meeting {
    pub(super) fn new(n_ranks: u32) -> Meeting {
        let seat = |rank| Seat {
            headers: Default::default(),
            n_arrivals: AtomicU64::new(0),
            call: Mutex::new(Call::new(rank, 0, OpKind::Barrier)),
        };
        Meeting {
            word: Apart::default(),
            seats: (0..n_ranks).map(|rank| Apart(seat(rank))).collect(),
            n_asleep: Apart::default(),
            bed: Mutex::new(()),
            changed: Condvar::new(),
            end: Mutex::new(None),
        }
    }

    /// Waits until all ranks have come to this round, and compares what they ask for. What a rank wrote before it came, all others see
    /// afterwards.
    pub(super) fn meet(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let seat = self.seat(wait.call.rank);
        let own = wait.call.header();
        for (word, value) in seat.header(wait.round).iter().zip(own) {
            // The arrival publishes it.
            word.store(value, Ordering::Relaxed);
        }
        *lock(&seat.call) = *wait.call;
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
        match self.offer(wait) {
            Round::Open => {}
            Round::Complete => return Ok(()),
            Round::Ended => return Err(self.end_error(wait.call)),
        }
        self.sleep_through(wait)
    }

    /// Counts this rank's arrival, unless the world has ended, and returns the number of all arrivals.
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
                    let seat = self.seat(wait.call.rank);
                    seat.n_arrivals.store(wait.round + 1, Ordering::SeqCst);
                    return Some((word + ARRIVAL) / ARRIVAL);
                }
                Err(now) => word = now,
            }
        }
        None
    }

    /// Lets others run a few times, in the hope that they come meanwhile.
    fn offer(&self, wait: Wait<'_>) -> Round {
        if !wait.patience.offers() {
            return Round::Open;
        }
        let goal = self.goal(wait.round);
        let short = Expiry::of(Deadline::after(patience::LONG));
        let mut state = Round::Open;
        for _ in 0..OFFERS {
            yield_now();
            state = self.state(goal);
            if state != Round::Open {
                break;
            }
        }
        wait.patience.note(short.left().is_none());
        state
    }

    fn sleep_through(&self, wait: Wait<'_>) -> Result<(), CommErrorKind> {
        let goal = self.goal(wait.round);
        let expiry = Expiry::of(wait.deadline);
        let mut bed = lock(&self.bed);
        self.n_asleep.0.fetch_add(1, Ordering::SeqCst);
        let left = loop {
            let left = expiry.left();
            match (self.state(goal), left) {
                (Round::Open, Some(left)) => bed = sleep(&self.changed, bed, left),
                (state, _) => break state,
            }
        };
        self.n_asleep.0.fetch_sub(1, Ordering::SeqCst);
        drop(bed);
        match left {
            Round::Complete => Ok(()),
            Round::Ended => Err(self.end_error(wait.call)),
            Round::Open => self.give_up(wait),
        }
    }

    /// Ends the world because some ranks did not come in time; unless they came just now, or it ended for another reason.
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
            after: wait.deadline.duration(),
            missing: self.missing(wait.round, n_missing),
        };
        *end = Some(End {
            cause: Cause::Aborted,
            rank: Some(wait.call.rank),
            why: error.to_string(),
        });
        drop(end);
        self.wake();
        Err(error)
    }

    /// The ranks that have not come to this round. A rank is counted an instruction before its seat says so, hence the second looks.
    fn missing(&self, round: u64, n_missing: usize) -> Vec<u32> {
        const LOOKS: usize = 100;
        let has_come = |seat: &Apart<Seat>| seat.0.n_arrivals.load(Ordering::SeqCst) > round;
        let absent = || {
            let seats = (0u32..).zip(&self.seats);
            seats
                .filter(|(_, seat)| !has_come(seat))
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

    /// Wakes all waiting ranks with an error. The first cause stays, but a rank that merely left gives way to a panic or an abort, and a panic to its own
    /// message.
    pub(super) fn end(&self, end: End) {
        let mut first = lock(&self.end);
        if first.as_ref().is_none_or(|first| first.gives_way_to(&end)) {
            *first = Some(end);
        }
        self.word.0.fetch_or(ENDED, Ordering::SeqCst);
        drop(first);
        self.wake();
    }

    /// Whether the world has ended. Ranks look here during long work, so that one that must leave need not wait for it.
    pub(super) fn has_ended(&self) -> bool {
        self.word.0.load(Ordering::Relaxed) & ENDED != 0
    }

    /// The end that this meeting hands on to communicators split from it, as it is known now.
    pub(super) fn inherited_end(&self) -> Option<End> {
        lock(&self.end)
            .clone()
            .filter(|end| end.cause != Cause::Left)
    }

    /// The end; after a panic its message is waited for, as it is about to come.
    fn final_end(&self) -> Option<End> {
        for _ in 0..N_MESSAGE_LOOKS {
            match &*lock(&self.end) {
                Some(end) if end.cause == Cause::Panicking => {}
                end => return end.clone(),
            }
            nap(MESSAGE_PAUSE);
        }
        lock(&self.end).clone()
    }

    /// What `rank` asked for when it arrived last.
    pub(super) fn call_of(&self, rank: usize) -> Call {
        *lock(&self.seats[rank].0.call)
    }

    fn wake(&self) {
        if self.n_asleep.0.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.bed));
            self.changed.notify_all();
        }
    }

    fn seat(&self, rank: u32) -> &Seat {
        &self.seats[rank as usize].0
    }

    /// The arrivals that complete a round.
    fn goal(&self, round: u64) -> u64 {
        self.seats.len() as u64 * (round + 1)
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
        let differs = |seat: &&Apart<Seat>| {
            let words = seat.0.header(wait.round).iter();
            words
                .zip(own)
                .any(|(word, own)| word.load(Ordering::Relaxed) != *own)
        };
        match self.seats.iter().find(differs) {
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

impl Seat {
    fn header(&self, round: u64) -> &[AtomicU64; HEADER_WORDS] {
        &self.headers[(round % 2) as usize]
    }
}

impl End {
    fn gives_way_to(&self, later: &End) -> bool {
        match self.cause {
            Cause::Left => later.cause != Cause::Left,
            Cause::Panicking => later.cause == Cause::Panicked && later.rank == self.rank,
            Cause::Panicked | Cause::Aborted => false,
        }
    }

    /// What an operation gets that can no longer complete.
    pub(super) fn error(&self, call: &Call) -> CommErrorKind {
        let why = self.why.clone();
        match self.cause {
            Cause::Aborted => CommErrorKind::Aborted { by: self.rank, why },
            Cause::Left | Cause::Panicking | Cause::Panicked => CommErrorKind::PeerLost {
                rank: self.rank,
                op: call.op,
                seq: call.seq,
                why,
            },
        }
    }

    /// The same end as seen by a group of the ranks, where each has the number of its position.
    pub(super) fn within(&self, group: &[u32]) -> End {
        let position = group.iter().position(|&member| Some(member) == self.rank);
        End {
            rank: position.map(|position| position as u32),
            ..self.clone()
        }
    }
}
