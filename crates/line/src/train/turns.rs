//! The rounds of a step without waiting between them: a job begins once its parts have gone through the jobs before it.
//!
//! Each part has its jobs in the order of the rounds whatever the threads do, so the bits are those of one thread. Threads stay from step to
//! step: a step may be shorter than it takes to start one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, Builder};

use super::cell::Cell;
use super::plan::{Job, Step};
use super::rows::Rows;
use super::step::{Work, locked, panicked, started};
use crate::Error;

/// A part of a table.
pub(super) type Part = (usize, u32);

/// Rows of parts that no job is at work on.
pub(super) type Home<T> = BTreeMap<Part, Rows<T>>;

/// Does a job.
type DoJob<'w, T> = dyn Fn(&mut Work<T>) -> Result<(), Error> + Sync + 'w;

/// The parts of a job, in the order of its rows; `last` is the table of its second.
pub(super) fn parts_of(job: &Job, last: usize) -> impl Iterator<Item = Part> {
    let firsts = job.firsts.iter().map(|&part| (0, part));
    firsts.chain(job.second.map(|part| (last, part)))
}

/// The threads of an order, and what they share.
pub(super) struct Turns<'w, T: Cell> {
    last: usize,
    work: &'w DoJob<'w, T>,
    state: Mutex<State<T>>,
    /// There is a step, a job is done, or all is over.
    changed: Condvar,
}

struct State<T: Cell> {
    /// Jobs that did not begin, by their numbers.
    waiting: BTreeMap<usize, Job>,
    home: Home<T>,
    /// The jobs that each part has before it.
    ahead: BTreeMap<Part, VecDeque<usize>>,
    n_at_work: usize,
    failure: Option<Error>,
    is_over: bool,
}

/// Has so many threads, this one among them, for the steps of `body`; `last` is the last table. An error where one cannot be started.
pub(super) fn with_threads<T: Cell, R>(
    (n_threads, last): (usize, usize),
    work: &DoJob<'_, T>,
    body: impl FnOnce(&Turns<'_, T>) -> Result<R, Error>,
) -> Result<R, Error> {
    let builders = (1..n_threads).map(|_| Builder::new()).collect();
    with_helpers((builders, last), work, body)
}

/// Has a thread of each builder besides this one.
fn with_helpers<T: Cell, R>(
    (builders, last): (Vec<Builder>, usize),
    work: &DoJob<'_, T>,
    body: impl FnOnce(&Turns<'_, T>) -> Result<R, Error>,
) -> Result<R, Error> {
    let state = State {
        waiting: BTreeMap::new(),
        home: BTreeMap::new(),
        ahead: BTreeMap::new(),
        n_at_work: 0,
        failure: None,
        is_over: false,
    };
    let turns = Turns {
        last,
        work,
        state: Mutex::new(state),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        // Before the first thread: where the second cannot be started, the first is not to wait for ever.
        let over = Over(&turns);
        let help = || turns.work_as(Role::Helper);
        let others = builders.into_iter().map(|b| started(b, scope, help));
        let others = others.collect::<Result<Vec<_>, Error>>()?;
        let result = body(&turns);
        drop(over);
        // One that panicked has said so.
        others.into_iter().for_each(|other| drop(other.join()));
        result
    })
}

/// Whose thread it is: that which asks for steps, or one that waits for them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Asking,
    Helper,
}

impl<T: Cell> Turns<'_, T> {
    /// Does all jobs of a step, and gives the rows back.
    pub(super) fn step(&self, step: &Step, home: Home<T>) -> Result<Home<T>, Error> {
        let mut state = locked(&self.state);
        for (number, job) in step.jobs().enumerate() {
            for part in parts_of(job, self.last) {
                state.ahead.entry(part).or_default().push_back(number);
            }
            state.waiting.insert(number, job.clone());
        }
        state.home = home;
        drop(state);
        self.changed.notify_all();
        self.work_as(Role::Asking);
        let mut state = locked(&self.state);
        // A helper that is at work says so when it is done, fails or panics.
        while state.n_at_work > 0 {
            state = self.wait(state);
        }
        state.ahead.clear();
        match state.failure.take() {
            None => Ok(std::mem::take(&mut state.home)),
            Some(error) => {
                state.waiting.clear();
                Err(error)
            }
        }
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State<T>>) -> MutexGuard<'g, State<T>> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(|held| held.into_inner())
    }

    fn work_as(&self, role: Role) {
        let mut second = None;
        while let Some((number, mut taken)) = self.next(role, second) {
            second = taken.job.second;
            let unfinished = Unfinished(self);
            let done = (self.work)(&mut taken);
            self.put_back(number, taken, done.err());
            std::mem::forget(unfinished);
        }
    }

    /// A job that can begin, with its rows: one with the thread's last second part, which its cache holds, or the first. Waits for one; none
    /// where there is nothing left to do.
    fn next(&self, role: Role, second: Option<u32>) -> Option<(usize, Work<T>)> {
        let mut state = locked(&self.state);
        loop {
            let is_idle = state.failure.is_some() || state.waiting.is_empty();
            if state.is_over || (is_idle && role == Role::Asking) {
                return None;
            }
            if let Some(number) = self.ready(&state, second).filter(|_| !is_idle) {
                let job = state.waiting.remove(&number)?;
                let firsts = job.firsts.iter().map(|&part| state.home.remove(&(0, part)));
                let firsts = firsts.collect::<Option<Vec<_>>>()?;
                let second = job.second;
                let second = second.and_then(|part| state.home.remove(&(self.last, part)));
                state.n_at_work += 1;
                let work = Work {
                    job,
                    firsts,
                    second,
                };
                return Some((number, work));
            }
            state = self.wait(state);
        }
    }

    /// A job that is the next of all its parts: one with this second part before all others.
    fn ready(&self, state: &State<T>, second: Option<u32>) -> Option<usize> {
        let is_next = |number: usize, part: Part| {
            let next = state.ahead.get(&part).and_then(VecDeque::front);
            next == Some(&number) && state.home.contains_key(&part)
        };
        let is_ready =
            |number: usize, job: &Job| parts_of(job, self.last).all(|part| is_next(number, part));
        let kept = second.and_then(|part| {
            let number = *state.ahead.get(&(self.last, part))?.front()?;
            let job = state.waiting.get(&number)?;
            is_ready(number, job).then_some(number)
        });
        let mut waiting = state.waiting.iter();
        let mut first = || waiting.find(|&(&number, job)| is_ready(number, job));
        kept.or_else(|| first().map(|(&number, _)| number))
    }

    fn put_back(&self, number: usize, work: Work<T>, failure: Option<Error>) {
        let Work {
            job,
            firsts,
            second,
        } = work;
        let mut state = locked(&self.state);
        for part in parts_of(&job, self.last) {
            let passed = state.ahead.get_mut(&part).and_then(VecDeque::pop_front);
            debug_assert_eq!(passed, Some(number));
        }
        let rows = firsts.into_iter().chain(second);
        state.home.extend(parts_of(&job, self.last).zip(rows));
        self.end_of_job(state, failure);
    }

    fn end_of_job(&self, mut state: MutexGuard<'_, State<T>>, failure: Option<Error>) {
        state.n_at_work -= 1;
        state.failure = state.failure.take().or(failure);
        drop(state);
        self.changed.notify_all();
    }
}

/// Ends the waiting of the others where a job panics.
struct Unfinished<'t, 'w, T: Cell>(&'t Turns<'w, T>);

impl<T: Cell> Drop for Unfinished<'_, '_, T> {
    fn drop(&mut self) {
        let state = locked(&self.0.state);
        self.0.end_of_job(state, Some(panicked()));
    }
}

/// Lets the threads go, also where the thread that asks panics.
struct Over<'t, 'w, T: Cell>(&'t Turns<'w, T>);

impl<T: Cell> Drop for Over<'_, '_, T> {
    fn drop(&mut self) {
        locked(&self.0.state).is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A vertex part and a context part.
    type Pair = (u32, Option<u32>);

    fn no_rows() -> Rows<f32> {
        let cells = shardgraph_device::Device::host().zeros(0).unwrap();
        Rows {
            cells,
            squares: None,
        }
    }

    /// Rounds of two jobs: parts 0 and 1 with contexts 0 and 1, then crossed.
    fn step() -> (Step, Home<f32>) {
        let job = |first, second| Job {
            firsts: vec![first],
            second: Some(second),
            legs: Vec::new(),
        };
        let rounds = vec![
            vec![job(0, 0), job(1, 1)],
            vec![job(0, 1), job(1, 0)],
            vec![job(0, 0), job(1, 1)],
        ];
        let home = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|part| (part, no_rows()));
        let visit = crate::schedule::Visit::pair(0, 0);
        (Step { visit, rounds }, home.into())
    }

    #[test]
    fn a_part_has_its_jobs_in_order_whatever_the_threads_do() {
        for n_threads in [1, 2, 5] {
            let seen: Mutex<BTreeMap<Part, Vec<Pair>>> = Mutex::default();
            let work = |work: &mut Work<f32>| {
                if work.job.firsts == [0] {
                    thread::sleep(std::time::Duration::from_millis(3)); // the other thread could run ahead
                }
                for part in parts_of(&work.job, 1) {
                    let pair = (work.job.firsts[0], work.job.second);
                    locked(&seen).entry(part).or_default().push(pair);
                }
                Ok(())
            };
            with_threads((n_threads, 1), &work, |turns| {
                for _ in 0..3 {
                    let (step, home) = step();
                    assert_eq!(turns.step(&step, home)?.len(), 4);
                }
                Ok(())
            })
            .unwrap();
            let seen = seen.into_inner().unwrap();
            let three = |pairs: [Pair; 3]| pairs.repeat(3);
            assert_eq!(
                seen[&(0, 0)],
                three([(0, Some(0)), (0, Some(1)), (0, Some(0))])
            );
            assert_eq!(
                seen[&(1, 0)],
                three([(0, Some(0)), (1, Some(0)), (0, Some(0))])
            );
            assert_eq!(
                seen[&(1, 1)],
                three([(1, Some(1)), (0, Some(1)), (1, Some(1))])
            );
        }
    }

    #[test]
    fn a_job_that_fails_or_panics_ends_the_step_and_nobody_waits() {
        let fails = |_: &mut Work<f32>| Err(Error::new(ErrorKind::Graph, "no"));
        let one_step = |turns: &Turns<'_, f32>| {
            let (step, home) = step();
            turns.step(&step, home).map(drop)
        };
        let error = with_threads((3, 1), &fails, one_step).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Graph);
        let (asking, has_helped) = (thread::current().id(), AtomicBool::new(false));
        let panics = |_: &mut Work<f32>| {
            let is_helper = thread::current().id() != asking;
            has_helped.fetch_or(is_helper, Ordering::Relaxed);
            assert!(!is_helper, "planted");
            // A helper is to get a job, however long the system lets it wait.
            for _ in 0..60_000 {
                if has_helped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                thread::sleep(std::time::Duration::from_millis(1));
            }
            panic!("no helper took a job in a minute")
        };
        let error = with_threads((2, 1), &panics, one_step).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        let calm = |_: &mut Work<f32>| Ok(());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            with_threads((3, 1), &calm, |_| -> Result<(), Error> {
                panic!("the one who asks")
            })
        }));
        assert!(ended.is_err());
    }

    /// The system has no such stack: that thread is not started, and those before it are let go.
    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_and_nobody_waits() {
        let calm = |_: &mut Work<f32>| Ok(());
        for n_before in [0, 1, 3] {
            let mut builders: Vec<Builder> = (0..n_before).map(|_| Builder::new()).collect();
            builders.push(Builder::new().stack_size(1 << 50));
            let body = |_: &Turns<'_, f32>| -> Result<(), Error> { panic!("not reached") };
            let error = with_helpers((builders, 1), &calm, body).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device);
            let message = error.to_string();
            assert!(
                message.starts_with("cannot start a training thread"),
                "{message}"
            );
        }
    }
}
