//! The meeting point of the ranks: a barrier that compares headers, keeps deadlines, and ends when a rank is lost.

use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::op::{Call, OpKind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    Panicked,
    Aborted,
}

/// Ranks meet here in rounds: round k is over when all of them have arrived k + 1 times. Waiters sleep, they never spin.
pub(super) struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The round that is open now.
    round: u64,
    n_arrived: usize,
    /// What each rank asked for when it arrived last; a rank of the open round has not arrived while its entry is older.
    calls: Vec<Arrival>,
    /// The rank that came first to the open round.
    first: usize,
    /// The round in which two ranks asked for different things. Nobody can go on from it, so there is one at most.
    disagreed: Option<u64>,
    end: Option<End>,
}

#[derive(Clone, Copy)]
struct Arrival {
    round: u64,
    call: Call,
}

impl Meeting {
    pub(super) fn new(n_ranks: u32) -> Meeting {
        let nobody_yet = |rank| Arrival {
            round: u64::MAX,
            call: Call::new(rank, 0, OpKind::Barrier),
        };
        let calls = (0..n_ranks).map(nobody_yet).collect();
        Meeting {
            state: Mutex::new(State {
                round: 0,
                n_arrived: 0,
                calls,
                first: 0,
                disagreed: None,
                end: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits until all ranks have come to this round. What a rank wrote before it came, all others see afterwards.
    ///
    /// A round that is complete counts, whatever happens later: either all ranks get its verdict, or none completes it.
    pub(super) fn meet(&self, call: &Call, deadline: Deadline) -> Result<(), CommErrorKind> {
        let mut state = self.lock();
        if let Some(end) = &state.end {
            return Err(end.error(call));
        }
        let round = state.arrive(call);
        if state.round != round {
            let verdict = state.verdict(round, call);
            drop(state);
            self.changed.notify_all();
            return verdict;
        }
        let expiry = Expiry::of(deadline);
        while state.round == round {
            if let Some(end) = &state.end {
                return Err(end.error(call));
            }
            let Some(left) = expiry.left() else {
                return Err(self.give_up(state, call, deadline));
            };
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.verdict(round, call)
    }

    /// Ends the open round for all, because some ranks did not come in time.
    fn give_up(
        &self,
        mut state: MutexGuard<'_, State>,
        call: &Call,
        deadline: Deadline,
    ) -> CommErrorKind {
        let error = CommErrorKind::Timeout {
            op: call.op,
            seq: call.seq,
            after: deadline.duration(),
            missing: state.missing(),
        };
        state.end = Some(End {
            cause: Cause::Aborted,
            rank: Some(call.rank),
            why: error.to_string(),
        });
        drop(state);
        self.changed.notify_all();
        error
    }

    /// Wakes all waiting ranks with an error. The first cause stays, but a rank that merely left gives way to a panic or an abort.
    pub(super) fn end(&self, end: End) {
        let mut state = self.lock();
        let gives_way = |first: &End| first.cause == Cause::Left && end.cause != Cause::Left;
        if state.end.as_ref().is_none_or(gives_way) {
            state.end = Some(end);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The end that this meeting hands on to communicators split from it.
    pub(super) fn inherited_end(&self) -> Option<End> {
        self.lock()
            .end
            .clone()
            .filter(|end| end.cause != Cause::Left)
    }

    /// What `rank` asked for when it arrived last.
    pub(super) fn call_of(&self, rank: usize) -> Call {
        self.lock().calls[rank].call
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Enters the open round, and closes it if this rank is the last.
    fn arrive(&mut self, call: &Call) -> u64 {
        let round = self.round;
        let rank = call.rank as usize;
        if self.n_arrived == 0 {
            self.first = rank;
        } else if !call.agrees_with(&self.calls[self.first].call) {
            self.disagreed = Some(round);
        }
        self.calls[rank] = Arrival { round, call: *call };
        self.n_arrived += 1;
        if self.n_arrived == self.calls.len() {
            self.n_arrived = 0;
            self.round += 1;
        }
        round
    }

    fn verdict(&self, round: u64, call: &Call) -> Result<(), CommErrorKind> {
        if self.disagreed != Some(round) {
            return Ok(());
        }
        let other = self.calls.iter().map(|arrival| &arrival.call);
        let theirs = other.clone().find(|other| !call.agrees_with(other));
        Err(CommErrorKind::Mismatch {
            seq: call.seq,
            mine: *call,
            theirs: *theirs.unwrap_or(call),
        })
    }

    fn missing(&self) -> Vec<u32> {
        (0u32..)
            .zip(&self.calls)
            .filter(|(_, arrival)| arrival.round != self.round)
            .map(|(rank, _)| rank)
            .collect()
    }
}

impl End {
    /// What an operation gets that can no longer complete.
    pub(super) fn error(&self, call: &Call) -> CommErrorKind {
        let why = self.why.clone();
        match self.cause {
            Cause::Aborted => CommErrorKind::Aborted { by: self.rank, why },
            Cause::Left | Cause::Panicked => CommErrorKind::PeerLost {
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
