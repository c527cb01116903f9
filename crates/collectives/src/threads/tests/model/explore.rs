//! The scheduler of the model check: threads that run one at a time, and a search over all choices
//! of the next one.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What one thread of a scenario does.
pub(super) type Body = Box<dyn FnOnce() + Send>;

/// Searches that take longer than this are too large for a test.
const MAX_RUNS: usize = 2_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ready,
    /// Until what lies at this address is free.
    Blocked(usize),
    /// Until it is notified at this address; also until its timeout, if that may expire.
    Asleep {
        at: usize,
        may_expire: bool,
    },
    Done,
}

struct State {
    threads: Vec<Status>,
    /// Whether a thread's last sleep ended by its timeout.
    expired: Vec<bool>,
    running: usize,
    /// The choices of this run so far: which of how many.
    choices: Vec<(usize, usize)>,
    n_chosen: usize,
    preemptions_left: usize,
    failure: Option<String>,
}

/// One run of a scenario.
struct Run {
    state: Mutex<State>,
    /// One for each thread, so that only the next one wakes.
    turns: Vec<Condvar>,
}

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Run>, usize)>> = const { RefCell::new(None) };
}

/// Runs the scenario under every schedule with at most so many preemptions, and returns their
/// number. The scenario gives the bodies of its threads, and a check for the end of each run.
pub(super) fn explore(
    preemptions: usize,
    scenario: impl Fn() -> (Vec<Body>, Box<dyn FnOnce()>),
) -> usize {
    let mut choices: Vec<(usize, usize)> = Vec::new();
    for n_runs in 1..=MAX_RUNS {
        let (bodies, check) = scenario();
        let run = Arc::new(Run::new(bodies.len(), choices, preemptions));
        run.clone().drive(bodies);
        let state = run.lock();
        if let Some(failure) = &state.failure {
            panic!("run {n_runs}, choices {:?}: {failure}", state.choices);
        }
        check();
        choices = state.choices.clone();
        // The last choice that has another option left takes it; all after it begin anew.
        while choices
            .last()
            .is_some_and(|(taken, n_options)| taken + 1 == *n_options)
        {
            choices.pop();
        }
        match choices.last_mut() {
            Some((taken, _)) => *taken += 1,
            None => return n_runs,
        }
    }
    panic!("more than {MAX_RUNS} runs");
}

/// Lets another thread run here, if the search wants to. Every primitive of the model begins with
/// it.
pub(super) fn point() {
    with_run(|run, me| run.switch(me, Status::Ready, false));
}

/// As `point`, but that another thread runs is no preemption here: that none does, although one
/// could, counts as one.
pub(super) fn give_way() {
    with_run(|run, me| run.switch(me, Status::Ready, true));
}

/// Stops until `free(at)`.
pub(super) fn block(at: usize) {
    with_run(|run, me| run.switch(me, Status::Blocked(at), false));
}

/// Lets those that were blocked at this address try again.
pub(super) fn free(at: usize) {
    with_run(|run, _| run.wake(|status| status == Status::Blocked(at)));
}

/// Stops until `notify(at)`, or until the timeout, if it may expire.
pub(super) fn fall_asleep(at: usize, may_expire: bool) {
    with_run(|run, me| run.switch(me, Status::Asleep { at, may_expire }, false));
}

pub(super) fn notify(at: usize) {
    with_run(|run, _| {
        run.wake(|status| matches!(status, Status::Asleep { at: its, .. } if its == at))
    });
}

/// Whether this thread's last sleep ended by its timeout.
pub(super) fn has_expired() -> bool {
    let mut expired = false;
    with_run(|run, me| expired = run.lock().expired[me]);
    expired
}

fn with_run(f: impl FnOnce(&Run, usize)) {
    // A thread that unwinds runs to its end without schedule: its run has failed.
    if std::thread::panicking() {
        return;
    }
    let current = CURRENT.with_borrow(Clone::clone);
    if let Some((run, me)) = current {
        f(&run, me);
    }
}

impl Run {
    fn new(n_threads: usize, choices: Vec<(usize, usize)>, preemptions_left: usize) -> Run {
        let state = State {
            threads: vec![Status::Ready; n_threads],
            expired: vec![false; n_threads],
            running: 0,
            choices,
            n_chosen: 0,
            preemptions_left,
            failure: None,
        };
        Run {
            state: Mutex::new(state),
            turns: (0..n_threads).map(|_| Condvar::new()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drive(self: Arc<Run>, bodies: Vec<Body>) {
        std::thread::scope(|scope| {
            for (me, body) in bodies.into_iter().enumerate() {
                let run = Arc::clone(&self);
                scope.spawn(move || {
                    CURRENT.set(Some((Arc::clone(&run), me)));
                    let result = catch_unwind(AssertUnwindSafe(|| {
                        run.await_turn(me);
                        body();
                    }));
                    CURRENT.set(None);
                    run.finish(me, result.err());
                });
            }
        });
    }

    fn finish(&self, me: usize, panic: Option<Box<dyn std::any::Any + Send>>) {
        if let Some(payload) = panic {
            let error = crate::threads::panicked(me as u32, &*payload);
            self.lock().failure.get_or_insert(error.to_string());
        }
        // Nothing follows, so a run that has failed already must not unwind here.
        let _ = catch_unwind(AssertUnwindSafe(|| self.switch(me, Status::Done, false)));
        if self.lock().failure.is_some() {
            self.turns.iter().for_each(Condvar::notify_one);
        }
    }

    /// Gives this thread a new status, chooses who runs next, and returns when it is this thread
    /// again.
    fn switch(&self, me: usize, status: Status, gives_way: bool) {
        let mut state = self.lock();
        state.threads[me] = status;
        if let Status::Asleep { .. } = status {
            state.expired[me] = false;
        }
        let next = state.choose(me, gives_way);
        match next {
            Some(next) => state.run_next(next),
            None if state.threads.iter().all(|status| *status == Status::Done) => {}
            None => {
                let threads = format!("deadlock: {:?}", state.threads);
                state.failure.get_or_insert(threads);
            }
        }
        drop(state);
        if next != Some(me) {
            match next {
                Some(next) => self.turns[next].notify_one(),
                None => self.turns.iter().for_each(Condvar::notify_one),
            }
            if status != Status::Done {
                self.await_turn(me);
            }
        }
    }

    fn await_turn(&self, me: usize) {
        let mut state = self.lock();
        while state.running != me && state.failure.is_none() {
            state = self.turns[me]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.failure.is_some() {
            drop(state);
            resume_unwind(Box::new("another thread of the run has failed"));
        }
    }

    fn wake(&self, matching: impl Fn(Status) -> bool) {
        let mut state = self.lock();
        for status in &mut state.threads {
            if matching(*status) {
                *status = Status::Ready;
            }
        }
    }
}

impl State {
    /// One of the threads that can run, as the search says; the current one comes first.
    fn choose(&mut self, me: usize, gives_way: bool) -> Option<usize> {
        let can_run = |thread: &usize| match self.threads[*thread] {
            Status::Ready => true,
            Status::Asleep { may_expire, .. } => may_expire,
            _ => false,
        };
        let others = (0..self.threads.len()).filter(|thread| *thread != me);
        let mut options: Vec<usize> = others.filter(can_run).collect();
        let goes_on = self.threads[me] == Status::Ready && !gives_way;
        if goes_on && self.preemptions_left == 0 {
            return Some(me);
        }
        if goes_on {
            options.insert(0, me);
        } else if can_run(&me) && (options.is_empty() || !gives_way || self.preemptions_left > 0) {
            options.push(me);
        }
        let n_options = options.len();
        if n_options <= 1 {
            return options.first().copied();
        }
        if self.n_chosen == self.choices.len() {
            self.choices.push((0, n_options));
        }
        let (taken, expected) = self.choices[self.n_chosen];
        assert_eq!(expected, n_options, "the scenario is not repeatable");
        self.n_chosen += 1;
        let stays = options[taken] == me;
        if goes_on && !stays || gives_way && stays {
            self.preemptions_left -= 1;
        }
        Some(options[taken])
    }

    fn run_next(&mut self, next: usize) {
        if let Status::Asleep { .. } = self.threads[next] {
            self.expired[next] = true;
        }
        self.threads[next] = Status::Ready;
        self.running = next;
    }
}

/// The search itself: it finds the one schedule in which two unguarded increments get lost, and a
/// deadlock.
#[cfg(test)]
mod tests {
    use super::super::sync::{AtomicU64, Mutex, Ordering, lock};
    use super::{Body, explore};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    fn increments(preemptions: usize) -> bool {
        let search = || {
            explore(preemptions, || {
                let count = Arc::new(AtomicU64::new(0));
                let body = |count: &Arc<AtomicU64>| -> Body {
                    let count = Arc::clone(count);
                    Box::new(move || {
                        let seen = count.load(Ordering::SeqCst);
                        count.store(seen + 1, Ordering::SeqCst);
                    })
                };
                let bodies = vec![body(&count), body(&count)];
                let check = move || assert_eq!(count.load(Ordering::SeqCst), 2);
                (bodies, Box::new(check))
            })
        };
        catch_unwind(AssertUnwindSafe(search)).is_ok()
    }

    #[test]
    fn a_lost_update_is_found() {
        assert!(increments(0) && !increments(1));
    }

    #[test]
    fn a_deadlock_is_found() {
        let search = || {
            explore(1, || {
                let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
                let body = |first: usize| -> Body {
                    let locks = Arc::clone(&locks);
                    Box::new(move || {
                        let outer = lock(&locks[first]);
                        drop((lock(&locks[1 - first]), outer));
                    })
                };
                (vec![body(0), body(1)], Box::new(|| ()))
            })
        };
        let panic = catch_unwind(AssertUnwindSafe(search)).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("deadlock"), "{text}");
    }
}
